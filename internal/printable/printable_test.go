package printable

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

var cases = []struct{ given, text, line string }{
	{"plain × ≈ é 漢 🙂 \\", "plain × ≈ é 漢 🙂 \\", "plain × ≈ é 漢 🙂 \\"},
	{"l\u200br\u200du\ufeff\u00ad\ufe0f\u115f", `l\u200br\u200du\ufeff\u00ad\ufe0f\u115f`, `l\u200br\u200du\ufeff\u00ad\ufe0f\u115f`},
	{"a\n\tb", "a\n\tb", `a\n\tb`},
	{"a\x1b[31mb\x07\r\x7f\x00", `a\x1b[31mb\a\r\x7f\x00`, `a\x1b[31mb\a\r\x7f\x00`},
	{"t\u202eqaz\u2066\u200f", `t\u202eqaz\u2066\u200f`, `t\u202eqaz\u2066\u200f`},
	{"c1 \u009b line \u2028\u2029", `c1 \u009b line \u2028\u2029`, `c1 \u009b line \u2028\u2029`},
	{"bytes \xff\xe2\x80 end \uFFFD", `bytes \xff\xe2\x80 end ` + "\uFFFD", `bytes \xff\xe2\x80 end ` + "\uFFFD"},
	{"", "", ""},
}

// Characters that control a terminal are escaped. All others are unchanged.
func TestText(t *testing.T) {
	for _, c := range cases {
		if got := Text(c.given); got != c.text {
			t.Errorf("Text(%q) = %q, expected %q", c.given, got, c.text)
		}
		if got := Line(c.given); got != c.line {
			t.Errorf("Line(%q) = %q, expected %q", c.given, got, c.line)
		}
		if got := Text(Text(c.given)); got != c.text {
			t.Errorf("twice: %q", got)
		}
	}
}

// The writer's output does not depend on the division of the text.
func TestWriter(t *testing.T) {
	for _, c := range cases {
		for size := 1; size < 6; size++ {
			var b strings.Builder
			w := NewWriter(&b)
			for rest := c.given; rest != ""; {
				n := min(size, len(rest))
				if got, err := w.Write([]byte(rest[:n])); got != n || err != nil {
					t.Fatal(got, err)
				}
				rest = rest[n:]
			}
			if err := w.Flush(); err != nil || b.String() != c.text {
				t.Errorf("%q by %d: %q, %v, expected %q", c.given, size, b.String(), err, c.text)
			}
		}
	}
	if _, err := NewWriter(full{}).Write([]byte("x")); !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// A shell reads a quoted word unchanged.
func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{
		"trace!=a.parquet": "'trace!=a.parquet'", "lfu-decay:half_life=16": "lfu-decay:half_life=16", "": "''", "a b": "'a b'",
		"a;$(touch x)'`b`": `'a;$(touch x)'\''` + "`b`'", "a*\n&|": "'a*\n&|'",
	} {
		if got := ShellWord(word); got != want {
			t.Errorf("%q: %s, expected %s", word, got, want)
		}
		if out, err := exec.Command("sh", "-c", "printf %s "+ShellWord(word)).Output(); err != nil || string(out) != word {
			t.Errorf("sh reads %q as %q, %v", word, out, err)
		}
	}
}
