package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/metrics"
	"github.com/kvreplay/kvreplay/policies"
)

// compareFormats are the renderings of a comparison, as --format takes them.
var compareFormats = []string{"table", "json", "markdown"}

// compareFlags are the flags of `kvreplay compare` as typed.
type compareFlags struct {
	format string
	where  []string
	seed   uint64
}

func newCompareCommand() *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use:   "compare A B [ROWS...]",
		Short: "Say which of two policies misses less, where, and whether that is significant",
		Long: `Compare two policies from result rows, paired by request: misses, their ratio, the
requests (and streams) that each wins, and whether the requests at hand tell the two
apart. Policies are named as rows name them; options may be left out where the rows have
one policy of the name. Rows are files of JSON lines or CSV, or folders of *.jsonl;
without any, the folder results. Replay with --per request, or --per stream, for the
tests. If a results folder lacks cells that replay was asked for, titles say INCOMPLETE
and the exit code is 3.`,
		Example: `  kvreplay compare lru lookahead
  kvreplay compare lfu lru rows.jsonl --where capacity=1.5x --format markdown`,
		Args: atLeast(2, "policy A or B"),
		RunE: func(c *cobra.Command, args []string) error { return runCompare(c, args[0], args[1], args[2:], &f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.format, "format", "table", "`table`, json or markdown")
	fl.StringArrayVar(&f.where, "where", nil, "only rows with `KEY=VALUE` (or KEY!=VALUE), any field of a row; repeatable: one key's values are alternatives")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the bootstrap (default 0)")
	return c
}

func runCompare(c *cobra.Command, a, b string, paths []string, f *compareFlags) error {
	if !slices.Contains(compareFormats, f.format) {
		return usagef("--format %q: expected table, json or markdown", f.format)
	}
	rows, incomplete, err := readResults(c.Context(), paths, f.where)
	if err != nil {
		return err
	}
	var ran []string
	for i := range rows {
		ran = append(ran, rows[i].Policy)
	}
	a, b = policies.Named(a, ran), policies.Named(b, ran)
	comparison, err := unlessStopped(c.Context(), func() (*metrics.Comparison, error) {
		return metrics.Compare(rows, a, b, metrics.Options{Seed: f.seed, Incomplete: incomplete})
	})
	var unknown *metrics.UnknownPolicy
	if errors.As(err, &unknown) {
		return fmt.Errorf("%w%s; the rows have: %s", err, policies.Nearest(unknown.Name, unknown.Known), strings.Join(unknown.Known, ", "))
	}
	if err != nil {
		return err
	}
	return cmp.Or(f.render(c.OutOrStdout(), comparison), errorOf(incomplete))
}

func (f *compareFlags) render(w io.Writer, c *metrics.Comparison) error {
	switch f.format {
	case "json":
		return c.RenderJSON(w)
	case "markdown":
		return c.RenderMarkdown(w)
	}
	return c.RenderTable(w)
}
