package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/allocate"
)

type allocateFlags struct {
	options      allocate.Options
	methods      []string
	cost, format string
	where        where
	plan, out    string
	trace        string // the trace of the rows if it is one file, TRACE else
}

func allocateCommand(table policies.Table) command {
	var f allocateFlags
	o := &f.options
	return command{
		use:   "allocate ROWS...",
		short: "Divide cache memory among layers and heads",
		long: `Divide the cache memory of a request among the layers and heads of a model.
ROWS are rows of kvreplay replay --per stream, of one policy at many capacities or of many windows.
The result is a plan: a file with the size of each layer and head. The report states the misses
that it saves on the profiled requests, and on others with --judge.`,
		details: "Methods:\n" + strings.Join(slice.Map(allocate.Methods(), func(m allocate.Method) string {
			return fmt.Sprintf("  %-20s %s", m.Usage, m.Summary)
		}), "\n"),
		example: `  kvreplay replay t.parquet --policy lru --capacity sweep --per stream --out profile
  kvreplay allocate profile --memory 2x --method 2d-greedy -o plan.yaml
  kvreplay allocate profile --memory 2x --method all --judge 'news-*'
  kvreplay allocate profile --plan plan.yaml`,
		args: atLeast(1, "ROWS"),
		flags: func(fl *flagSet) {
			fl.StringVar(&o.Memory, "memory", "", "memory of a request as a capacity per stream: 2x, 64MiB or window:2 (required without --plan)")
			fl.StringSliceVar(&f.methods, "method", []string{"2d-greedy"}, "divide by these methods, each `NAME[:OPTIONS]`, or all")
			fl.StringVar(&o.Policy, "policy", "", "use the rows of this policy, or window for all windows (default: the only one)")
			fl.StringVar(&o.Floor, "floor", "", "smallest `SIZE` of a stream: 1x, entries or window:N (default 1x, or the smallest window)")
			fl.StringSliceVar(&o.Judge, "judge", nil, "measure the plan on these `REQUESTS`, which are then not profiled")
			fl.out(&f.out, "write the plan to this `FILE` (YAML)")
			fl.format(&f.format, "", "table", "json")
			fl.more()
			fl.enum(&f.cost, "cost", string(allocate.MeanResidents), "cost of a window: `mean` or peak of its residents",
				string(allocate.MeanResidents), string(allocate.PeakResidents))
			fl.StringSliceVar(&o.Requests, "requests", nil, "profile these `REQUESTS`: ids, trace files or TRACE/ID, with * and ? (default: all)")
			fl.StringSliceVar(&o.Exclude, "exclude", nil, "do not profile these `REQUESTS`")
			fl.StringVar(&f.plan, "plan", "", "measure this `PLAN` on all requests instead of making one")
			fl.where(&f.where)
		},
		run: func(c *call) error {
			f.options.Policy = table.Canonical(f.options.Policy)
			return f.run(c)
		},
		next: func(c *call) []string {
			switch {
			case f.out != "":
				return []string{"replay", f.trace, "--allocation", f.out}
			case f.plan != "":
				return []string{"replay", f.trace, "--allocation", f.plan}
			}
			return slices.Concat([]string{"allocate"}, c.args, c.given("allocate"), []string{"-o", "plan.yaml"})
		},
	}
}

func (f *allocateFlags) run(c *call) error {
	if err := f.complete(c); err != nil {
		return err
	}
	if err := cmp.Or(checkOutput("allocate", f.out, filesOf(c.args, ".jsonl")), allocate.CheckFile(f.out)); err != nil {
		return err
	}
	if f.plan != "" {
		var err error
		if f.options.Plan, err = allocate.Read(c.Context(), f.plan); err != nil {
			return err
		}
	}
	selected, err := readResults(c.Context(), c.args, f.where.conditions, nil)
	if err != nil {
		return err
	}
	reports, err := unlessStopped(c.Context(), func() ([]*allocate.Report, error) { return allocate.Run(selected.rows, f.options) })
	if err != nil {
		return selected.missing(err, f.options.Policy)
	}
	for _, w := range reports[0].Warnings {
		fmt.Fprintf(c.stderr, "kvreplay: %s\n", w)
	}
	if f.out != "" {
		if err := reports[0].Plan.Write(f.out); err != nil {
			return err
		}
		c.wrote(f.out)
	}
	f.trace = traceOf(selected.rows)
	err = c.print(f.format, reports, func(w io.Writer) error { return allocate.WriteText(w, reports, table.Figures) })
	return cmp.Or(err, errorOf(selected.incomplete))
}

// traceOf returns the trace of the rows for the next command, or TRACE if they are of several or
// it is not a file here.
func traceOf(rows []result.Row) string {
	name := rows[0].Trace
	if _, err := os.Stat(name); err != nil || slices.ContainsFunc(rows, func(r result.Row) bool { return r.Trace != name }) {
		return "TRACE"
	}
	return name
}

// complete checks the flags and turns them into options.
func (f *allocateFlags) complete(c *call) error {
	if err := f.options.Validate(); err != nil {
		return errUsage{fmt.Errorf("allocate: %w", err)}
	}
	if c.changed("cost") {
		f.options.Cost = allocate.CostOf(f.cost)
	}
	if f.plan != "" {
		for _, name := range []string{"memory", "method", "floor", "cost", "judge", outFlag} {
			if c.changed(name) {
				return usagef("--%s has no effect with --plan, which measures an existing plan: remove one of them", name)
			}
		}
		return nil
	}
	if f.options.Memory == "" {
		return usagef("--memory missing: state the memory of a request, as in --memory 2x")
	}
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
		return usagef("-o writes the plan of one method, but --method names %d: choose one", len(f.options.Methods))
	}
	return nil
}
