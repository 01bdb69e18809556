package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/corpus"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/systems"
)

type plotFlags struct {
	table       policies.Table
	figure      figure.Figure
	out, format string
	policies    []string
	where       where
	seed        uint64
	y, capacity string
}

func plotCommand(table policies.Table) command {
	kinds := []command{rankingPlot(table), curvePlot(table), paretoPlot(table), heatmapPlot(table), stepsPlot(table)}
	return command{
		use:   "plot",
		short: "Draw a figure for a paper from results",
		long: `Draw a figure for a paper as PDF, SVG or PNG. Names stand next to the data. Dashes and markers
differ, so figures can be printed in grey. The background is transparent. metrics/PLOTS.md has
examples.`,
		example: `  kvreplay plot ranking results -o ranking.pdf
  kvreplay plot curve results --policy lru,fifo,opt --y miss-ratio -o curve.svg`,
		commands: kinds,
	}
}

// define adds the flags that all plots have.
func (f *plotFlags) define(fl *flagSet) {
	f.figure.Size = figure.Column
	fl.needOut(&f.out, "FIGURE", "write the figure to this `FILE`, whose name ends in .pdf, .svg or .png")
	fl.more()
	fl.Float64Var(&f.figure.Size.Width, "width", f.figure.Size.Width, "width of the figure in `MM`, a column of a paper by default")
	fl.Float64Var(&f.figure.Size.Height, "height", 0, "height of the figure in `MM` (default: follows from width and content)")
	fl.BoolVar(&f.figure.White, "white", false, "fill the background with white")
}

func (f *plotFlags) ofRows(fl *flagSet) {
	fl.StringSliceVar(&f.policies, "policy", nil, "show these `POLICIES` in this order, or all (default: the five best, lru and opt)")
	fl.where(&f.where)
}

// check checks the output and the size before anything is read.
func (f *plotFlags) check(c *call, inputs []string) (err error) {
	if f.format, err = figure.Format(f.out); err != nil {
		return errUsage{err}
	}
	for _, side := range []struct {
		name string
		mm   float64
	}{{"width", f.figure.Size.Width}, {"height", f.figure.Size.Height}} {
		if c.changed(side.name) && !(side.mm >= figure.Least && side.mm <= figure.Most) {
			return usagef("--%s %g: expected %d to %d mm", side.name, side.mm, figure.Least, figure.Most)
		}
	}
	f.policies = joinOptions(f.policies)
	return checkOutput(commandName(c.Command), f.out, inputs)
}

// draw writes the figure.
func (f *plotFlags) draw(c *call, title string, d figure.Drawing) error {
	f.figure.Drawing, f.figure.Title = d, title
	return c.drawFile(f.out, f.format, &f.figure)
}

// board reads the rows of the arguments, which must make one board.
func (f *plotFlags) board(c *call) (*board.Board, *result.Incomplete, error) {
	of := choice{where: f.where.conditions, split: corpus.Whole}
	boards, selected, err := of.readBoards(c.Context(), c.args, board.Options{Seed: f.seed})
	if err != nil {
		return nil, nil, err
	}
	if len(boards) > 1 {
		return nil, nil, usagef("the rows make two boards: add --where warmup=cold or --where warmup!=cold")
	}
	return boards[0].Board, selected.incomplete, nil
}

func ofBoard(f *plotFlags, title string, drawing func(*board.Board, render.View) (figure.Drawing, error)) func(*call) error {
	return func(c *call) error {
		if err := f.check(c, c.args); err != nil {
			return err
		}
		b, incomplete, err := f.board(c)
		if err != nil {
			return err
		}
		d, err := drawing(b, render.View{Defaults: defaultsOf(f.table)})
		if err != nil {
			return err
		}
		return cmp.Or(f.draw(c, b.Incomplete.Titled(b.Labels.Title(title)), d), errorOf(incomplete))
	}
}

func rankingPlot(table policies.Table) command {
	f := &plotFlags{table: table}
	return command{
		use:   "ranking [ROWS...]",
		short: "Draw the ranking with intervals and groups",
		long: `Draw misses divided by the optimum's for each ranked policy, with 95 % intervals. Policies that
share a letter are not distinguished by their requests. Lossy policies are drawn by their recall if
the rows have no others. ROWS are those of kvreplay leaderboard.`,
		example: "  kvreplay plot ranking results -o ranking.pdf\n  kvreplay plot ranking results --policy lfu,fifo,lru -o ranking.svg",
		args:    cobra.ArbitraryArgs,
		flags: func(fl *flagSet) {
			f.ofRows(fl)
			f.define(fl)
			fl.Uint64Var(&f.seed, "seed", 0, "seed of the bootstrap and of the permutation test (default 0)")
		},
		run: ofBoard(f, "Ranking of policies", func(b *board.Board, v render.View) (figure.Drawing, error) {
			return render.RankingFigure(b, f.policies, v)
		}),
	}
}

func curvePlot(table policies.Table) command {
	f := &plotFlags{table: table}
	return command{
		use:   "curve [ROWS...]",
		short: "Draw a figure of policies over capacity",
		long: `Draw × OPT, the miss ratio or the hit rate of policies over the capacity, with 95 % intervals. It is
pooled over the traces of the rows. --where trace=NAME draws one trace. The five best policies, LRU
and OPT are shown, unless --policy names others.`,
		example: "  kvreplay plot curve results -o curve.pdf\n  kvreplay plot curve results --policy lru,fifo,opt --y miss-ratio -o curve.pdf",
		args:    cobra.ArbitraryArgs,
		flags: func(fl *flagSet) {
			f.ofRows(fl)
			fl.enum(&f.y, "y", render.CurveFigures[0], "draw `x-opt` (misses ÷ OPT's), miss-ratio, hit-rate or x-lru", render.CurveFigures...)
			f.define(fl)
			fl.Uint64Var(&f.seed, "seed", 0, "seed of the bootstrap (default 0)")
		},
		run: ofBoard(f, "Policies over capacity", func(b *board.Board, v render.View) (figure.Drawing, error) {
			return render.CurveFigure(b, f.y, f.policies, v)
		}),
	}
}

func paretoPlot(table policies.Table) command {
	f := &plotFlags{table: table}
	return command{
		use:   "pareto SYSTEMS.json...",
		short: "Draw GPU memory against time per token of systems",
		long: `Draw the GPU memory of systems against their time per output token, with its interval. A line joins
the systems that no other one of their kind beats in both: the Pareto front. SYSTEMS.json are
outputs of kvreplay systems --format json, for example at several --gpu-memory.`,
		example: "  kvreplay systems sel_*.parquet --model llama-3-8b --format json > sel_systems.json\n  kvreplay plot pareto sel_systems.json -o pareto.pdf",
		args:    atLeast(1, "file of systems"),
		flags:   f.define,
		run: func(c *call) error {
			if err := f.check(c, c.args); err != nil {
				return err
			}
			var rows []*systems.Row
			for _, path := range c.args {
				content, err := files.ReadSmall(path)
				if err != nil {
					return err
				}
				of, err := systems.ReadJSON(path, content)
				if err != nil {
					return err
				}
				rows = append(rows, of...)
			}
			systems.MarkFront(rows) // of all files together
			d, err := pareto(rows)
			if err != nil {
				return err
			}
			return f.draw(c, "GPU memory against time per token", d)
		},
	}
}

// pareto plots the systems that fit, with the marked front.
func pareto(rows []*systems.Row) (figure.Drawing, error) {
	rows = systems.ByKind(rows)
	d := &figure.Points{X: "GPU memory (GB)", Y: "time per output token (ms)", LogY: true}
	for _, r := range rows {
		if !r.Fits() {
			continue
		}
		g := slices.Index(d.Groups, string(r.Kind))
		if g < 0 {
			g, d.Groups = len(d.Groups), append(d.Groups, string(r.Kind))
		}
		d.Points = append(d.Points, figure.Mark{Name: r.Name, Group: g, Front: r.Pareto,
			Point: figure.Point{X: r.Memory.GPU / 1e9, Y: 1e3 * r.TPOT, Low: 1e3 * r.Interval.Low, High: 1e3 * r.Interval.High}})
	}
	if d.Points == nil {
		return nil, errors.New("no system of the files fits into memory: raise --gpu-memory or lower --batch of kvreplay systems")
	}
	return d, nil
}

func heatmapPlot(table policies.Table) command {
	f := &plotFlags{table: table}
	return command{
		use:   "heatmap [ROWS...]",
		short: "Draw the hit rate or misses of each layer and head",
		long: `Draw a map of layers and heads: the hit rate, or the misses, of one policy at one capacity, over all
requests of the rows. It needs rows of kvreplay replay --per stream.`,
		example: "  kvreplay replay t.parquet --policy lru --capacity 2x --per stream --out streams\n  kvreplay plot heatmap streams --policy lru --capacity 2x -o heads.pdf",
		args:    cobra.ArbitraryArgs,
		flags: func(fl *flagSet) {
			f.ofRows(fl)
			fl.StringVar(&f.capacity, "capacity", "", "draw this `CAPACITY` (default: the only one)")
			fl.enum(&f.y, "value", "hit-rate", "draw `hit-rate` or misses", "hit-rate", "misses")
			f.define(fl)
		},
		run: f.heatmap,
	}
}

func (f *plotFlags) heatmap(c *call) error {
	if err := f.check(c, c.args); err != nil {
		return err
	}
	of := choice{where: f.where.conditions, split: corpus.Whole, heat: true, alone: true}
	rows, selected, err := useResults(c.Context(), c.args, of, func(r *results) ([]result.Row, error) { return r.heat, nil })
	if err != nil {
		return err
	}
	var cells []pipeline.Cell
	for _, r := range rows {
		cells = slice.Add(cells, pipeline.Cell{Policy: r.Policy, Capacity: optional.Or(r.Capacity, "")})
	}
	if rows == nil {
		return errors.New("the rows are not of layers: replay with --per stream or --per layer")
	}
	if len(f.policies) > 1 {
		return usagef("--policy: a map shows one policy, got %d", len(f.policies))
	}
	chosen, err := f.chooseCells(cells)
	if err != nil {
		return err
	}
	if len(chosen) > 1 {
		return usagef("a map shows one of %d cells: choose with --policy and --capacity, as in %s", len(chosen), chosen[0])
	}
	cell := chosen[0]
	rows = slices.DeleteFunc(rows, func(r result.Row) bool {
		return r.Policy != cell.Policy || r.Capacity != nil && *r.Capacity != cell.Capacity
	})
	if warmed, cold := result.SplitCold(rows); warmed != nil && cold != nil {
		return usagef("the rows are of warmed and cold caches: add --where warmup=cold or --where warmup!=cold")
	}
	if err := result.CheckSettings(result.Pointers(rows)); err != nil {
		return err
	}
	d, err := render.HeatFigure(rows, f.y == "misses")
	if err != nil {
		return err
	}
	return cmp.Or(f.draw(c, fmt.Sprintf("%s of %s by layer and head", f.y, cell), d), errorOf(selected.incomplete))
}

func stepsPlot(table policies.Table) command {
	f := &plotFlags{table: table}
	return command{
		use:   "steps PROFILE...",
		short: "Draw the misses of each decode step",
		long: `Draw the share of the demanded blocks that each decode step fetches, over all requests, layers and
heads. A cold cache begins with a burst. PROFILE are files of kvreplay replay --profile, or folders
with one.`,
		example: "  kvreplay replay t.parquet --policy lru,echo --capacity 2x --warmup cold --out cold --profile\n  kvreplay plot steps cold -o steps.pdf",
		args:    atLeast(1, "profile"),
		flags: func(fl *flagSet) {
			fl.StringSliceVar(&f.policies, "policy", nil, "show only these `POLICIES`, in this order, without or with options")
			fl.StringVar(&f.capacity, "capacity", "", "draw this `CAPACITY` (default: all)")
			f.define(fl)
		},
		run: f.steps,
	}
}

func (f *plotFlags) steps(c *call) error {
	if err := f.check(c, filesOf(c.args, ".parquet")); err != nil {
		return err
	}
	var all []*pipeline.Profile
	for _, arg := range c.args {
		path, err := profileIn(arg)
		if err != nil {
			return err
		}
		cells, err := pipeline.Cells(c.Context(), path)
		if err != nil {
			return err
		}
		if cells, err = f.chooseCells(cells); err != nil {
			return err
		}
		profiles, err := pipeline.ReadProfiles(c.Context(), path, cells)
		if err != nil {
			return err
		}
		all = append(all, profiles...)
	}
	return f.draw(c, "Misses of each decode step", stepsDrawing(all, f.table))
}

// stepsDrawing plots the misses of each step of profiles. Profiles of a cell are pooled.
func stepsDrawing(profiles []*pipeline.Profile, table policies.Table) figure.Drawing {
	sums, capacities := map[pipeline.Cell][]stepSum{}, map[string]bool{}
	var order []pipeline.Cell
	for _, p := range profiles {
		if sums[p.Cell] == nil {
			order = append(order, p.Cell)
		}
		sums[p.Cell] = addSteps(sums[p.Cell], p)
		capacities[p.Cell.Capacity] = true
	}
	d := &figure.Lines{X: "decode step", Y: "misses ÷ demand"}
	short := render.View{Defaults: defaultsOf(table)}.PolicyNames(slice.Map(order, func(c pipeline.Cell) string { return c.Policy }))
	for _, cell := range order {
		line := figure.Line{Name: short[cell.Policy], Bare: true, Bound: cell.Policy == board.OptPolicy}
		if len(capacities) > 1 {
			line.Name += " @ " + cell.Capacity
		}
		for i, s := range sums[cell] {
			if s.demand > 0 {
				share := float64(s.misses) / float64(s.demand)
				line.Points = append(line.Points, figure.Point{X: float64(i), Y: share, Low: share, High: share})
			}
		}
		d.Lines = append(d.Lines, line)
	}
	return d
}

// mostTimelines is the number of profiles whose steps a page shows.
const mostTimelines = 8

// timelines plots the steps of the profiles in the folders of rows, at the first capacity of each. It
// shows the policies that the board shows at first. It leaves out profiles that cannot be read, and
// says so.
func timelines(c *call, paths []string, b *board.Board, table policies.Table) (figures []render.PageFigure, err error) {
	shown := render.Contenders(b)
	for _, path := range orResults(paths) {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			continue
		}
		found, err := files.Matching(path, "*.profile-*.parquet")
		if err != nil {
			return nil, err
		}
		for _, file := range found[:min(len(found), mostTimelines-len(figures))] {
			profiles, err := firstProfiles(c.Context(), file, shown)
			if stopped := c.Context().Err(); stopped != nil {
				return nil, stopped
			}
			if err != nil {
				fmt.Fprintf(c.stderr, "kvreplay: the page leaves out misses by step: %v\n", err)
			}
			if len(profiles) > 0 {
				title := "Misses of each decode step: " + profiles[0].Meta.Trace + " at " + profiles[0].Cell.Capacity
				figures = append(figures, render.PageFigure{Title: title, Drawing: stepsDrawing(profiles, table)})
			}
		}
	}
	return figures, nil
}

// firstProfiles reads the cells of some policies at the first capacity of a profile.
func firstProfiles(ctx context.Context, file string, shown []string) ([]*pipeline.Profile, error) {
	cells, err := pipeline.Cells(ctx, file)
	if err != nil || len(cells) == 0 {
		return nil, err
	}
	first := cells[0].Capacity
	cells = slices.DeleteFunc(cells, func(c pipeline.Cell) bool { return c.Capacity != first || !slices.Contains(shown, c.Policy) })
	if len(cells) == 0 {
		return nil, nil
	}
	return pipeline.ReadProfiles(ctx, file, cells)
}

// stepSum is the counts of a decode step.
type stepSum struct{ misses, demand int64 }

// addSteps adds the steps of a profile over its requests and layers.
func addSteps(sums []stepSum, p *pipeline.Profile) []stepSum {
	for _, q := range p.Requests {
		for _, layer := range q.Steps {
			for i := range layer {
				if i == len(sums) {
					sums = append(sums, stepSum{})
				}
				sums[i].misses += layer[i].Fetched
				sums[i].demand += layer[i].Demand
			}
		}
	}
	return sums
}

// chooseCells returns the cells that --policy and --capacity choose, in the order of --policy.
func (f *plotFlags) chooseCells(cells []pipeline.Cell) (chosen []pipeline.Cell, err error) {
	ran := text.Union(slice.Map(cells, func(c pipeline.Cell) string { return c.Policy }))
	wanted := ran
	if len(f.policies) > 0 {
		wanted = slice.Map(f.policies, func(name string) string { return policies.Named(f.table.Canonical(name), ran) })
	}
	for i, policy := range wanted {
		of := slice.Filter(cells, func(c pipeline.Cell) bool {
			return c.Policy == policy && (f.capacity == "" || result.CapacityText(c.Capacity) == result.CapacityText(f.capacity))
		})
		chosen = append(chosen, of...)
		if of == nil && len(f.policies) > 0 {
			return nil, usagef("no cell of %s%s; known: %s", f.policies[i], strings.TrimSuffix(" @ "+f.capacity, " @ "), names.Some(cellNames(cells)))
		}
	}
	if chosen == nil {
		return nil, usagef("no cell with capacity %s; known: %s", f.capacity, names.Some(cellNames(cells)))
	}
	return chosen, nil
}

func cellNames(cells []pipeline.Cell) []string { return slice.Map(cells, pipeline.Cell.String) }
