package files

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// A safe name is one plain component of a path, whatever it is made of.
func TestSafeName(t *testing.T) {
	for given, want := range map[string]string{
		"qa_text-4k.v2": "qa_text-4k.v2", "a b": "a_b", "../x": "_.._x", "": "_", ".hidden": "_.hidden", "-rf": "_-rf", "con": "_con", "NUL.txt": "_NUL.txt", "console": "console",
		"漢字é": "漢字é", "a\x1b[31m": "a_31m", "\xff": "_", strings.Repeat("é", 150): strings.Repeat("é", 100),
	} {
		if got := SafeName(given); got != want {
			t.Errorf("SafeName(%q) = %q, expected %q", given, got, want)
		}
	}
	r := rand.New(rand.NewPCG(20, 2))
	for range 20_000 {
		s := tracetest.HostileText(r)
		if n := SafeName(s); filepath.Base(n) != n || n == "." || n == ".." || n[0] == '-' || n[0] == '.' || len(n) > 200 || !utf8.ValidString(n) || strings.ContainsAny(n, "\x00\n\\:*?\"<>|[]{}$`!&;() '~#=") {
			t.Errorf("SafeName(%q) = %q", s, n)
		}
	}
}
