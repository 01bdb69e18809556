package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/corpus"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/policies"
)

type compareFlags struct {
	all, format string
	where       where
	seed        uint64
	view        render.View
}

func compareCommand(table policies.Table) command {
	var f compareFlags
	return command{
		use:   "compare A B [ROWS...] | --all B [ROWS...]",
		short: "Compare two policies request by request",
		long: `Compare the misses of two policies in result rows, request by request: their ratio, the
requests that each wins, and whether the difference is significant. The permutation test needs
rows of kvreplay replay --per request (or stream) and at least 6 requests, more with --all.
ROWS are files of JSON lines or CSV, or folders of *.jsonl (default: the folder results).
The exit code is 3 if a folder lacks cells of its replay command.`,
		example: `  kvreplay compare lru lookahead
  kvreplay compare lfu lru rows.jsonl --where capacity=1.5x --format markdown
  kvreplay compare --all lru results`,
		args: func(c *cobra.Command, args []string) error {
			if f.all != "" {
				return nil // all arguments are rows
			}
			return atLeast(2, "policy A or B")(c, args)
		},
		flags: func(fl *flagSet) {
			fl.StringVar(&f.all, "all", "", "compare every policy of the rows with policy `B`")
			fl.where(&f.where)
			fl.format(&f.format, "", "table", "json", "markdown", "latex", "html")
			fl.view(&f.view)
			fl.Uint64Var(&f.seed, "seed", 0, "seed of the bootstrap and of the permutation test (default 0)")
		},
		run: func(c *call) error { return f.run(c, table) },
		next: func(c *call) []string { // policy A, or the one that all were compared with
			name, _, _ := strings.Cut(cmp.Or(append([]string{f.all}, c.args...)...), ":")
			return []string{"policies", "describe", name}
		},
	}
}

func (f *compareFlags) run(c *call, table policies.Table) error {
	wanted, paths := []string{f.all}, c.args
	if f.all == "" {
		wanted, paths = slices.Clone(c.args[:2]), c.args[2:]
	}
	f.view.Defaults = defaultsOf(table)
	of := choice{where: f.where.conditions, split: corpus.Whole}
	compared, selected, err := useResults(c.Context(), paths, of, func(r *results) (any, error) {
		return f.compare(r.starts, slices.Clone(wanted), board.Options{Incomplete: r.incomplete}, table)
	})
	if errors.Is(err, errSame) {
		return usagef("compare: %s and %s are the same policy: name two policies", c.args[0], c.args[1])
	}
	if unknown, ok := errors.AsType[*board.UnknownPolicy](err); ok {
		err = fmt.Errorf("%w%s; the rows have: %s", err, names.Nearest(unknown.Name, unknown.Known), names.Some(unknown.Known))
		return selected.missing(err, unknown.Name)
	}
	if err != nil {
		return err
	}
	return cmp.Or(f.render(c, compared), errorOf(selected.incomplete))
}

// errSame means that both names are of one policy.
var errSame = errors.New("the same policy")

// compare compares the wanted policies, or all policies with the only wanted one.
func (f *compareFlags) compare(rows *board.Starts, wanted []string, o board.Options, table policies.Table) (any, error) {
	o.Seed = f.seed
	for i, name := range wanted {
		wanted[i] = policies.Named(table.Canonical(name), rows.Policies())
	}
	switch {
	case f.all != "":
		return rows.CompareAll(wanted[0], o)
	case wanted[0] == wanted[1]:
		return nil, errSame
	}
	return rows.Compare(wanted[0], wanted[1], o)
}

// render prints a *board.Comparison or *board.Comparisons.
func (f *compareFlags) render(c *call, compared any) error {
	view := f.view
	if f.format == "markdown" || f.format == "html" {
		view = render.Whole
	}
	var report *table.Report
	finding := ""
	switch found := compared.(type) {
	case *board.Comparison:
		report, finding = render.Comparison(found, view), render.ComparisonFinding(found)
	case *board.Comparisons:
		report, finding = render.Comparisons(found, view), "Every policy against "+found.B+"."
	}
	if f.format == "html" {
		report.Title = "Comparison of policies"
	}
	return c.report(f.format, compared, finding, report)
}
