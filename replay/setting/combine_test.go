package setting

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
)

var update = flag.Bool("update", false, "rewrite the table of COMBINATIONS.md")

// own returns the table without submitted policies.
func own() policies.Table {
	return slice.Filter(all.Table(), func(e policies.Entry) bool { return !e.Submitted })
}

// TestConflictsDocumented compares the table of COMBINATIONS.md with the one in the code.
func TestConflictsDocumented(t *testing.T) {
	const path, begin, end = "../COMBINATIONS.md", "<!-- conflicts -->\n", "<!-- end of conflicts -->"
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	table, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no %q … %q", path, begin, end)
	}
	var want strings.Builder
	want.WriteString("| this | and these | do not combine because |\n|---|---|---|\n")
	for _, c := range Conflicts() {
		fmt.Fprintf(&want, "| %s | %s | %s |\n", named(c.A), named(c.With...), c.Why)
	}
	want.WriteString("\n| kind | policies |\n|---|---|\n")
	for _, k := range Kinds(own()) {
		fmt.Fprintf(&want, "| %s | `%s` |\n", k.Mechanism, strings.Join(k.Policies, "`, `"))
	}
	if table == want.String() {
		return
	}
	if !*update {
		t.Fatalf("the table of %s is out of date: go test ./replay/setting -run ConflictsDocumented -update", path)
	}
	fatal.If(t, os.WriteFile(path, []byte(before+begin+want.String()+end+after), 0o644))
}

// named formats flags as code.
func named(ms ...Mechanism) string {
	return strings.Join(slice.Map(ms, func(m Mechanism) string {
		if strings.HasPrefix(string(m), "--") {
			return "`" + string(m) + "`"
		}
		return string(m)
	}), ", ")
}

// Every conflict appears once and joins two different mechanisms. The rows of one mechanism
// follow each other.
func TestConflictsOnce(t *testing.T) {
	seen, ended := map[[2]Mechanism]bool{}, map[Mechanism]bool{}
	var last Mechanism
	for _, c := range Conflicts() {
		if c.A != last {
			ended[last], last = true, c.A
		}
		if ended[c.A] || len(c.With) == 0 || c.Why == "" {
			t.Errorf("%q with %q (%q): expected rows of one mechanism in sequence, others, and a reason", c.A, c.With, c.Why)
		}
		for _, with := range c.With {
			pair := []Mechanism{c.A, with}
			slices.Sort(pair)
			if c.A == with || seen[[2]Mechanism(pair)] {
				t.Errorf("%q and %q: expected two mechanisms, and no other row of the pair", c.A, with)
			}
			seen[[2]Mechanism(pair)] = true
		}
	}
}

// The table refuses exactly the policies that cannot use a mechanism.
func TestConflictsOfPolicies(t *testing.T) {
	refused := map[Mechanism][]string{
		UseSwap:     {"2q", "adakv", "arc", "block-lfu", "clock", "duoattention", "echo", "h2o", "lfu-decay", "lirs", "lrfu", "near-lrfu", "none", "opt", "opt-bypass", "pyramidkv", "random", "s3-fifo", "score-ewma", "sieve", "snapkv", "static", "streamingllm", "window"},
		UseClusters: {"2q", "adakv", "arc", "block-lfu", "duoattention", "h2o", "lirs", "none", "opt", "opt-bypass", "pyramidkv", "s3-fifo", "snapkv", "static", "streamingllm"},
		AsTier:      {"adakv", "block-lfu", "duoattention", "h2o", "none", "opt", "opt-bypass", "pyramidkv", "snapkv", "static", "streamingllm", "window"},
		UsePlacing:  {"adakv", "duoattention", "h2o", "none", "pyramidkv", "snapkv", "streamingllm", "window"},
	}
	for m, want := range refused {
		var got []string
		for _, e := range own() {
			if Unfit(specOf(t, e), m) != "" {
				got = append(got, e.Name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s refuses %v, expected %v", m, got, want)
		}
	}
}

func specOf(t *testing.T, e policies.Entry) policies.Spec {
	t.Helper()
	spec, err := all.Table().Parse(strings.TrimSuffix(e.Name+":"+e.Example, ":"))
	fatal.If(t, err)
	return spec
}
