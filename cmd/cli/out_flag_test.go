package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// Every spelling names what is written, of a command that writes a file and of one that
// writes a folder.
func TestOutSpellings(t *testing.T) {
	in := smallTrace(t, small)
	for _, flag := range []string{"-o", "--out", "--output"} {
		dir := t.TempDir()
		if code, _, stderr := run("derive", in, "--layers", "0", flag, filepath.Join(dir, "derived.parquet")); code != 0 {
			t.Errorf("derive %s: %s", flag, stderr)
		}
		if code, _, stderr := run("replay", in, "--policy", "lru", "--capacity", "1x", flag, dir); code != 0 {
			t.Errorf("replay %s: %s", flag, stderr)
		}
		for _, written := range []string{"derived.parquet", "small.rows.jsonl"} {
			if found, _ := filepath.Glob(filepath.Join(dir, written)); len(found) != 1 {
				t.Errorf("%s wrote %v, expected %s", flag, found, written)
			}
		}
	}
}

// A slip in either long spelling is offered that spelling.
func TestOutSlips(t *testing.T) {
	for slip, want := range map[string]string{"--ouput": "--output", "--outt": "--out"} {
		if code, _, stderr := run("derive", "t.parquet", slip, "x.parquet"); code != 2 || !strings.Contains(stderr, "did you mean "+want) {
			t.Errorf("%s: exit %d, %s, expected %s to be offered", slip, code, stderr, want)
		}
	}
}
