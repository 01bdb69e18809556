package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

const newsTrace = "../../datasets/bundled/smollm2_multi_news_8k.parquet"

// A damaged file fails a run of validate, and the good one is still reported.
func TestValidateCommand(t *testing.T) {
	raw, err := os.ReadFile(newsTrace)
	fatal.If(t, err)
	bad := filepath.Join(t.TempDir(), "bad.parquet")
	raw[len(raw)/2] ^= 4
	fatal.If(t, os.WriteFile(bad, raw, 0o600))
	out, _ := kvreplay(t, 0, "validate", newsTrace)
	if !strings.Contains(out, "good: 6 streams, 768 rows") || !strings.Contains(out, "(as stated)") {
		t.Errorf("a good file: %s", out)
	}
	out, stderr := kvreplay(t, 1, "validate", bad, newsTrace)
	if !strings.Contains(out, "checksum mismatch") || !strings.Contains(out, "[file]") || !strings.Contains(out, "good: 6 streams") || !strings.Contains(stderr, "1 of 2 files") {
		t.Errorf("a bad and a good file: %s%s", out, stderr)
	}
	out, _ = kvreplay(t, 1, "validate", "--format", "json", "--limit", "1", bad)
	var v struct {
		Valid      bool
		Violations []struct{ Rule, Message string }
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Valid || len(v.Violations) != 1 || v.Violations[0].Rule != "file" {
		t.Errorf("as JSON: %s, error %v", out, err)
	}
	kvreplay(t, 1, "validate", filepath.Join(t.TempDir(), "missing.parquet"))
	kvreplay(t, 2, "validate")
	kvreplay(t, 2, "validate", "--format", "xml", newsTrace)
	kvreplay(t, 2, "validate", "--limit", "-1", newsTrace)
}

// Errors about unknown names list the existing ones. Usage errors exit with 2.
func TestDeriveCommand(t *testing.T) {
	dst := filepath.Join(t.TempDir(), "out.parquet")
	for _, c := range []struct {
		code int
		text string
		args []string
	}{
		{0, "2 streams, 128 rows", []string{"--layers", "0,20", "--steps", "-32:32", "--topk", "64", "--candidates", "80"}},
		{1, "did you mean", []string{"--requests", "multi_news-9be57ba"}},
		{1, "no layer 3 (the trace has 6 layers: 0, 5, 10, 15, 20, 25)\n", []string{"--layers", "3"}},
		{1, "Drop them: --topk 256 --candidates 256", []string{"--block-tokens", "8"}},
		{2, "expected FROM:TO", []string{"--steps", "5"}},
		{2, "expected numbers or union", []string{"--heads", "all"}},
		{2, "--requests is empty", []string{"--requests", ""}},
		{2, "--layers is empty", []string{"--layers", ""}},
		{2, "expected a number or a range", []string{"--layers", "a"}},
	} {
		_, stderr := kvreplay(t, c.code, append([]string{"derive", newsTrace, "-o", dst}, c.args...)...)
		if !strings.Contains(stderr, c.text) {
			t.Errorf("%v: %s, expected %q", c.args, stderr, c.text)
		}
	}
	kvreplay(t, 2, "derive", newsTrace)
	kvreplay(t, 2, "derive", newsTrace, newsTrace, "-o", dst)
	kvreplay(t, 0, "validate", dst)
}

// inspect prints both formats of the same report.
func TestInspectCommand(t *testing.T) {
	out, _ := kvreplay(t, 0, "inspect", "--layers", newsTrace)
	for _, want := range []string{"rank, 256, 320", "overlap with the step before", "By layer"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _ = kvreplay(t, 0, "inspect", "--format", "json", "--topk", "128", newsTrace)
	var r struct {
		TopK     int `json:"topk"`
		Locality struct {
			DemandMean float64 `json:"demand_mean"`
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.TopK != 128 || r.Locality.DemandMean != 128 {
		t.Errorf("%s, error %v", out, err)
	}
	kvreplay(t, 1, "inspect", "--topk", "321", newsTrace)
	kvreplay(t, 2, "inspect", "--topk", "0", newsTrace)
	kvreplay(t, 2, "inspect", "--format", "xml", newsTrace)
}
