package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A clusters command that fails says why, leaves the trace as it is and nothing behind.
func TestClustersRefuses(t *testing.T) {
	folder := t.TempDir()
	ranked, out := filepath.Join(folder, "t.parquet"), filepath.Join(folder, "clusters.jsonl")
	text, err := os.ReadFile("../../datasets/corpus/selectors_qa_text.retroinfer.parquet")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ranked, text, 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"name it by -o":       {ranked},
		"also an input":       {ranked, "-o", ranked},
		"that ranks clusters": {"../../datasets/corpus/selectors_qa_text.exact.parquet", "-o", out},
		"write " + folder:     {ranked, "-o", filepath.Join(folder, "no", "clusters.jsonl")},
	} {
		if code, _, stderr := run(append([]string{"clusters"}, args...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("clusters %v: exit %d, %q, want %q", args, code, stderr, want)
		}
	}
	if after, err := os.ReadFile(ranked); err != nil || !bytes.Equal(after, text) {
		t.Errorf("the trace has changed: %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
