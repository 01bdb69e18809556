package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
)

func newDescribeCommand(known policies.Table) *cobra.Command {
	format := "text"
	c := &cobra.Command{
		Use:     "describe NAME[:OPTIONS]",
		Short:   "Say what a policy does: rule, source, options, traits, documentation",
		Example: "  kvreplay policies describe lru\n  kvreplay policies describe window:2 --format json",
		Args:    atLeast(1, "policy"),
		RunE: func(c *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usagef("--format %q, expected text or json", format)
			}
			for _, name := range args {
				if err := runDescribe(c.OutOrStdout(), known, name, format); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&format, "format", format, "`text` or json (one object a policy)")
	return c
}

func runDescribe(w io.Writer, known policies.Table, name, format string) error {
	spec, err := known.Parse(withExample(known, known.Canonical(name)))
	if err != nil {
		return errUsage{err}
	}
	line, err := describe(spec.Entry, spec.Options)
	if err != nil {
		return err
	}
	line.Fingerprint = replay.Fingerprint(spec)
	if format == "json" {
		return writeJSON(w, line)
	}
	return writePolicy(w, &spec, &line)
}

// withExample gives a policy that cannot do without options those that its entry shows.
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

// writePolicy prints a policy: its line, its facts, its documentation.
func writePolicy(w io.Writer, spec *policies.Spec, p *policyLine) error {
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
	for _, fact := range [][2]string{{"aliases", strings.Join(p.Aliases, ", ")}, {"usage", usage}, {"options", spec.Options}, {"source", p.Source}, {"traits", p.traits()},
		{"needs", p.needs()}, {"memory", p.MemoryPerBlock + " a block of the context"}, {"cost", cost},
		{"fingerprint", p.Fingerprint}} {
		if fact[1] != "" {
			fmt.Fprintf(&b, "%-8s %s\n", fact[0], fact[1])
		}
	}
	if p.Documentation != "" {
		fmt.Fprintf(&b, "\n%s", p.Documentation)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
