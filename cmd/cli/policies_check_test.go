package cli_test

import (
	"strings"
	"testing"
)

// The kit runs by name, prints each check, and shows a counterexample that --seed repeats.
func TestPoliciesCheck(t *testing.T) {
	code, out, errs := run("policies", "check", "lru", "streamingllm:sink=2", "--check", "entry,Apart", "--short")
	if want := "lru: Entry holds\nlru: Apart holds\nstreamingllm:sink=2: Entry holds\nstreamingllm:sink=2: Apart holds\n"; code != 0 || out != want {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	code, out, _ = run("policies", "check", "lru", "--list")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 21 || lines[1] != "Legal          The engine accepts every answer, without a panic." || strings.Contains(out, "Reference ") {
		t.Errorf("exit code %d, checks:\n%s", code, out)
	}
	for _, line := range lines {
		if name, about, _ := strings.Cut(line, " "); len(line) > 100 || len(about) < 20 {
			t.Errorf("%s: %q, expected a sentence in a line of at most 100 characters", name, line)
		}
	}
	if code, _, errs := run("policies", "check", "lru", "--check", "Legall"); code != 2 || !strings.Contains(errs, "Legal") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if code, out, errs := run("policies", "check", "opt", "--check", "Legal", "--seed", "3", "--format", "json"); code != 0 || !strings.Contains(out, `"failure": ""`) {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}
