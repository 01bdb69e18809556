package printable

import (
	"os/exec"
	"testing"
)

// A shell reads a quoted word as it was.
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
