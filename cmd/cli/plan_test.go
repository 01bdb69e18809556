package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPlan(t *testing.T) {
	out := profiled(t)
	base := []string{"plan", out, "--layer-map", "nearest", "--max-batch", "8", "--steps", "3"}
	args := func(more ...string) []string { return append(base[:len(base):len(base)], more...) }
	code, stdout, stderr := run(args("--format", "json", "--schedule", "da,gpu", "--every-cell")...)
	if code != 0 {
		t.Fatal(stderr)
	}
	var found struct {
		Version    int `json:"plan_version"`
		Labels     []string
		Candidates []struct {
			Policy, Schedule, Binding, Rank string
			Batch                           int
			Tokens                          float64 `json:"tokens_per_s_gpu"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &found); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(found.Labels, ", "); found.Version != 2 || got != "1 request, layers stretched, fitted constant: 2 of 3 lines" {
		t.Errorf("version %d, labels %q", found.Version, got)
	}
	plan := found.Candidates
	if len(plan) != 3 || plan[0].Tokens < plan[1].Tokens || plan[0].Batch != 8 || plan[0].Binding != "largest batch asked for" {
		t.Errorf("plan %+v, expected lru and lookahead with da, and gpu", plan)
	}
	if code, stdout, stderr = run(args("--policy", "lru", "--top", "1")...); code != 0 || !strings.Contains(stdout, "bound by") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	for want, more := range map[string][]string{
		"did you mean lru":      {"--policy", "lr"},
		"expected a size":       {"--memory", "48"},
		`unit "Gb" is none`:     {"--memory", "48Gb"},
		"of 1 MB":               {"--memory", "1MB"},
		"more than 0":           {"--top", "0"},
		"table or json":         {"--format", "csv"},
		"the SLO is 1 us":       {"--slo", "1us"},
		"GPU needs":             {"--memory", "1 MB"},
		"unknown schedule":      {"--schedule", "dab"},
		`unknown machine "h10"`: {"--hardware", "h10"},
	} {
		if code, _, stderr := run(args(more...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q, expected %q", more, code, stderr, want)
		}
	}
}
