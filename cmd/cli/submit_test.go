package cli_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// submittedExample is a submission of the repository.
const submittedExample = "../../policies/submissions/lru2"

// A policy from `policies new` is submitted in a copy of the repository. A false claim leaves the
// copy as it was.
func TestSubmit(t *testing.T) {
	root, clone, mine := repository(t), t.TempDir(), filepath.Join(t.TempDir(), "mine")
	copyTree(t, root, clone)
	t.Chdir(clone)
	t.Setenv("GOFLAGS", "-trimpath")
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOWORK", "off")
	if code, _, errs := run("policies", "new", "mine", "--dir", mine); code != 0 {
		t.Fatal(errs)
	}
	folder := filepath.Join(mine, "mine")
	table := content(t, "policies/all/all.go")
	for _, step := range []struct {
		card, says string
		code       int
	}{
		{"", "card.yaml: authors is missing: name at least one person", 1},
		{"policy: mine\nauthors: [A]\nsource: new\nlicence: MIT\nclaims:\n  - {better_than: lrfu}\n", "a claim does not hold: fewer misses than lrfu", 1},
		{"policy: mine\nauthors: [A]\nsource: new\nlicence: MIT\nclaims:\n  - {better_than: fifo, capacity: 2x, split: open}\n", "", 0},
	} {
		if step.card != "" {
			write(t, filepath.Join(folder, "card.yaml"), step.card)
		}
		code, out, errs := run("submit", folder)
		if code != step.code || !strings.Contains(errs, step.says) {
			t.Fatalf("exit code %d, expected %d and %q:\n%s%s", code, step.code, step.says, out, errs)
		}
		_, err := os.Stat("policies/submissions/mine")
		if now := content(t, "policies/all/all.go"); code != 0 && (now != table || err == nil) {
			t.Errorf("a failed submission changed the clone: %v\n%s", err, now)
		}
		if code == 0 && (!strings.Contains(out, "fewer misses than fifo at 2x on the open traces") || !strings.Contains(out, "235 of 235")) {
			t.Error(out)
		}
	}
	if test := content(t, "policies/submissions/mine/mine_test.go"); !strings.Contains(test, `"github.com/kvreplay/kvreplay/policies/submissions/mine"`) {
		t.Error(test)
	}
	if code, _, errs := run("submit", folder); code != 1 || !strings.Contains(errs, "exists") {
		t.Errorf("submitted twice: exit code %d, %s", code, errs)
	}
	write(t, filepath.Join(folder, "mine.go"), strings.Replace(content(t, filepath.Join(folder, "mine.go")), "import (", "import (\n\t_ \"example.com/other\"", 1))
	fatal.If(t, os.RemoveAll("policies/submissions/mine"))
	if code, _, errs := run("submit", folder); code != 1 || !strings.Contains(errs, "mine.go imports example.com/other: a submission may import") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// The submissions of the repository hold.
func TestSubmissionsHold(t *testing.T) {
	if testing.Short() {
		t.Skip("replays the corpus")
	}
	t.Chdir(filepath.Join("..", ".."))
	code, out, errs := run("submit", "check", "--format", "json")
	var all []struct {
		Policy        string
		Rows, Holding int
		Verdicts      []struct{ Holds bool }
	}
	if err := json.Unmarshal([]byte(out), &all); code != 0 || err != nil || len(all) == 0 || all[0].Rows != all[0].Holding || all[0].Rows == 0 {
		t.Errorf("exit code %d, %v, %s\n%s", code, err, errs, out)
	}
}

// Rows that were changed, that are of another policy or that are missing are reported, as are cards
// with faults.
func TestSubmissionFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("replays the corpus")
	}
	const card = "policy: lru-2\nauthors: [A]\nsource: new\nlicence: MIT\n"
	rows := unzipped(t, filepath.Join(submittedExample, "rows.jsonl.gz"))
	first, _, _ := strings.Cut(rows, "\n")
	for name, c := range map[string]struct{ card, rows, says string }{
		"changed":     {card, strings.Replace(rows, `"evictions":1`, `"evictions":2`, 1), "1 of 235 rows differ from their replay: row "},
		"missing":     {card, strings.TrimPrefix(rows, first+"\n"), "cells or requests of the corpus are missing"},
		"other":       {card, strings.Replace(rows, `"policy":"lru-2"`, `"policy":"lru"`, 1), "row 1 is of policy lru, expected lru-2 alone"},
		"none":        {card, "", "rows.jsonl.gz: no such file or directory: --write writes it"},
		"policy":      {strings.Replace(card, "lru-2", "lru-9", 1), rows, `unknown policy "lru-9"`},
		"lossy":       {strings.Replace(card, "lru-2", "h2o", 1), rows, "expected an exact policy"},
		"field":       {card + "more: 1\n", rows, "A card is"},
		"empty":       {"\n", rows, "no documents in stream. A card is"},
		"escape":      {strings.Replace(card, "[A]", `["\e[31m"]`, 1), rows, "expected one line without control characters"},
		"licence":     {strings.Replace(card, "MIT", "<b>", 1), rows, "expected an SPDX identifier"},
		"link":        {card + "link: javascript:alert(1)\n", rows, "expected an address that begins with https://"},
		"capacity":    {card + "claims: [{better_than: lru, capacity: 9x}]\n", rows, "expected one of 1.25x, 1.5x"},
		"split":       {card + "claims: [{better_than: lru, split: mine}]\n", rows, "expected all, open or held-out"},
		"itself":      {card + "claims: [{better_than: lru-2}]\n", rows, "expected another policy"},
		"better_than": {card + "claims: [{better_than: nothing}]\n", rows, `unknown policy "nothing"`},
	} {
		folder := t.TempDir()
		write(t, filepath.Join(folder, "card.yaml"), c.card)
		if c.rows != "" {
			write(t, filepath.Join(folder, "rows.jsonl.gz"), c.rows)
		}
		code, _, errs := run("submit", "check", folder, "--traces", "../../datasets/corpus")
		if code != 1 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit code %d, expected %q: %s", name, code, c.says, errs)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	fatal.If(t, os.WriteFile(path, []byte(text), 0o666))
}

func unzipped(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	fatal.If(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	fatal.If(t, err)
	text, err := io.ReadAll(z)
	fatal.If(t, err)
	return string(text)
}
