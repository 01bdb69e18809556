package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay"
)

// A folder that holds results of another engine version: nothing of them is reused,
// and the board refuses to pool them and says how to choose.
func TestFolderOfAnotherEngine(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	args := []string{"replay", path, "--policy", "lru", "--policy", "opt", "--capacity", "2x", "--out", out}
	if code, _, stderr := run(args...); code != 0 {
		t.Fatal(stderr)
	}
	makeOld(t, out)
	code, _, stderr := run(args...)
	if code != 0 || !strings.Contains(stderr, "(0 cells were there already)") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	code, stdout, stderr := run("leaderboard", out)
	if code == 0 || stdout != "" || !strings.Contains(stderr, "engine") || !strings.Contains(stderr, "--where") {
		t.Errorf("exit %d, %q: %s", code, stdout, stderr)
	}
	if code, _, stderr := run("leaderboard", out, "--where", "engine="+replay.EngineVersion); code != 0 {
		t.Errorf("with --where engine=%s: %s", replay.EngineVersion, stderr)
	}
}

// makeOld turns the results of a folder into those of engine 0, under names of their own.
func makeOld(t *testing.T, out string) {
	t.Helper()
	for _, pattern := range []string{"*.jsonl", "cells/*.jsonl"} {
		files, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text = bytes.ReplaceAll(text, []byte(`"engine":"`+replay.EngineVersion+`"`), []byte(`"engine":"0"`))
			name := strings.TrimSuffix(f, ".jsonl") + "0.jsonl"
			if strings.Contains(pattern, "cells") {
				name = f // even under the name of the new engine's cell
			}
			if err := os.WriteFile(name, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
