package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/corpus"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

type boardFlags struct {
	format, out string
	where       where
	seed        uint64
	view        render.View
	time        boardTimeFlags
	source      render.PageSource
	split       string
	table       policies.Table
}

func leaderboardCommand(table policies.Table) command {
	var f boardFlags
	return command{
		use:   "leaderboard [ROWS...]",
		short: "Rank policies by misses divided by the optimum's",
		long: `Rank policies by × OPT: misses divided by the optimum's at the same capacity.
ROWS are files of JSON lines or CSV, or folders of *.jsonl (default: the folder results).
--format html makes one page to look at, with curves and a table that sorts and filters.
Rows of kvreplay replay --per request give intervals. Policies that share a letter are not
distinguished. The exit code is 3 if a folder lacks cells of its replay command.`,
		details: `Rows that differ in a setting that changes counts are refused: choose with --where. Rows with fewer
misses than the optimum are refused too. Lossy policies are ranked apart, by the recall of their
demand at equal budgets. Rows from before an edit of a policy are left out.

If a folder lacks cells, titles say INCOMPLETE and a note names the traces. --where trace!=NAME
leaves a trace out.

Times per output token (TPOT) are modelled from the rows alone, and notes state the assumptions.
h100 is the default because its link has the most measured constants. sequential is the default
because it turns a mean of misses into a mean of times. kvreplay time --help-all lists schedules
and selections.`,
		example: `  kvreplay leaderboard
  kvreplay leaderboard results --where topk=256 --where policy!=fifo --per-trace
  kvreplay leaderboard rows.jsonl --format markdown
  kvreplay leaderboard results --by time --hardware rtx4090 --batch 16
  kvreplay leaderboard results --format html -o report.html
  kvreplay leaderboard results --out board`,
		args: cobra.ArbitraryArgs,
		flags: func(fl *flagSet) {
			fl.format(&f.format, "", "table", "markdown", "latex", "csv", "json", "html")
			fl.out(&f.out, "write the board in all formats, its rows and its pictures to this `FOLDER` too (with --format html: the page to this file)")
			fl.where(&f.where)
			fl.enum(&f.split, "split", string(corpus.Whole), "rank on `all` traces, or on the open or held-out ones of the bundled corpus", string(corpus.Whole), string(corpus.Open), string(corpus.HeldOut))
			fl.Uint64Var(&f.seed, "seed", 0, "seed of the bootstrap and of the permutation test (default 0)")
			fl.view(&f.view)
			fl.BoolVar(&f.view.PerTrace, "per-trace", false, "print a table for every trace too")
			f.time.define(fl)
		},
		run: func(c *call) error {
			f.view.Defaults, f.table = defaultsOf(table), table
			return f.run(c)
		},
		commands: []command{verifyCommand(table)},
	}
}

func (f *boardFlags) run(c *call) error {
	paths, isData, isPage := c.args, f.format == "csv" || f.format == "json", f.format == "html"
	if f.view.PerTrace && (f.out == "" && isData || isPage) {
		return usagef("--per-trace has no effect with --format %s, which has no tables: remove it", f.format)
	}
	timer, err := f.time.timer(c.Context())
	if err != nil {
		return err
	}
	f.source = render.PageSource{Command: commandLine(slices.Concat([]string{"leaderboard"}, paths, c.given("leaderboard"))...), Version: versionText()}
	if isPage {
		if err := checkOutput("leaderboard", f.out, paths); err != nil {
			return err
		}
	} else if f.out != "" { // known before the rows are read
		if err := files.MakeFolder(f.out); err != nil {
			return fmt.Errorf("leaderboard: %w", err)
		}
		if err := checkOutput("leaderboard", filepath.Join(f.out, "leaderboard.md"), paths); err != nil {
			return err
		}
	}
	of := choice{where: f.where.conditions, split: corpus.Split(f.split), heat: isPage || f.out != ""}
	boards, selected, err := of.readBoards(c.Context(), paths, board.Options{Seed: f.seed, Timer: timer, By: f.time.by})
	if err != nil {
		return err
	}
	if len(boards) > 1 && f.out == "" && isData {
		return usagef("--format %s holds one board, but the rows make two: add --where warmup=cold or "+
			"--where warmup!=cold, or write both with --out", f.format)
	}
	if isPage || f.out != "" {
		for i := range boards {
			if boards[i].Steps, err = timelines(c, paths, boards[i].Board, f.table); err != nil {
				return err
			}
		}
	}
	if isPage && f.out != "" {
		return cmp.Or(f.writePage(c, boards), errorOf(selected.incomplete))
	}
	if f.out != "" {
		rows := func(w *bytes.Buffer) error { return result.WriteParquet(w, selected.rows) }
		if selected.files != nil {
			rows = func(w *bytes.Buffer) error { return of.writeParquet(c.Context(), w, selected.files) }
		}
		if err := f.write(c, boards, rows, paths); err != nil {
			return err
		}
	}
	if best := bestOf(boards); len(best) == 2 {
		c.suggested = slices.Concat([]string{"compare"}, best, paths, c.given("compare", "format", "seed"))
	}
	return cmp.Or(f.renderAll(c.stdout, boards, f.format), errorOf(selected.incomplete))
}

// readBoards returns the boards of results, and the results.
func (c *choice) readBoards(ctx context.Context, paths []string, o board.Options) ([]render.PageBoard, *results, error) {
	boards, from, err := useResults(ctx, paths, *c, func(r *results) ([]render.PageBoard, error) { return r.boards(o) })
	if errors.Is(err, board.ErrNoOptimum) {
		err = from.missing(err, "opt")
	}
	return boards, from, err
}

// bestOf returns the two policies that lead the first board, fewer if it ranks fewer.
func bestOf(boards []render.PageBoard) (best []string) {
	for _, t := range boards[0].Tables {
		for _, line := range t.Ranked[:min(2, len(t.Ranked))] {
			best = append(best, line.Policy)
		}
	}
	return best
}

// renderAll writes the boards one after the other, with titles if there are two. A page holds all.
func (f *boardFlags) renderAll(w io.Writer, boards []render.PageBoard, format string) error {
	if format == "html" {
		return render.Page(w, boards, f.source, f.view)
	}
	for i, b := range boards {
		if title := map[string]string{"markdown": "# %s\n\n", "latex": "%% %s\n", "table": "=== %s ===\n\n"}[format]; b.Title != "" && title != "" {
			fmt.Fprintf(w, title, b.Title)
		}
		if err := f.render(w, b.Board, format); err != nil {
			return err
		}
		if i+1 < len(boards) {
			fmt.Fprintln(w)
		}
	}
	return nil
}

func (f *boardFlags) render(w io.Writer, b *board.Board, format string) error {
	switch format {
	case "markdown":
		whole := render.Whole
		whole.PerTrace = f.view.PerTrace
		return render.Board(b, whole).Markdown(w)
	case "latex":
		return render.Board(b, f.view).Latex(w)
	case "csv":
		return render.CSV(w, b)
	case "json":
		return text.WriteJSON(w, b)
	}
	return render.Board(b, f.view).Text(w)
}

// view adds the flags that choose what of a table is shown.
func (fl *flagSet) view(value *render.View) {
	fl.BoolVar(&value.Wide, "wide", false, "show all columns and tables: wider than 100 characters")
	fl.BoolVar(&value.Notes, "notes", false, "show all notes in full below the tables")
}

// defaultsOf returns a function that gives a policy of the table, by its name, its default
// options.
func defaultsOf(table policies.Table) func(string) string {
	return func(name string) string {
		spec, err := table.Parse(name)
		if err != nil {
			return name
		}
		return spec.Name()
	}
}

// write writes every rendering, the curves and rows.parquet into the folder. Each file is whole or
// missing, and none replaces a file of rows. If one cannot be rendered, none is written.
func (f *boardFlags) write(c *call, boards []render.PageBoard, rows func(*bytes.Buffer) error, inputs []string) error {
	type boardFile struct {
		name   string
		render func(*bytes.Buffer) error
	}
	outputs := []boardFile{
		{"leaderboard.md", func(w *bytes.Buffer) error { return f.renderAll(w, boards, "markdown") }},
		{"leaderboard.html", func(w *bytes.Buffer) error { return f.renderAll(w, boards, "html") }},
		{"rows.parquet", rows},
	}
	var curves, rankings []string
	for _, b := range boards {
		for _, format := range []string{"csv", "json"} {
			outputs = append(outputs, boardFile{"leaderboard" + b.Suffix + "." + format, func(w *bytes.Buffer) error { return f.render(w, b.Board, format) }})
		}
		names := render.CurveNames(b.Board, b.Suffix, curves)
		for _, trace := range render.CurveTraces(b.Board) {
			outputs = append(outputs, boardFile{names[trace], func(w *bytes.Buffer) error { return render.Curves(w, b.Board, trace, f.view) }})
			curves = append(curves, names[trace])
		}
		if !render.HasRankingPlot(b.Board) {
			continue
		}
		for _, scheme := range []string{"", "-dark"} {
			name := "ranking" + b.Suffix + scheme + ".svg"
			outputs = append(outputs, boardFile{name, func(w *bytes.Buffer) error { return render.RankingPlot(w, b.Board, f.view, scheme != "") }})
			rankings = append(rankings, name+", ")
		}
	}
	for _, o := range outputs {
		if err := checkOutput("leaderboard", filepath.Join(f.out, o.name), inputs); err != nil {
			return err
		}
	}
	texts := make([]bytes.Buffer, len(outputs))
	for i, o := range outputs {
		if err := o.render(&texts[i]); err != nil {
			return fmt.Errorf("leaderboard: %s: %w", o.name, err)
		}
	}
	for i, o := range outputs {
		if err := files.Write(filepath.Join(f.out, o.name), texts[i].Bytes()); err != nil {
			return fmt.Errorf("leaderboard: %w", err)
		}
	}
	c.wrote(f.out, fmt.Sprintf("leaderboard.md, .html, .csv, .json, rows.parquet, %sand %s", strings.Join(rankings, ""), count(len(curves), "curve")))
	return nil
}

// writePage writes the page of the boards. The file is whole or missing.
func (f *boardFlags) writePage(c *call, boards []render.PageBoard) error {
	var page bytes.Buffer
	if err := f.renderAll(&page, boards, "html"); err != nil {
		return fmt.Errorf("leaderboard: %s: %w", f.out, err)
	}
	if err := files.Write(f.out, page.Bytes()); err != nil {
		return fmt.Errorf("leaderboard: %w", err)
	}
	c.wrote(f.out)
	return nil
}

// boardTimeFlags are the flags of the modelled times of a board, as typed.
type boardTimeFlags struct {
	hardware                 hardwareFlags
	machine, model, schedule string
	selection                string
	batch                    int
	context                  int64
	by                       string
}

func (f *boardTimeFlags) define(fl *flagSet) {
	fl.enum(&f.by, "by", board.ByMisses, "rank by `misses` (× OPT) or by modelled time", board.ByMisses, board.ByTime)
	fl.StringVar(&f.machine, "hardware", "h100", "model times on this `MACHINE` of kvreplay hardware list")
	fl.more()
	fl.StringVar(&f.model, "model", "", "model times of this model `SHAPE` (default: each trace's own)")
	fl.StringVar(&f.schedule, "schedule", "sequential", "model times with this schedule, `NAME[:OPTION=VALUE,...]`")
	fl.IntVar(&f.batch, "batch", 8, "number of requests that decode together, for times")
	fl.Int64Var(&f.context, "context", 0, "tokens of context per request, for times (default: the model's, at most 32768)")
	f.hardware.define(fl.FlagSet)
	fl.StringVar(&f.selection, "selection", "auto", "find the Top-K by this `METHOD`, for times")
	fl.positive("context")
}

// timer returns the model of times that the flags describe.
func (f *boardTimeFlags) timer(ctx context.Context) (*rowTimer, error) {
	o := pipeline.Options{Batch: f.batch, Context: f.context}
	if err := o.Bounds(); err != nil {
		return nil, errUsage{err}
	}
	order, err := schedule.Parse(f.schedule)
	if err != nil {
		return nil, errUsage{err}
	}
	if order.Traits().Moves != schedule.MovesMisses {
		return nil, usagef("--schedule %s moves no misses, so all policies take the same time: choose another", order.Name())
	}
	if order.Parts() > f.batch {
		return nil, usagef("--schedule %s divides the batch into %d parts: raise --batch from %d", order.Name(), order.Parts(), f.batch)
	}
	if err := operator.CheckSelection(f.selection); err != nil {
		return nil, errUsage{err}
	}
	lib, machine, err := f.hardware.machine(f.machine)
	if err != nil {
		return nil, err
	}
	engine, err := operator.ParseEngine(operator.DefaultEngine)
	if err != nil {
		return nil, err
	}
	t := &rowTimer{ctx: ctx, library: lib}
	if f.model != "" {
		m, err := lib.ModelOrConfig(f.model)
		if err != nil {
			return nil, errUsage{err}
		}
		if _, err := operator.ParseSelection(f.selection, m); err != nil {
			return nil, errUsage{err}
		}
	}
	o.Machine, o.Schedule, o.Engine = machine, order, engine
	o.Kernels, o.Network = kernel.Fitted(lib), pipeline.Networks(lib)
	find := func(traced string) *hardware.Model {
		m, err := lib.Model(cmp.Or(f.model, traced))
		if err != nil {
			return nil
		}
		return m
	}
	t.pricer = pipeline.RowPricer{Selection: f.selection, Find: find, Options: o}
	return t, nil
}

// rowTimer is a board.Timer on the hardware library.
type rowTimer struct {
	ctx     context.Context
	pricer  pipeline.RowPricer
	traced  []string // models of the priced cells' traces
	shapes  []string // that cells were priced for
	labels  result.Labels
	library *hardware.Library
	assumed []string
	// narrowest and widest are half widths of TPOT's intervals, as shares of it.
	narrowest, widest float64
}

// TPOT is a cell's time per output token in seconds.
func (t *rowTimer) TPOT(r *result.Row) (float64, error) {
	priced, err := t.pricer.Price(t.ctx, r)
	switch {
	case err != nil:
		return 0, err
	case !priced.Fits():
		return 0, fmt.Errorf("%s at batch %d does not fit into %s at some capacities: lower --batch or --context, or choose another --hardware", priced.Model, priced.Batch, priced.Machine)
	}
	half := priced.HalfWidth()
	if t.shapes == nil {
		t.narrowest = half
	}
	t.narrowest, t.widest = min(t.narrowest, half), max(t.widest, half)
	t.shapes = slice.Add(t.shapes, priced.Model)
	t.assumed = slice.Add(t.assumed, priced.Notes...)
	t.labels = t.labels.With(priced.Labels...)
	if !slices.Contains(t.traced, r.Model) {
		t.traced = append(t.traced, r.Model)
		if own, err := t.library.Model(r.Model); err != nil || own.Name != priced.Model { // --model names another shape
			t.labels = t.labels.With(result.LabelStretched)
		}
	}
	return priced.TPOT, nil
}

// Model returns what the times assume.
func (t *rowTimer) Model() board.TimeModel {
	o := &t.pricer.Options
	notes := []string{"each step, layer and head has the mean misses of the recorded streams. 'kvreplay time' prices each step"}
	if t.widest > 0 {
		within := fmt.Sprintf("±%.0f", 100*t.widest)
		if least := fmt.Sprintf("±%.0f", 100*t.narrowest); least != within {
			within = least + " to " + within
		}
		notes = append(notes, fmt.Sprintf("errors of cells are %s %%. They move all policies alike, so they do not change their order", within))
	}
	for _, n := range slices.Sorted(slices.Values(t.assumed)) {
		notes = append(notes, strings.TrimSuffix(n, ", with the misses of the profile"))
	}
	return board.TimeModel{Hardware: o.Machine.Name, Model: strings.Join(slices.Sorted(slices.Values(t.shapes)), ", "), Schedule: o.Schedule.Name(), Batch: o.Batch, Labels: t.labels, Assumptions: notes}
}
