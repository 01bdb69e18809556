package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

type sweepFlags struct {
	table       policies.Table
	capacities  []string
	format, out string
	seed        uint64
}

func sweepOptionsCommand(known policies.Table) command {
	f := &sweepFlags{table: known}
	return command{
		use:   "sweep-options POLICY:OPTION=VALUES TRACE...",
		short: "Show how a policy's misses depend on its options",
		long: `Replay a policy with several values of its options, and print × OPT of each. VALUES are a|b|c, or
low..high with 5 values at equal distances, or low..high/N with N. Several options give all
combinations. To claim a result, choose options on other traces than those of the claim.`,
		example: "  kvreplay sweep-options lrfu:gamma=0.9..0.99 t.parquet\n  kvreplay sweep-options 's3-fifo:small=0.05|0.1|0.2' t.parquet --capacity 2x --format csv",
		args:    atLeast(2, "POLICY:OPTION=VALUES or trace"),
		flags: func(fl *flagSet) {
			fl.StringSliceVar(&f.capacities, "capacity", []string{"1.5x", "2x", "4x"}, "replay at these `CAPACITIES`")
			fl.format(&f.format, "", "table", "markdown", "latex", "csv", "json")
			fl.out(&f.out, "draw × OPT over the values to this `FILE` (.pdf, .svg, .png), for one option of numbers")
			fl.Uint64Var(&f.seed, "seed", 0, "seed of the bootstrap (default 0)")
		},
		run: f.run,
	}
}

// variant is a policy with its figures. Intervals are null with fewer than five requests.
type variant struct {
	Policy    string        `json:"policy"`
	Default   bool          `json:"default"`
	XOpt      *board.Figure `json:"x_opt"`
	GapClosed *board.Figure `json:"gap_closed"`
	Misses    int64         `json:"misses"`
	values    []string      // of the varied options
}

func (f *sweepFlags) run(c *call) error {
	specs, varied, err := f.table.Variants(c.args[0])
	if err != nil {
		return errUsage{err}
	}
	if specs[0].Entry.Traits.Lossy || specs[0].Entry.Traits.Windowed {
		return usagef("policy %s: expected an exact policy with a capacity, because × OPT compares these", specs[0].Entry.Name)
	}
	format := ""
	if f.out != "" {
		if format, err = figure.Format(f.out); err != nil {
			return errUsage{err}
		}
		if len(varied) > 1 {
			return usagef("--out draws one option, but %s vary: give all but one of them one value", strings.Join(varied, " and "))
		}
	}
	if err := checkOutput("sweep-options", f.out, c.args[1:]); err != nil {
		return err
	}
	usual, err := f.table.Parse(specs[0].Entry.Name)
	if err != nil {
		return err
	}
	if specs, _, err = parsePolicies(f.table, append(slice.Map(specs, policies.Spec.Name), usual.Name())); err != nil {
		return err
	}
	o, err := byRequest(f.table, append(slice.Map(specs, policies.Spec.Name), "lru", board.OptPolicy), f.capacities)
	if err != nil {
		return errUsage{err}
	}
	rows, err := replayAll(c, c.args[1:], o)
	if err != nil {
		return err
	}
	b, err := board.NewBoard(rows, board.Options{Seed: f.seed})
	if err != nil {
		return err
	}
	all := variants(b, specs, varied, usual)
	if all == nil {
		return errors.New("no variant has figures: OPT misses nothing, or the trace cannot serve the policy. Choose another capacity or trace")
	}
	if f.out != "" {
		if err := f.draw(c, all, varied[0], format); err != nil {
			return err
		}
	}
	return f.print(c, all, varied)
}

// byRequest returns the options of a replay with rows by request.
func byRequest(table policies.Table, names, capacities []string) (o replay.Options, err error) {
	o.Per = replay.PerRequest
	if o.Policies, o.SkipUnable, err = parsePolicies(table, names); err == nil {
		o.Capacities, err = replay.ParseCapacities(capacities)
	}
	return o, err
}

// replayAll replays several traces with the same options and returns all rows.
func replayAll(c *call, paths []string, o replay.Options) ([]result.Row, error) {
	if err := checkNames(paths, "into one table"); err != nil {
		return nil, err
	}
	traces, closeTraces, err := openTraces(c.Context(), paths)
	defer closeTraces()
	if err != nil {
		return nil, err
	}
	return replayTraces(c, traces, o)
}

func replayTraces(c *call, traces []*trace.File, o replay.Options) (rows []result.Row, err error) {
	o.Progress = c.bar.add
	var jobs []*replay.Job
	work, cells := int64(0), 0
	for _, t := range traces {
		job, err := replay.Plan(t, o)
		if err != nil {
			return nil, err
		}
		jobs, work, cells = append(jobs, job), work+job.Work(), cells+job.Cells()
	}
	c.bar.start(work, "replay "+count(cells, "cell"), "steps")
	for _, job := range jobs {
		done, err := job.Run(c.Context())
		if err != nil {
			return nil, err
		}
		rows = append(rows, done.Rows...)
	}
	c.bar.close()
	return rows, nil
}

// variants returns the figures of the specs, pooled over traces and capacities, in their order.
func variants(b *board.Board, specs []policies.Spec, varied []string, usual policies.Spec) (all []variant) {
	if len(b.Tables) == 0 {
		return nil
	}
	lines := b.Tables[0].Lines()
	for _, s := range specs {
		i := slices.IndexFunc(lines, func(l board.Line) bool { return l.Policy == s.Name() })
		if i < 0 || lines[i].Pooled == nil || lines[i].Pooled.XOpt == nil {
			continue
		}
		p := lines[i].Pooled
		v := variant{Policy: s.Name(), Default: s.Name() == usual.Name(), XOpt: p.XOpt, GapClosed: p.GapClosed, Misses: p.Misses}
		for _, option := range varied {
			for item := range strings.SplitSeq(s.Options, ",") {
				if value, ok := strings.CutPrefix(item, option+"="); ok {
					v.values = append(v.values, value)
				}
			}
		}
		all = append(all, v)
	}
	return all
}

func (f *sweepFlags) print(c *call, all []variant, varied []string) error {
	t := table.New(slices.Concat(varied, []string{"× OPT", "95 %", "gap closed", "misses", "remark"})...).RightFrom(0)
	t.Title = "Options of " + c.args[0] + ", pooled over " + count(len(c.args)-1, "trace") + " at " + strings.Join(f.capacities, ", ")
	best := slices.MinFunc(all, func(a, b variant) int { return cmp.Compare(a.XOpt.Value, b.XOpt.Value) })
	for _, v := range all {
		low, gap, remark := "-", "-", ""
		if v.XOpt.Bounded() && v.XOpt.High != nil {
			low = fmt.Sprintf("[%.3f, %.3f]", *v.XOpt.Low, *v.XOpt.High)
		}
		if v.GapClosed != nil {
			gap = fmt.Sprintf("%.1f %%", 100*v.GapClosed.Value)
		}
		if v.Default {
			remark = "default"
		}
		if v.Policy == best.Policy {
			remark = strings.TrimPrefix(remark+", lowest", ", ")
		}
		t.AddTexts(append(slices.Clone(v.values), fmt.Sprintf("%.3f", v.XOpt.Value), low, gap, strconv.FormatInt(v.Misses, 10), remark))
	}
	t.Notes = []string{"Intervals are over requests, of each variant alone. `kvreplay compare` tests a pair."}
	return c.report(f.format, all, "", &table.Report{Title: t.Title, Tables: []*table.Table{t}})
}

// draw plots × OPT over the values of one option. The default is a line of its own, with one point.
func (f *sweepFlags) draw(c *call, all []variant, option, format string) error {
	line, usual := figure.Line{Name: strings.SplitN(all[0].Policy, ":", 2)[0]}, figure.Line{Name: "default", Bound: true}
	for _, v := range all {
		x, err := strconv.ParseFloat(v.values[0], 64)
		if err != nil {
			return usagef("--out draws numbers, but %s is %q: remove --out", option, v.values[0])
		}
		p := figure.Point{X: x, Y: v.XOpt.Value, Low: v.XOpt.Value, High: v.XOpt.Value}
		if v.XOpt.Bounded() && v.XOpt.High != nil {
			p.Low, p.High = *v.XOpt.Low, *v.XOpt.High
		}
		line.Points = append(line.Points, p)
		if v.Default {
			usual.Points = append(usual.Points, figure.Point{X: x, Y: p.Y, Low: p.Y, High: p.Y})
		}
	}
	slice.Sort(line.Points, func(a, b figure.Point) int { return cmp.Compare(a.X, b.X) })
	fig := figure.Figure{Title: "× OPT over " + option, Size: figure.Column,
		Drawing: &figure.Lines{X: option, Y: "misses ÷ OPT's", Lines: []figure.Line{line, usual}}}
	return c.drawFile(f.out, format, &fig)
}
