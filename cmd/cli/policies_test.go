package cli_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
)

func TestPoliciesLists(t *testing.T) {
	code, table, _ := run("policies")
	_, text, _ := run("policies", "--format", "json")
	var lines []map[string]any
	if err := json.Unmarshal([]byte(text), &lines); err != nil || code != 0 {
		t.Fatalf("exit code %d, JSON: %v", code, err)
	}
	if len(lines) != len(all.Table()) {
		t.Errorf("%d policies, the table has %d", len(lines), len(all.Table()))
	}
	for i, e := range all.Table() {
		if lines[i]["name"] != e.Name || lines[i]["offline"] != e.Traits.Offline || !strings.Contains(table, "\n "+e.Name+" ") {
			t.Errorf("policy %s: JSON %v; is it in the table?\n%s", e.Name, lines[i], table)
		}
	}
	first, _, _ := strings.Cut(table, "\n\n") // the first of two parts
	for _, line := range strings.Split(first, "\n") {
		switch name, _, _ := strings.Cut(strings.TrimSpace(line), " "); {
		case name == "lookahead" && !strings.Contains(line, "ranks"), name == "opt" && !strings.Contains(line, "bound, stack"):
			t.Error(line)
		}
	}
}

// fingerprintOf returns the fingerprint in rows of a policy.
func fingerprintOf(name string) string {
	spec, err := all.Table().Parse(name)
	if err != nil {
		panic(err)
	}
	return replay.Fingerprint(spec)
}

func TestPoliciesDescribe(t *testing.T) {
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"lru", "Rule: first victim is the block whose last demanded step is earliest", 0},
		{"window", "options  2", 0},
		{"block-lfu", "options  admit=0\n", 0},
		{"opt", "needs    future", 0},
		{"adakv:alpha=0.5", "traits   lossy, divides a request\nneeds    prompt_mass", 0},
		{"none --format json", `"no capacity"`, 0},
		{"lru", "\nfingerprint " + fingerprintOf("lru") + "\n", 0},
		{"window", "\nfingerprint " + fingerprintOf("window:2") + "\n", 0},
		{"fifo --format json", `"fingerprint": "` + fingerprintOf("fifo") + `"`, 0},
		{"lr", "did you mean ", 2},
		{"lru:2", "lru takes no options", 2},
		{"lru --format yaml", `--format "yaml"`, 2},
		{"", "policy missing", 2},
	} {
		code, out, errs := run(append([]string{"policies", "describe"}, strings.Fields(c.args)...)...)
		if c.args == "none --format json" {
			out = strings.ReplaceAll(out, `"windowed": true`, `"no capacity"`)
		}
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("describe %s: exit code %d, want %d with %q:\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
	}
}

func TestPoliciesNewRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{
		"":                        "expected one name of the policy, got 0",
		"mine yours --dir here":   "expected one name of the policy, got 2",
		"lru --dir here":          `policy "lru" exists`,
		"My_Policy --dir here":    "lower case words",
		"mine":                    "not the root of github.com/kvreplay/kvreplay",
		"mine --dir a --register": "--register has no effect with --dir",
	} {
		if code, out, errs := run(append([]string{"policies", "new"}, strings.Fields(args)...)...); code != 2 || !strings.Contains(errs, want) || out != "" {
			t.Errorf("new %s: exit code %d, want 2 with %q: %s", args, code, want, errs)
		}
	}
	if left, _ := os.ReadDir("."); len(left) != 0 {
		t.Errorf("something was written: %v", left)
	}
	if code, _, errs := run("policies", "new", "mine", "--dir", "a"); code != 0 {
		t.Error(errs)
	}
	if code, _, errs := run("policies", "new", "mine", "--dir", "a"); code != 2 || !strings.Contains(errs, "exists") {
		t.Errorf("a second time: exit code %d: %s", code, errs)
	}
	if code, _, errs := run("policies", "new", "other", "--dir", "a"); code != 0 {
		t.Errorf("a second policy: exit code %d: %s", code, errs)
	}
}
