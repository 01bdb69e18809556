package cli_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/systems"
)

// The command ranks systems on real traces, and prints JSON that reads back.
func TestSystems(t *testing.T) {
	traces, err := filepath.Glob(filepath.Join("..", "..", "datasets", "corpus", "selectors_qa_text.*.parquet"))
	if err != nil || len(traces) < 9 {
		t.Fatal(traces, err)
	}
	args := append([]string{"systems", "--model", "llama-3-8b", "--context", "32768", "--systems", "dense-gpu,ess,shadowkv"}, traces...)
	out := must(t, args...)
	for _, want := range []string{"dense attention\n", "sparse attention", "lossy:", "ess", "× OPT"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	var rows []systems.Row
	if err := json.Unmarshal([]byte(must(t, append(args, "--format", "json")...)), &rows); err != nil || len(rows) != 3 || rows[1].Name != "ess" || !(rows[1].TPOT > 0) {
		t.Errorf("%+v, %v", rows, err)
	}
	dir := t.TempDir()
	must(t, append(args, "--timelines", dir)...)
	for _, name := range []string{"dense-gpu", "ess", "shadowkv"} {
		var events struct{ TraceEvents []struct{ Name string } }
		if err := json.Unmarshal([]byte(content(t, filepath.Join(dir, name+".json"))), &events); err != nil || len(events.TraceEvents) < 100 {
			t.Errorf("timeline of %s: %d events, %v", name, len(events.TraceEvents), err)
		}
	}
	if list := must(t, "systems", "--list"); !strings.Contains(list, "kvdrive") || !strings.Contains(list, "arXiv 2512.10576") {
		t.Errorf("the list: %s", list)
	}
}

func TestSystemsRefuses(t *testing.T) {
	trace := filepath.Join("..", "..", "datasets", "corpus", "selectors_qa_text.exact.parquet")
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("name: a\nsource: b\nschedule: dens\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no trace":          {[]string{"--model", "llama-3-8b"}, 2, "trace missing"},
		"list and trace":    {[]string{"--list", trace}, 2, "--list needs no trace"},
		"list and format":   {[]string{"--list", "--format", "json"}, 2, "--format with --list has no effect"},
		"accept alone":      {[]string{trace, "--model", "llama-3-8b", "--accept", "2"}, 2, "--accept needs --mtp"},
		"context of 0":      {[]string{trace, "--model", "llama-3-8b", "--context", "0"}, 2, "--context 0: expected at least 1"},
		"K of 0":            {[]string{trace, "--model", "llama-3-8b", "--topk", "0"}, 2, "--topk 0: expected at least 1"},
		"layer map":         {[]string{trace, "--model", "llama-3-8b", "--systems", "dense-gpu,ess", "--layer-map", "foo"}, 1, `layer map foo: "foo": expected nearest, stretch`},
		"dense layer map":   {[]string{trace, "--model", "llama-3-8b", "--systems", "dense-gpu", "--layer-map", "foo"}, 1, `layer map foo: "foo": expected nearest, stretch`},
		"long layer map":    {[]string{trace, "--model", "llama-3-8b", "--systems", "dense-gpu", "--layer-map", "0-32=5"}, 1, "layers 0 to 31"},
		"layer map of none": {[]string{trace, "--model", "llama-3-8b", "--systems", "dense-gpu,ess", "--layer-map", "0-31=99"}, 1, "layer 99 is not profiled"},
		"accept too much":   {[]string{trace, "--model", "llama-3-8b", "--mtp", "1", "--accept", "2"}, 2, "--accept 2"},
		"no model":          {[]string{trace}, 2, "--model missing"},
		"unknown system":    {[]string{trace, "--model", "llama-3-8b", "--systems", "es"}, 2, "unknown system"},
		"twice":             {[]string{trace, trace, "--model", "llama-3-8b"}, 2, "named twice"},
		"wrong file":        {[]string{trace, "--model", "llama-3-8b", "--systems-dir", dir}, 1, "a.yaml"},
		"small memory":      {[]string{trace, "--model", "llama-3-8b", "--gpu-memory", "10"}, 2, "at least 1MB"},
		"stated GPUs":       {[]string{trace, "--model", "deepseek-v3.2", "--gpu", "h100", "--gpus", "8", "--context", "32768", "--systems", "sparse-gpu", "--format", "json"}, 1, "no system has times"},
		"one reason":        {[]string{trace, "--model", "llama-3-8b", "--systems", "dense-gpu", "--gpu-memory", "10GB"}, 1, "no system has times: GPU needs "},
		"no ablation":       {[]string{trace, "--model", "llama-3-8b", "--systems", "ess/keyz"}, 2, "did you mean keys?: choose da-only, echo"},
		"nothing fits":      {[]string{trace, "--model", "llama-3-8b", "--systems", "dense-gpu,ess", "--gpu-memory", "10GB"}, 1, "no system has times"},
		"recall":            {[]string{trace, "--model", "llama-3-8b", "--recall", "1.5"}, 2, "above 0, at most 1"},
		"negative SLO":      {[]string{trace, "--model", "llama-3-8b", "--slo", "-1ms"}, 2, "more than 0"},
		"accept":            {[]string{trace, "--model", "llama-3-8b", "--accept", "1.5"}, 2, "--accept needs --mtp"},
		"K above context":   {[]string{trace, "--model", "llama-3-8b", "--topk", "9000"}, 1, "expected 1 to the context"},
		"not a trace":       {[]string{filepath.Join("..", "..", "go.mod"), "--model", "llama-3-8b"}, 1, "go.mod"},
	} {
		code, _, stderr := run(append([]string{"systems"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, %q; expected %d and %q", name, code, stderr, c.code, c.want)
		}
	}
}

// A layer map that suits the traces of some systems leaves the others without times.
func TestSystemsMapOfSomeTraces(t *testing.T) {
	corpus := filepath.Join("..", "..", "datasets", "corpus")
	out := must(t, "systems", filepath.Join(corpus, "wide_questions.parquet"), filepath.Join(corpus, "selectors_qa_text.quest.parquet"),
		"--model", "llama-3-8b", "--context", "32768", "--systems", "dense-gpu,sparse-gpu,quest-gpu", "--layer-map", "0-31=15", "--format", "json")
	var rows []systems.Row
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 3 {
		t.Fatal(out, err)
	}
	if rows[0].Verdict != "" || rows[1].Verdict != "" || !strings.Contains(rows[2].Verdict, "layer 15 is not profiled: choose among 5, 20") {
		t.Errorf("verdicts %q, %q, %q", rows[0].Verdict, rows[1].Verdict, rows[2].Verdict)
	}
}

// A system that does not fit has no times and moves no bytes in any format. The reason names each device, and the largest
// part next to its own.
func TestSystemsThatDoNotFit(t *testing.T) {
	args := []string{"systems", filepath.Join("..", "..", "datasets", "corpus", "selectors_qa_text.exact.parquet"), "--systems", "kvpr,dense-gpu", "--model", "llama-3-8b", "--batch", "1024"}
	_, text, _ := run(append(args, "--format", "json")...)
	var rows []map[string]any
	if err := json.Unmarshal([]byte(text), &rows); err != nil || len(rows) != 2 {
		t.Fatal(len(rows), err)
	}
	_, text, _ = run(append(args, "--format", "csv")...)
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(lines) != 3 {
		t.Fatal(len(lines), err)
	}
	for _, column := range []string{"tpot_s", "tpot_p50_s", "tpot_p99_s", "tokens_per_s_gpu", "h2d_bytes_per_step", "running", "topk"} {
		at := slices.Index(lines[0], column)
		for i, row := range rows {
			if v, ok := row[column]; ok || lines[i+1][at] != "" {
				t.Errorf("%s of %s is %v in JSON and %q in CSV, expected none", column, row["system"], v, lines[i+1][at])
			}
		}
	}
	for _, row := range rows {
		if why := fmt.Sprint(row["verdict"]); row["system"] == "kvpr" && !(strings.Index(why, "of which KV") < strings.Index(why, "; host needs") && strings.HasSuffix(why, "for 4 GPUs")) {
			t.Errorf("the verdict is %q", why)
		}
	}
}
