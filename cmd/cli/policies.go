package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/external"
	"github.com/kvreplay/kvreplay/replay"
)

func policiesCommand(known policies.Table) command {
	var format string
	return command{
		use:   "policies",
		short: "List and describe policies, begin a new one",
		long: `List the policies, the columns of a trace that each needs, and its traits.
Exact policies come first: they can fetch an evicted entry again. Lossy policies follow: they drop
entries for good and are ranked apart. Policies that need the future are bounds and are never
ranked with the others.`,
		example: "  kvreplay policies\n  kvreplay policies describe lru\n  kvreplay policies new mine",
		flags: func(fl *flagSet) {
			fl.format(&format, "", "table", "json")
		},
		run: func(c *call) error {
			var lines []policyLine
			for i := range known {
				line, err := describe(&known[i], known[i].Example)
				if err != nil {
					return err
				}
				lines = append(lines, line)
			}
			return c.print(format, lines, func(w io.Writer) error { return writePolicies(w, lines) })
		},
		next:     always("policies", "describe", "lru"),
		commands: []command{describePolicyCommand(known), checkPolicyCommand(known), newPolicyCommand(known)},
	}
}

// policyLine is a policy as `policies --format json` prints it.
type policyLine struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Summary string   `json:"summary"`
	Source  string   `json:"source"`
	Usage   string   `json:"usage"`
	// Exact policies can fetch evicted blocks again. Lossy ones cannot.
	Exact    bool `json:"exact"`
	Offline  bool `json:"offline"`
	Bypasses bool `json:"bypasses"`
	// Windowed policies have no capacity.
	Windowed   bool `json:"windowed"`
	Random     bool `json:"random"`
	Stack      bool `json:"stack"`
	NeedsRanks bool `json:"needs_ranks"`
	// UsesRanks is for policies that use ranks if the trace has them.
	UsesRanks   bool `json:"uses_ranks"`
	NeedsScores bool `json:"needs_scores"`
	// NeedsEntries is for policies that look at how many entries of a block are demanded.
	NeedsEntries bool `json:"needs_entries"`
	NeedsFuture  bool `json:"needs_future"`
	// Columns of lossy methods: the attention of listed blocks, prompt_mass, and prompt windows or
	// prompt_mass.
	NeedsAttention  bool `json:"needs_attention"`
	NeedsPromptMass bool `json:"needs_prompt_mass"`
	NeedsWindows    bool `json:"needs_windows"`
	// DividesRequest is for lossy methods that divide the memory of a request themselves.
	DividesRequest bool `json:"divides_request"`
	// Submitted policies are on the board by their submission.
	Submitted bool `json:"submitted"`
	// MemoryPerBlock is state per block of the context, CostPerChange work per block
	// that enters or leaves the demand, both as text.
	MemoryPerBlock string `json:"memory_per_block"`
	CostPerChange  string `json:"cost_per_change"`
	// Fingerprint identifies the policy's decisions, as in rows. Only `describe` sets it.
	Fingerprint   string `json:"fingerprint,omitempty"`
	Documentation string `json:"documentation"`

	options string
}

// describe makes an instance with the options to see its needs.
func describe(e *policies.Entry, options string) (policyLine, error) {
	make, _, err := e.New(options)
	if err != nil {
		return policyLine{}, fmt.Errorf("policy %s with options %q: %w", e.Name, options, err)
	}
	needs, t := policies.NeedsOf(make()), e.Traits
	_, divides := make().(policies.Divider)
	return policyLine{Name: e.Name, Aliases: e.Aliases, Summary: e.Summary, Source: e.Source, Usage: e.Usage, Exact: !t.Lossy, Offline: t.Offline,
		Bypasses: t.Bypasses, Windowed: t.Windowed, Random: t.Random, Stack: t.Stack,
		NeedsRanks: needs&policies.NeedCandidates != 0, UsesRanks: needs&policies.WantCandidates != 0, NeedsScores: needs&policies.NeedScores != 0, NeedsFuture: needs&policies.NeedNext != 0, NeedsEntries: needs&policies.NeedPicked != 0,
		NeedsAttention: needs&policies.NeedAttention != 0, NeedsPromptMass: needs&policies.NeedPromptMass != 0, NeedsWindows: needs&policies.NeedWindows != 0, DividesRequest: divides, Submitted: e.Submitted,
		MemoryPerBlock: t.Memory, CostPerChange: t.Cost, Documentation: e.Doc, options: options}, nil
}

// needs lists the parts that a trace must have, and the future.
func (p *policyLine) needs() string {
	return listed("-", word{"ranks", p.NeedsRanks}, word{"ranks (optional)", p.UsesRanks}, word{"scores", p.NeedsScores}, word{"future", p.NeedsFuture}, word{"entries of blocks", p.NeedsEntries},
		word{"attention", p.NeedsAttention}, word{"prompt_mass", p.NeedsPromptMass}, word{"prompt windows or mass", p.NeedsWindows})
}

// traits lists the traits that the policy claims.
func (p *policyLine) traits() string {
	return listed("", word{"exact", p.Exact}, word{"lossy", !p.Exact}, word{"bound", p.Offline}, word{"stack", p.Stack},
		word{"bypasses", p.Bypasses}, word{"no capacity", p.Windowed}, word{"draws", p.Random}, word{"divides a request", p.DividesRequest}, word{"submitted", p.Submitted})
}

type word struct {
	text  string
	holds bool
}

func listed(none string, words ...word) string {
	words = slice.Filter(words, func(w word) bool { return w.holds })
	return cmp.Or(strings.Join(slice.Map(words, func(w word) string { return w.text }), ", "), none)
}

func writePolicies(w io.Writer, lines []policyLine) error {
	t := table.New("policy", "traits", "needs", "memory", "cost a change", "evicts")
	for _, exact := range []bool{true, false} {
		for _, p := range lines {
			if p.Exact == exact {
				t.Add(p.Name, p.traits(), p.needs(), p.MemoryPerBlock, p.CostPerChange, p.Summary)
			}
		}
		t.Line()
	}
	spelled := slice.Map(slice.Filter(lines, func(p policyLine) bool { return len(p.Aliases) > 0 }), func(p policyLine) string {
		return fmt.Sprintf("%s (%s)", p.Name, strings.Join(p.Aliases, ", "))
	})
	_, err := fmt.Fprintf(w, `%s
exact: an evicted entry can be fetched again. lossy: a dropped entry is lost, and recall
ranks these policies apart. bound: sees the future and is never ranked.
stack: a larger capacity never misses more. bypasses: may keep demanded blocks out.
divides a request: sets a budget for each stream, within the capacity of the request.
draws: depends on --seed. memory: per block of the context.
Details: kvreplay policies describe NAME
A policy in another program: replay --policy exec:'COMMAND', see policies/external/PROTOCOL.md
Names ignore case. Other names: %s
`, t.Text(), strings.Join(spelled, ", "))
	return err
}

func describePolicyCommand(known policies.Table) command {
	var format string
	return command{
		use:     "describe NAME[:OPTIONS]",
		short:   "Describe a policy: rule, source, options, traits",
		example: "  kvreplay policies describe lru\n  kvreplay policies describe window:2 --format json",
		args:    atLeast(1, "policy"),
		flags: func(fl *flagSet) {
			fl.format(&format, " (one object per policy)", "text", "json")
		},
		run: func(c *call) error {
			return describeAll(c, format, func(name string) (*policyLine, error) {
				spec, err := known.Parse(withExample(known, known.Canonical(name)))
				if err != nil {
					return nil, err
				}
				line, err := describe(spec.Entry, spec.Options)
				line.Fingerprint = replay.Fingerprint(spec)
				return &line, err
			}, (*policyLine).text)
		},
		next: func(c *call) []string { return []string{"replay", "TRACE", "--policy", c.args[0]} },
	}
}

// withExample adds the example options of the entry to a policy that needs options.
func withExample(known policies.Table, name string) string {
	i := slices.Index(known.Names(), name)
	if i < 0 {
		return name
	}
	if _, _, err := known[i].New(""); err != nil {
		return name + ":" + known[i].Example
	}
	return name
}

// text returns the line of the policy, its facts and its documentation.
func (p *policyLine) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n", p.Name, p.Summary)
	usage := p.Usage
	if usage == "" {
		usage = p.Name + ", without options"
	}
	cost := p.CostPerChange
	if !strings.Contains(cost, " a ") {
		cost += " a change of the demand"
	}
	for _, fact := range [][2]string{{"aliases", strings.Join(p.Aliases, ", ")}, {"usage", usage}, {"options", p.options}, {"source", p.Source}, {"traits", p.traits()},
		{"needs", p.needs()}, {"memory", p.MemoryPerBlock + " a block of the context"}, {"cost", cost},
		{"fingerprint", p.Fingerprint}} {
		if fact[1] != "" {
			fmt.Fprintf(&b, "%-8s %s\n", fact[0], fact[1])
		}
	}
	if p.Documentation != "" {
		fmt.Fprintf(&b, "\n%s", p.Documentation)
	}
	return b.String()
}

// groups of policies that --policy takes.
var groups = []string{"all", "lossy", "submitted"}

// parsePolicies reads --policy values. "all" stands for the exact policies of the table,
// with its windowed policies at the sizes that KVDrive sweeps (Figs. 3, 16), and "lossy" for
// the lossy ones.
func parsePolicies(table policies.Table, typed []string) (specs []policies.Spec, skip bool, err error) {
	seen := map[string]bool{}
	for _, name := range splitPolicies(typed) {
		if group := names.Match(name, groups); group != nil {
			name = group[0]
		}
		expanded, err := windowRange(table.Canonical(name))
		if err != nil {
			return nil, false, err
		}
		if slices.Contains(groups, name) {
			expanded, skip = everyPolicy(table, name), true
		}
		for _, one := range expanded {
			spec, err := table.Parse(one)
			if err != nil {
				if group, _, options := strings.Cut(one, ":"); options && slices.Contains(groups, group) {
					return nil, false, fmt.Errorf("policy %q: the group %s takes no options: name its policies one by one", one, group)
				}
				if near := names.Nearest(one, groups); near != "" {
					err = fmt.Errorf("%w; among the groups%s", err, near)
				}
				return nil, false, err
			}
			if !seen[spec.Name()] {
				seen[spec.Name()] = true
				specs = append(specs, spec)
			}
		}
	}
	return specs, skip, nil
}

// splitPolicies splits the values of --policy at commas, except within options and commands.
func splitPolicies(names []string) (all []string) {
	for _, name := range names {
		if strings.HasPrefix(name, external.Name+":") {
			all = append(all, name)
			continue
		}
		all = append(all, joinOptions(slice.Map(strings.Split(name, ","), strings.TrimSpace))...)
	}
	return all
}

// windowRange expands "window:1-16" to its windows. Any other name stands for itself.
func windowRange(name string) ([]string, error) {
	text, _ := strings.CutPrefix(name, "window:")
	from, to, isRange := strings.Cut(text, "-")
	if text == name || !isRange {
		return []string{name}, nil
	}
	first, errFirst := strconv.Atoi(from)
	last, errLast := strconv.Atoi(to)
	if errFirst != nil || errLast != nil || first < 0 || last < first || last > mostWindow {
		return nil, fmt.Errorf("policy %q: expected window:FROM-TO, steps from 0 to %d", name, mostWindow)
	}
	var names []string
	for n := first; n <= last; n++ {
		names = append(names, fmt.Sprintf("window:%d", n))
	}
	return names, nil
}

// mostWindow is the last window of a range.
const mostWindow = 1024

// withPrograms returns the table with policies in other programs. Parsing such a name starts a
// program, so only names that a user typed are looked up in it.
func withPrograms(table policies.Table) policies.Table {
	return policies.NewTable(append(slices.Clone(table), external.Entry)...)
}

func everyPolicy(table policies.Table, group string) []string {
	var names []string
	for _, e := range table {
		if e.Submitted != (group == "submitted") || !e.Submitted && e.Traits.Lossy != (group == "lossy") {
			continue
		}
		if e.Name == "window" {
			names = append(names, "window:1", "window:2", "window:3", "window:4")
		} else if _, _, err := e.New(""); err == nil { // it needs no options
			names = append(names, e.Name)
		}
	}
	return names
}
