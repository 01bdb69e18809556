package cli_test

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// profiled replays a bundled trace with LRU and lookahead and returns the folder.
func profiled(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "results")
	code, _, stderr := run("replay", "../../datasets/bundled/smollm2_multi_news_8k.parquet", "--policy", "lru", "--policy", "lookahead", "--capacity", "2x", "--out", out, "--profile")
	if code != 0 {
		t.Fatal(stderr)
	}
	return out
}

func TestTime(t *testing.T) {
	out := profiled(t)
	deepseek := []string{"time", out, "--policy", "lru", "--hardware", "h100", "--model", "deepseek-v3.2", "--batch", "64", "--schedule", "dba", "--layer-map", "stretch"}
	code, stdout, stderr := run(deepseek...)
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, want := range []string{"deepseek-v3.2 on h100, batch 64, dba:phi=0.5,delta_us=0, lru @ 2x", "p50", "TPOT", "of it fetch", "GPU memory", "note: scaled: layer map stretch", "not scaled: the profile's K is 256"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the output lacks %q:\n%s", want, stdout)
		}
	}
	code, stdout, stderr = run("time", out, "--policy", "lru", "--layer-map", "nearest", "--hardware", "all", "--schedule", "kvpr:order=column,batches=2,da", "--batch", "4", "--format", "csv")
	if code != 0 {
		t.Fatal(stderr)
	}
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 21 || len(rows)%2 != 1 || !strings.HasPrefix(rows[1][2], "kvpr:order=column,batches=2,weights=gpu,") || rows[2][2] != "da" {
		t.Errorf("%d rows, the first two with schedules %s and %s", len(rows), rows[1][2], rows[2][2])
	}
	table := filepath.Join(t.TempDir(), "times.csv")
	text := "operator,query_tokens,context_tokens,time_us\nattend,1,8000,1000\nattend,4,8000,4000\n"
	if err := os.WriteFile(table, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = run("time", out, "--policy", "lru", "--layer-map", "nearest", "--batch", "2", "--schedule", "gpu", "--table", table)
	if code != 0 || !strings.Contains(stdout, "p50 60.") || !strings.Contains(stdout, "times.csv has no times of project") {
		t.Errorf("30 layers of 2 ms with a table take:\n%s%s", stdout, stderr)
	}
	step := filepath.Join(t.TempDir(), "step.json")
	if code, _, stderr = run("time", out, "--policy", "lookahead", "--layer-map", "nearest", "--timeline", step, "--format", "json"); code != 0 {
		t.Fatal(stderr)
	}
	events, err := os.ReadFile(step)
	if err != nil || !json.Valid(events) {
		t.Errorf("the timeline is no JSON: %v", err)
	}
}

func TestTimeRefuses(t *testing.T) {
	out := profiled(t)
	holes := filepath.Join(t.TempDir(), "holes.csv")
	if err := os.WriteFile(holes, []byte("operator,query_tokens,context_tokens,time_us\nattend,1,1,1\nattend,2,2,2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	base := []string{"time", out, "--policy", "lru", "--layer-map", "nearest"}
	for want, args := range map[string][]string{
		"choose one with policy":  {"time", out},
		"layer map":               {"time", out, "--policy", "lru"},
		"known: a10":              append(base[:len(base):len(base)], "--hardware", "h101"),
		"did you mean dba":        append(base[:len(base):len(base)], "--schedule", "dbb"),
		"known: deepseek":         append(base[:len(base):len(base)], "--model", "gpt"),
		"a hole":                  append(base[:len(base):len(base)], "--table", holes),
		"expected table, json":    append(base[:len(base):len(base)], "--format", "xml"),
		"one machine":             append(base[:len(base):len(base)], "--hardware", "all", "--timeline", "x.json"),
		"nothing fits: rtx4090":   append(base[:len(base):len(base)], "--hardware", "rtx4090", "--model", "llama-2-70b"),
		"expected one profile":    {"time"},
		"no such file":            {"time", "missing.parquet"},
		"0 profiles":              {"time", t.TempDir()},
		"expected at least 1":     append(base[:len(base):len(base)], "--batch", "0"),
		"goes with --table":       append(base[:len(base):len(base)], "--extrapolate"),
		"unknown selection":       append(base[:len(base):len(base)], "--selection", "best"),
		"--timeline shows one":    append(base[:len(base):len(base)], "--schedule", "all", "--timeline", "x.json"),
		"no key kvreplay.profile": {"time", "../../datasets/bundled/smollm2_multi_news_8k.parquet"},
	} {
		code, _, stderr := run(args...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q, expected %q", args, code, stderr, want)
		}
	}
	if _, err := os.Stat("x.json"); err == nil {
		t.Error("a refused command left a timeline")
	}
}
