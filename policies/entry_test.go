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
