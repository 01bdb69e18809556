package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/policies"
)

// compareFormats are the renderings of a comparison, as --format takes them.
var compareFormats = []string{"table", "json", "markdown"}

// compareFlags are the flags of `kvreplay compare` as typed.
type compareFlags struct {
	all, format string
	where       []string
	seed        uint64
	table       policies.Table
}

func newCompareCommand(table policies.Table) *cobra.Command {
	f := compareFlags{table: table}
	c := &cobra.Command{
		Use:   "compare A B [ROWS...] | --all B [ROWS...]",
		Short: "Say which of two policies misses less, where, and whether that is significant",
		Long: `Compare two policies from result rows, paired by request: misses, their ratio, the
requests (and streams) that each wins, and whether the difference is significant. With
--all every policy of the rows is compared with one, over all cells that both have. The
test is a permutation test over requests; it takes 6 to decide, and more with --all, as
it corrects for the number of policies. Replay with --per request, or --per stream, for
the test. Policies are named as rows name them; options may be left out if the rows have
one policy of the name. Rows are files of JSON lines or CSV, or folders of *.jsonl;
without any, the folder results. If a results folder lacks cells that replay was asked
for, titles say INCOMPLETE and the exit code is 3.`,
		Example: `  kvreplay compare lru lookahead
  kvreplay compare lfu lru rows.jsonl --where capacity=1.5x --format markdown
  kvreplay compare --all lru results`,
		Args: func(c *cobra.Command, args []string) error {
			if f.all != "" {
				return nil // all arguments are rows
			}
			return atLeast(2, "policy A or B")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error { return runCompare(c, args, &f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.all, "all", "", "compare every policy of the rows with policy `B`")
	fl.StringVar(&f.format, "format", "table", "`table`, json or markdown")
	fl.StringArrayVar(&f.where, "where", nil, "only rows with `KEY=VALUE` (or KEY!=VALUE), any field of a row; repeatable: one key's values are alternatives")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the bootstrap and of the permutation test (default 0)")
	return c
}

func runCompare(c *cobra.Command, args []string, f *compareFlags) error {
	if !slices.Contains(compareFormats, f.format) {
		return usagef("--format %q: expected table, json or markdown", f.format)
	}
	wanted, paths := []string{f.all}, args
	if f.all == "" {
		wanted, paths = args[:2], args[2:]
	}
	selected, err := readResults(c.Context(), paths, f.where)
	if err != nil {
		return err
	}
	ran := policiesOf(selected.rows)
	for i, name := range wanted {
		wanted[i] = policies.Named(f.table.Canonical(name), ran)
	}
	compared, err := unlessStopped(c.Context(), func() (any, error) {
		o := board.Options{Seed: f.seed, Incomplete: selected.incomplete}
		if f.all != "" {
			return board.CompareAll(selected.rows, wanted[0], o)
		}
		return board.Compare(selected.rows, wanted[0], wanted[1], o)
	})
	var unknown *board.UnknownPolicy
	if errors.As(err, &unknown) {
		return selected.missing(fmt.Errorf("%w%s; the rows have: %s", err, names.Nearest(unknown.Name, unknown.Known), strings.Join(unknown.Known, ", ")), unknown.Name)
	}
	if err != nil {
		return err
	}
	return cmp.Or(f.render(c.OutOrStdout(), compared), errorOf(selected.incomplete))
}

// render prints a *board.Comparison or *board.Comparisons.
func (f *compareFlags) render(w io.Writer, compared any) error {
	if f.format == "json" {
		return render.JSON(w, compared)
	}
	var report render.Report
	switch c := compared.(type) {
	case *board.Comparison:
		report = render.Comparison(c)
	case *board.Comparisons:
		report = render.Comparisons(c)
	}
	if f.format == "markdown" {
		return report.Markdown(w)
	}
	return report.Table(w)
}
