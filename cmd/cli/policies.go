package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/policies"
)

func newPoliciesCommand(known policies.Table) *cobra.Command {
	format := "table"
	c := &cobra.Command{
		Use:   "policies",
		Short: "List the policies; describe one; begin a new one",
		Long: `List the policies that replay knows, with what each needs of a trace and what it
claims. Exact policies come first: what they evict can be fetched again. Lossy methods
follow: what they drop is lost, and they are ranked apart. Policies that need the
future are bounds and are never ranked with the others.`,
		Example: "  kvreplay policies\n  kvreplay policies describe lru\n  kvreplay policies new mine",
		Args:    unknownCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			if format != "table" && format != "json" {
				return usagef("--format %q, expected table or json", format)
			}
			lines, err := describeAll(known)
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(c.OutOrStdout(), lines)
			}
			return writePolicies(c.OutOrStdout(), lines)
		},
	}
	c.Flags().StringVar(&format, "format", format, "`table` or json")
	c.AddCommand(newDescribeCommand(known), newNewCommand(known))
	return c
}

// policyLine is a policy as `policies --format json` prints it.
type policyLine struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Summary string   `json:"summary"`
	Source  string   `json:"source"`
	Usage   string   `json:"usage"`
	// Exact policies can fetch again what they evicted; lossy ones cannot.
	Exact    bool `json:"exact"`
	Offline  bool `json:"offline"`
	Bypasses bool `json:"bypasses"`
	// Windowed policies have no capacity.
	Windowed    bool `json:"windowed"`
	Random      bool `json:"random"`
	Stack       bool `json:"stack"`
	NeedsRanks  bool `json:"needs_ranks"`
	NeedsScores bool `json:"needs_scores"`
	// NeedsEntries is for policies that look at how many entries of a block are demanded.
	NeedsEntries bool `json:"needs_entries"`
	NeedsFuture  bool `json:"needs_future"`
	// Of lossy methods: the attention that listed blocks were given, prompt_mass, and prompt
	// windows or prompt_mass.
	NeedsAttention  bool `json:"needs_attention"`
	NeedsPromptMass bool `json:"needs_prompt_mass"`
	NeedsWindows    bool `json:"needs_windows"`
	// DividesRequest is for lossy methods that divide the memory of a request themselves.
	DividesRequest bool `json:"divides_request"`
	// MemoryPerBlock is state per block of the context, CostPerChange work per block
	// that enters or leaves the demand, both as text.
	MemoryPerBlock string `json:"memory_per_block"`
	CostPerChange  string `json:"cost_per_change"`
	// Fingerprint is that of the policy's decisions, as rows state it; of `describe` alone.
	Fingerprint   string `json:"fingerprint,omitempty"`
	Documentation string `json:"documentation"`
}

func describeAll(known policies.Table) (lines []policyLine, err error) {
	for i := range known {
		line, err := describe(&known[i], known[i].Example)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// describe makes an instance with the options to see what it asks for.
func describe(e *policies.Entry, options string) (policyLine, error) {
	make, _, err := e.New(options)
	if err != nil {
		return policyLine{}, fmt.Errorf("policy %s with options %q: %w", e.Name, options, err)
	}
	needs, t := policies.NeedsOf(make()), e.Traits
	_, divides := make().(policies.Divider)
	return policyLine{Name: e.Name, Aliases: e.Aliases, Summary: e.Summary, Source: e.Source, Usage: e.Usage, Exact: !t.Lossy, Offline: t.Offline,
		Bypasses: t.Bypasses, Windowed: t.Windowed, Random: t.Random, Stack: t.Stack,
		NeedsRanks: needs&policies.NeedCandidates != 0, NeedsScores: needs&policies.NeedScores != 0, NeedsFuture: needs&policies.NeedNext != 0, NeedsEntries: needs&policies.NeedPicked != 0,
		NeedsAttention: needs&policies.NeedAttention != 0, NeedsPromptMass: needs&policies.NeedPromptMass != 0, NeedsWindows: needs&policies.NeedWindows != 0, DividesRequest: divides,
		MemoryPerBlock: t.Memory, CostPerChange: t.Cost, Documentation: e.Doc}, nil
}

// needs are what a trace must have, or the future.
func (p *policyLine) needs() string {
	return listed("-", word{"ranks", p.NeedsRanks}, word{"scores", p.NeedsScores}, word{"future", p.NeedsFuture}, word{"entries of blocks", p.NeedsEntries},
		word{"attention", p.NeedsAttention}, word{"prompt_mass", p.NeedsPromptMass}, word{"prompt windows or mass", p.NeedsWindows})
}

// traits are what the policy claims of itself.
func (p *policyLine) traits() string {
	return listed("", word{"exact", p.Exact}, word{"lossy", !p.Exact}, word{"bound", p.Offline}, word{"stack", p.Stack},
		word{"bypasses", p.Bypasses}, word{"no capacity", p.Windowed}, word{"draws", p.Random}, word{"divides a request", p.DividesRequest})
}

type word struct {
	text  string
	holds bool
}

func listed(none string, words ...word) string {
	var held []string
	for _, w := range words {
		if w.holds {
			held = append(held, w.text)
		}
	}
	if held == nil {
		return none
	}
	return strings.Join(held, ", ")
}

// writePolicies prints a table.
func writePolicies(w io.Writer, lines []policyLine) error {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format = table.FormatOptions{Header: text.FormatDefault, Row: text.FormatDefault}
	style.Options = table.Options{SeparateHeader: true}
	t.SetStyle(style)
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 6, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft}})
	t.AppendHeader(table.Row{"policy", "traits", "needs", "memory", "cost a change", "evicts"})
	for _, exact := range []bool{true, false} {
		for _, p := range lines {
			if p.Exact == exact {
				t.AppendRow(table.Row{p.Name, p.traits(), p.needs(), p.MemoryPerBlock, p.CostPerChange, p.Summary})
			}
		}
		t.AppendSeparator()
	}
	for line := range strings.Lines(t.Render() + "\n") {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	var spelled []string
	for _, p := range lines {
		if len(p.Aliases) > 0 {
			spelled = append(spelled, fmt.Sprintf("%s (%s)", p.Name, strings.Join(p.Aliases, ", ")))
		}
	}
	_, err := fmt.Fprintf(w, `
exact: what is evicted can be fetched again; lossy: what is dropped is lost, ranked
apart by recall; divides a request: gives its streams budgets of their own, in sum no
more than the capacity; bound: sees the future, never ranked; stack: a larger capacity
never misses more; bypasses: may keep demanded blocks out; draws: depends on --seed;
memory: a block of the context. Say more of one: kvreplay policies describe NAME
Case does not count in names. Other names: %s
`, strings.Join(spelled, ", "))
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
