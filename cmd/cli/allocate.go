package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/metrics/render/texttable"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/allocate"
)

// allocateFlags are the flags of `kvreplay allocate` as typed.
type allocateFlags struct {
	options      allocate.Options
	methods      []string
	cost, format string
	where        []string
	plan, out    string
}

func newAllocateCommand(table policies.Table) *cobra.Command {
	var f allocateFlags
	c := &cobra.Command{
		Use:   "allocate ROWS...",
		Short: "Divide cache memory among layers and heads, from result rows",
		Long: `Divide the cache memory of a request among the layers and heads of a model: 2D
layer-head scaling (KVDrive) and what it is held against. The profile are rows of
` + "`kvreplay replay --per stream`" + `, of one policy at many capacities (--capacity sweep)
or of many windows (--policy window:0-16). What comes out is a plan, a file that says
what each layer and head may keep, and what it saves, on the requests that were profiled
and on others.

Methods:
` + methodList(),
		Example: `  kvreplay replay t.parquet --policy lru --capacity sweep --per stream --out profile
  kvreplay allocate profile --memory 2x --method 2d-greedy -o plan.yaml
  kvreplay allocate profile --memory 2x --method all --judge 'news-*'
  kvreplay allocate other --plan plan.yaml`,
		Args: atLeast(1, "ROWS"),
		RunE: func(c *cobra.Command, args []string) error {
			f.options.Policy = table.Canonical(f.options.Policy)
			return runAllocate(c, args, &f)
		},
	}
	fl, o := c.Flags(), &f.options
	fl.StringVar(&o.Memory, "memory", "", "memory of a request, as much as replay --capacity gives all its streams: 2x, 6400, 64MiB, 0.2ctx; or what a window costs everywhere: window:2")
	fl.StringSliceVar(&f.methods, "method", []string{"2d-greedy"}, "`NAME[:OPTIONS]`, several, or all")
	fl.StringVar(&o.Policy, "policy", "", "whose rows (default: the only policy there is); window: all windows")
	fl.StringVar(&o.Floor, "floor", "", "the least of a stream: 1x, entries, or window:N (default 1x, as less than K overflows; of windows the smallest)")
	fl.StringVar(&f.cost, "cost", string(allocate.MeanResidents), "what a window costs: its `mean` residents, or their peak")
	fl.StringSliceVar(&o.Requests, "requests", nil, "requests to profile on: ids, trace files or TRACE/ID, with * and ? (default: all)")
	fl.StringSliceVar(&o.Exclude, "exclude", nil, "requests not to profile on")
	fl.StringSliceVar(&o.Judge, "judge", nil, "requests to judge the plan on; they are not profiled on")
	fl.StringVar(&f.plan, "plan", "", "judge this plan on all of the rows' requests instead of making one")
	fl.StringArrayVar(&f.where, "where", nil, "only rows with `KEY=VALUE` (or KEY!=VALUE), any field of a row; repeatable: one key's values are alternatives")
	fl.StringVar(&f.format, "format", "table", "`table` or json")
	outVar(fl, &f.out, "the plan's file (YAML)")
	return c
}

// methodList describes the methods for --help.
func methodList() string {
	var b strings.Builder
	for _, m := range allocate.Methods() {
		fmt.Fprintf(&b, "  %-20s %s\n", m.Usage, m.Summary)
	}
	return strings.TrimRight(b.String(), "\n")
}

func runAllocate(c *cobra.Command, paths []string, f *allocateFlags) error {
	if err := f.complete(c); err != nil {
		return err
	}
	if err := checkOutput("allocate", f.out, filesOf(paths, ".jsonl")); err != nil {
		return err
	}
	if f.plan != "" {
		plan, err := unlessStopped(c.Context(), func() (*allocate.Plan, error) { return allocate.Read(f.plan) })
		if err != nil {
			return err
		}
		f.options.Plan = plan
	}
	selected, err := readResults(c.Context(), paths, f.where)
	if err != nil {
		return err
	}
	reports, err := unlessStopped(c.Context(), func() ([]*allocate.Report, error) { return allocate.Run(selected.rows, f.options) })
	if err != nil {
		return selected.missing(err, f.options.Policy)
	}
	for _, w := range reports[0].Warnings {
		fmt.Fprintf(c.ErrOrStderr(), "kvreplay: %s\n", w)
	}
	if f.out != "" {
		if err := reports[0].Plan.Write(f.out); err != nil {
			return err
		}
	}
	return cmp.Or(f.render(c.OutOrStdout(), reports), errorOf(selected.incomplete))
}

// complete checks the flags and turns them into options.
func (f *allocateFlags) complete(c *cobra.Command) error {
	if f.format != "table" && f.format != "json" {
		return usagef("--format %q: expected table or json", f.format)
	}
	if f.cost != string(allocate.MeanResidents) && f.cost != string(allocate.PeakResidents) {
		return usagef("--cost %q: expected mean or peak", f.cost)
	}
	if err := f.options.Validate(); err != nil {
		return errUsage{fmt.Errorf("allocate: %w", err)}
	}
	if c.Flags().Changed("cost") {
		f.options.Cost = allocate.CostOf(f.cost)
	}
	if f.plan != "" {
		for _, name := range []string{"memory", "method", "floor", "cost", "judge", outFlag} {
			if c.Flags().Changed(name) {
				return usagef("--%s is of a plan to be made, --plan judges one that is there", name)
			}
		}
		return nil
	}
	if f.options.Memory == "" {
		return usagef("memory missing: say how much a request has, as in --memory 2x")
	}
	return f.parseMethods()
}

func (f *allocateFlags) parseMethods() error {
	names := f.methods
	if slices.Contains(names, "all") {
		names = allocate.MethodNames()
	}
	for _, name := range names {
		spec, err := allocate.ParseMethod(name)
		if err != nil {
			return errUsage{fmt.Errorf("--method: %w", err)}
		}
		f.options.Methods = append(f.options.Methods, spec)
	}
	if f.out != "" && len(f.options.Methods) != 1 {
		return usagef("-o takes the plan of one method, --method names %d", len(f.options.Methods))
	}
	return nil
}

func (f *allocateFlags) render(w io.Writer, reports []*allocate.Report) error {
	if f.format == "json" {
		return writeJSON(w, reports)
	}
	return allocate.WriteText(w, reports, texttable.Figures)
}
