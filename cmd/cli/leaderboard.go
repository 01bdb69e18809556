package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
)

// resultsFolder is where rows are read from when none are named.
const resultsFolder = "results"

// boardFormats are the renderings of a board, as --format takes them.
var boardFormats = []string{"table", "markdown", "csv", "json"}

// boardFlags are the flags of `kvreplay leaderboard` as typed.
type boardFlags struct {
	format, out string
	where       []string
	seed        uint64
	perTrace    bool
	time        boardTimeFlags
}

func newLeaderboardCommand(table policies.Table) *cobra.Command {
	var f boardFlags
	c := &cobra.Command{
		Use:   "leaderboard [ROWS...]",
		Short: "Rank policies by misses ÷ the optimum's, from result rows",
		Long: `Rank policies by misses ÷ OPT's at the same capacity, from result rows: files of
JSON lines or CSV, or folders of *.jsonl; without any, the folder results. Rows are
replay's (--out, or its stdout with --format jsonl); with replay --per request or finer
the figures have 95 % intervals and the digits that these support, and policies have
letters: those that share a letter are not distinguished. Rows that differ in a setting
that changes counts are refused, never pooled: choose with --where. So are rows that
miss less than the optimum which bounds them. Lossy policies are ranked apart, by their
recall of the demand at equal budgets.

A results folder knows the cells that replay was asked for. If some have no rows, titles
say INCOMPLETE, a note names the traces, and the exit code is 3. --where trace!=NAME
leaves a trace out. Rows from before an edit of a policy are left out if the run that
replaces them was stopped.

Beside bytes a step stands the modelled time per output token (TPOT) on a machine,
computed from the rows alone; --by time ranks by it. What it assumes is said under the
table. h100 is the default because its link is the one with most measured constants,
and sequential because a mean of misses then makes a mean of times.`,
		Example: `  kvreplay leaderboard
  kvreplay leaderboard results --where topk=256 --where policy!=fifo --per-trace
  kvreplay leaderboard rows.jsonl --format markdown
  kvreplay leaderboard results --by time --hardware rtx4090 --batch 16
  kvreplay leaderboard results --out board`,
		RunE: func(c *cobra.Command, args []string) error { return runLeaderboard(c, args, &f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.format, "format", "table", "`table`, markdown, csv or json on stdout")
	outVar(fl, &f.out, "folder to write leaderboard.md, .csv, .json, rows.parquet and curves-<trace>.svg to as well")
	fl.StringArrayVar(&f.where, "where", nil, "only rows with `KEY=VALUE` (or KEY!=VALUE), any field of a row; repeatable: one key's values are alternatives")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the bootstrap and of the permutation test (default 0)")
	fl.BoolVar(&f.perTrace, "per-trace", false, "a table for every trace too")
	f.time.add(c)
	c.AddCommand(newVerifyCommand(table))
	return c
}

func runLeaderboard(c *cobra.Command, paths []string, f *boardFlags) error {
	if !slices.Contains(boardFormats, f.format) {
		return usagef("--format %q: expected table, markdown, csv or json", f.format)
	}
	if f.perTrace && f.out == "" && (f.format == "csv" || f.format == "json") {
		return usagef("--per-trace adds tables, --format %s has none: leave it out", f.format)
	}
	if err := atLeastOne(c, "context"); err != nil {
		return err
	}
	timer, err := f.time.timer(c.Context())
	if err != nil {
		return err
	}
	if f.out != "" { // known before the rows are read
		if err := files.MakeFolder(f.out); err != nil {
			return fmt.Errorf("leaderboard: %w", err)
		}
		if err := checkOutput("leaderboard", filepath.Join(f.out, "leaderboard.md"), paths); err != nil {
			return err
		}
	}
	selected, err := readResults(c.Context(), paths, f.where)
	if err != nil {
		return err
	}
	boards, err := unlessStopped(c.Context(), func() ([]startBoard, error) {
		return newBoards(selected.rows, board.Options{Seed: f.seed, Timer: timer, By: f.time.by, Incomplete: selected.incomplete})
	})
	if stopped := c.Context().Err(); stopped != nil {
		return stopped // cells without times are no board
	}
	if errors.Is(err, board.ErrNoOptimum) {
		return selected.missing(err, "opt")
	}
	if err != nil {
		return err
	}
	if len(boards) > 1 && f.out == "" && (f.format == "csv" || f.format == "json") {
		return usagef("--format %s is one board, the rows make two: choose with --where warmup=cold or --where warmup!=cold, or write both with --out", f.format)
	}
	if f.out != "" {
		if err := f.write(c.ErrOrStderr(), boards, selected.rows, paths); err != nil {
			return err
		}
	}
	if best := bestOf(boards); len(best) == 2 {
		suggest(c, slices.Concat([]string{"compare"}, best, paths, givenFlags(c, "compare", "format", "seed"))...)
	}
	return cmp.Or(f.renderAll(c.OutOrStdout(), boards, f.format), errorOf(selected.incomplete))
}

// startBoard is the board of the warmed rows or of the cold ones, which are never
// pooled (SEMANTICS S8).
type startBoard struct {
	*board.Board
	title  string // empty where there is but one board
	suffix string // of its files
}

func newBoards(rows []result.Row, o board.Options) ([]startBoard, error) {
	warmed, cold := result.SplitCold(rows)
	parts := []struct {
		rows          []result.Row
		title, suffix string
	}{{warmed, "Warmed caches", ""}, {cold, "Cold starts", "-cold"}}
	var boards []startBoard
	for _, p := range parts {
		if len(p.rows) == 0 {
			continue
		}
		b, err := board.NewBoard(p.rows, o)
		if err != nil && len(p.rows) < len(rows) {
			err = fmt.Errorf("cold starts are never pooled with warmed caches and make a board of their own, and the rows have both, warmup=cold in %d of %d; %s: %w; choose with --where warmup=cold or --where warmup!=cold", len(cold), len(rows), strings.ToLower(p.title), err)
		}
		if err != nil {
			return nil, err
		}
		boards = append(boards, startBoard{b, p.title, p.suffix})
	}
	if len(boards) == 1 {
		boards[0].title, boards[0].suffix = "", ""
	}
	return boards, nil
}

// bestOf are the two policies that lead the first board, fewer if it ranks fewer.
func bestOf(boards []startBoard) (best []string) {
	for _, t := range boards[0].Tables {
		for _, line := range t.Ranked[:min(2, len(t.Ranked))] {
			best = append(best, line.Policy)
		}
	}
	return best
}

// renderAll writes the boards one after the other, titled where there are two.
func (f *boardFlags) renderAll(w io.Writer, boards []startBoard, format string) error {
	for i, b := range boards {
		if b.title != "" && format != "csv" && format != "json" {
			fmt.Fprintf(w, map[bool]string{true: "# %s\n\n", false: "=== %s ===\n\n"}[format == "markdown"], b.title)
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

// readAsked reads the cells that the folders among the paths were asked for.
func readAsked(paths []string) (asked []result.Row, err error) {
	if len(paths) == 0 {
		paths = []string{resultsFolder}
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			continue // a file, or an error for those that read the rows
		}
		of, err := replay.Asked(path)
		if err != nil {
			return nil, fmt.Errorf("read rows: %w", err)
		}
		asked = append(asked, of...)
	}
	return asked, nil
}

// errorOf is the error of a board or comparison that was printed but is incomplete.
func errorOf(i *result.Incomplete) error {
	if i == nil {
		return nil
	}
	return i
}

// selection is the rows that --where selected, with all rows and the conditions.
type selection struct {
	rows, all  []result.Row
	where      result.Where
	incomplete *result.Incomplete // nil if the folders have all cells that replay was asked for
}

// readResults reads the rows of all paths, or of the results folder if there are none, and
// keeps those that the conditions select.
func readResults(ctx context.Context, paths, conditions []string) (s selection, err error) {
	if s.where, err = result.ParseWhere(conditions); err != nil {
		return s, errUsage{fmt.Errorf("--where: %w", err)}
	}
	asked, err := readAsked(paths)
	if err != nil {
		return s, err
	}
	s.all, err = readAllRows(ctx, paths)
	if none := result.FindIncomplete(asked, nil, s.where); errors.Is(err, result.ErrNoRows) && none != nil {
		return s, none
	}
	if err != nil {
		return s, err
	}
	s.incomplete = result.FindIncomplete(asked, s.all, s.where)
	s.all = result.WithoutOutdated(asked, s.all)
	if s.rows, err = s.where.Filter(s.all); err != nil {
		return s, cmp.Or(errorOf(s.incomplete), fmt.Errorf("--where: %w", err))
	}
	if len(s.rows) == 0 {
		return s, errorOf(s.incomplete)
	}
	return s, nil
}

// missing explains an error that is about a policy without rows: if --where removed the rows
// of the policy, it says so and states the conditions that keep them.
func (s *selection) missing(err error, policy string) error {
	policy = policies.Named(policy, policiesOf(s.all))
	removed := 0
	with := s.where.Including(policy)
	for i := range s.all {
		if r := &s.all[i]; r.Policy == policy && with.Selects(r) {
			if s.where.Selects(r) {
				return err
			}
			removed++
		}
	}
	if removed == 0 && s.incomplete != nil {
		return errors.Join(s.incomplete, err)
	}
	if removed == 0 {
		return err
	}
	remedy := "leave out --where"
	if conditions := with.Conditions(); len(conditions) > 0 {
		for i := range conditions {
			conditions[i] = "--where " + printable.ShellWord(conditions[i])
		}
		remedy = "use " + strings.Join(conditions, " ")
	}
	return fmt.Errorf("--where removed the %s of policy %s, which this needs: %s", count(removed, "row"), policy, remedy)
}

// policiesOf lists the policy of every row.
func policiesOf(rows []result.Row) []string {
	list := make([]string, len(rows))
	for i := range rows {
		list[i] = rows[i].Policy
	}
	return list
}

// readAllRows reads the rows of all paths, of the results folder without any.
func readAllRows(ctx context.Context, paths []string) ([]result.Row, error) {
	if len(paths) == 0 {
		if _, err := os.Stat(resultsFolder); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no folder %s here, and no rows named: make it with `kvreplay replay TRACE... --out %s` or `make leaderboard`, or name files of rows", resultsFolder, resultsFolder)
		}
		paths = []string{resultsFolder}
	}
	return unlessStopped(ctx, func() ([]result.Row, error) { return result.ReadRows(paths...) })
}

func (f *boardFlags) render(w io.Writer, b *board.Board, format string) error {
	switch format {
	case "markdown":
		return render.Markdown(w, b, f.perTrace)
	case "csv":
		return render.CSV(w, b)
	case "json":
		return render.JSON(w, b)
	}
	return render.Table(w, b, f.perTrace)
}

// write puts every rendering and the curves into the folder, each file whole or not
// at all, and none in the place of a file of rows.
func (f *boardFlags) write(progress io.Writer, boards []startBoard, rows []result.Row, inputs []string) error {
	outputs := []boardFile{
		{"leaderboard.md", func(w io.Writer) error { return f.renderAll(w, boards, "markdown") }},
		{"rows.parquet", func(w io.Writer) error { return result.WriteParquet(w, rows) }},
	}
	var curves []string
	for _, b := range boards {
		for _, format := range []string{"csv", "json"} {
			outputs = append(outputs, boardFile{"leaderboard" + b.suffix + "." + format, func(w io.Writer) error { return f.render(w, b.Board, format) }})
		}
		names := render.CurveNames(b.Board, b.suffix, curves)
		for _, trace := range render.CurveTraces(b.Board) {
			outputs = append(outputs, boardFile{names[trace], func(w io.Writer) error { return render.Curves(w, b.Board, trace) }})
			curves = append(curves, names[trace])
		}
	}
	for _, o := range outputs {
		if err := checkOutput("leaderboard", filepath.Join(f.out, o.name), inputs); err != nil {
			return err
		}
	}
	for _, o := range outputs {
		if err := f.writeFile(o); err != nil {
			return err
		}
	}
	fmt.Fprintf(progress, "kvreplay: wrote leaderboard.md, .csv, .json, rows.parquet and %s to %s\n", count(len(curves), "curve"), f.out)
	return nil
}

// boardFile is a file of --out.
type boardFile struct {
	name   string
	render func(io.Writer) error
}

func (f *boardFlags) writeFile(o boardFile) error {
	var out bytes.Buffer
	if err := o.render(&out); err != nil {
		return fmt.Errorf("leaderboard: %s: %w", o.name, err)
	}
	if err := files.Write(filepath.Join(f.out, o.name), out.Bytes()); err != nil {
		return fmt.Errorf("leaderboard: %w", err)
	}
	return nil
}
