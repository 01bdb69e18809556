package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// If its profile exists unchanged, a repeated run with --profile replays nothing. Otherwise it
// replays everything. Both end with the same files.
func TestProfileAgain(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	args := []string{"replay", path, "--policy", "lru", "--policy", "opt", "--capacity", "1x,2x", "--out", out, "--profile"}
	profile := func() string {
		found, err := filepath.Glob(filepath.Join(out, "*.parquet"))
		if err != nil || len(found) != 1 {
			t.Fatalf("profiles %v, %v", found, err)
		}
		return found[0]
	}
	var want, rows []byte
	for _, step := range []struct {
		name    string
		before  func() error
		flags   []string
		there   string // cells that the run finds
		another bool   // the run writes a different profile
	}{
		{"first", func() error { return nil }, nil, "(0 cells", true},
		{"again", func() error { return nil }, nil, "(4 cells", false},
		{"rows lost", func() error { return os.Remove(rowsPath(t, out)) }, nil, "(4 cells", false},
		{"fresh", func() error { return nil }, []string{"--fresh"}, "(0 cells", false},
		{"profile lost", func() error { return os.Remove(profile()) }, nil, "(0 cells", false},
		{"profile damaged", func() error { return os.Truncate(profile(), 100) }, nil, "(0 cells", false},
		{"cells lost", func() error { return os.RemoveAll(filepath.Join(out, "cells")) }, nil, "(0 cells", false},
		{"digest lost", func() error { return os.RemoveAll(filepath.Join(out, "profiles")) }, nil, "(0 cells", false},
		{"with indices", func() error { return nil }, []string{"--profile-indices"}, "(0 cells", true},
		{"with indices again", func() error { return nil }, []string{"--profile-indices"}, "(4 cells", false},
		{"without indices", func() error { return nil }, nil, "(0 cells", true},
		{"referee", func() error { return nil }, []string{"--referee"}, "(0 cells", false},
	} {
		fatal.If(t, step.before())
		says(t, 0, step.there, append(args, step.flags...)...)
		text, err := os.ReadFile(profile())
		fatal.If(t, err)
		if step.another {
			want = text
		} else if !bytes.Equal(text, want) {
			t.Errorf("%s: the profile is another", step.name)
		}
		if rows == nil {
			rows = rowsOf(t, out)
		} else if !bytes.Equal(rowsOf(t, out), rows) {
			t.Errorf("%s: the rows are others", step.name)
		}
	}
}

func rowsPath(t *testing.T, out string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(out, "*.jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("rows %v, %v", found, err)
	}
	return found[0]
}

// A profile of another version in the folder is not offered as a choice.
func TestOldProfileIsNoChoice(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	kvreplay(t, 0, "replay", path, "--policy", "lru", "--capacity", "2x", "--out", out, "--profile")
	found, err := filepath.Glob(filepath.Join(out, "*.parquet"))
	if err != nil || len(found) != 1 {
		t.Fatalf("profiles %v, %v", found, err)
	}
	old := strings.Replace(found[0], ".profile-", ".profile-0", 1)
	text, err := os.ReadFile(found[0])
	if err != nil || bytes.Count(text, []byte(`"schema":3`)) != 1 {
		t.Fatalf("%v: expected one schema to change", err)
	}
	fatal.If(t, os.WriteFile(old, bytes.Replace(text, []byte(`"schema":3`), []byte(`"schema":1`), 1), 0o600))
	args := []string{"--model", "smollm2-135m", "--layer-map", "nearest"}
	want, _ := kvreplay(t, 0, append([]string{"time", found[0]}, args...)...)
	if got, _ := kvreplay(t, 0, append([]string{"time", out}, args...)...); got != want {
		t.Errorf("of the folder:\n%s\nof the profile:\n%s", got, want)
	}
	if _, stderr := kvreplay(t, 1, append([]string{"time", old}, args...)...); !strings.Contains(stderr, "schema 1, expected 3: replay the trace again") {
		t.Error(stderr)
	}
}

// With profiles of several runs in a folder, time takes the one that has the cell.
func TestTimeChoosesProfile(t *testing.T) {
	in, out := smallTrace(t, small), t.TempDir()
	for _, policy := range []string{"lru", "lfu"} {
		must(t, "replay", in, "--policy", policy, "--capacity", "2x", "--entry-bytes", "768", "--profile", "--out", out)
	}
	args := []string{"time", out, "--model", "smollm2-135m", "--layer-map", "nearest"}
	if text := must(t, append(args, "--policy", "lfu")...); !strings.Contains(text, "lfu @ 2x") {
		t.Errorf("no times of lfu:\n%s", text)
	}
	says(t, 1, "has 2 profiles, expected one", args...)
}
