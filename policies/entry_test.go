package policies

import "testing"

func TestPackageComment(t *testing.T) {
	for source, want := range map[string]string{
		"// Package a is.\n//\n//\tcode\n// End.\npackage a\n\n// Not this.\n": "Package a is.\n\n\tcode\nEnd.\n",
		"package a\n":                 "",
		"":                            "",
		"// Windows.\r\npackage a":    "Windows.\n",
		"// One.\n\n// Two.\npackage": "One.\n",
	} {
		if got := PackageComment(source); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}

func TestTableRefusesTwoOfAName(t *testing.T) {
	defer func() {
		if r := recover(); r != `policies: two entries named "a"` {
			t.Errorf("panic %v", r)
		}
	}()
	NewTable(Entry{Name: "a"}, Entry{Name: "b"}, Entry{Name: "a"})
}

// Names are offered nearest first; one that differs in case alone stands for itself.
func TestNearest(t *testing.T) {
	known := []string{"lfu", "lru", "lrfu", "sieve", "window", "wind", "sieve"}
	for name, want := range map[string]string{
		"LRU": ", did you mean lru?", "lur": "", "lrf": ", did you mean lru or lrfu?", "seive": "", "siev2": ", did you mean sieve?", "wi": ", did you mean wind or window?", "siev": ", did you mean sieve?",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%s: %q, expected %q", name, got, want)
		}
	}
}
