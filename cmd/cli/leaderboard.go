package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/metrics"
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
}

func newLeaderboardCommand() *cobra.Command {
	var f boardFlags
	c := &cobra.Command{
		Use:   "leaderboard [ROWS...]",
		Short: "Rank policies by misses ÷ the optimum's, from result rows",
		Long: `Rank policies by misses ÷ OPT's at the same capacity, from result rows: files of
JSON lines or CSV, or folders of *.jsonl; without any, the folder results. Rows are
replay's (--out, or its stdout with --format jsonl); with replay --per request or finer
the figures have 95 % intervals. Rows that differ in a setting that changes counts
are refused, never pooled: choose with --where.`,
		Example: `  kvreplay leaderboard
  kvreplay leaderboard results --where topk=256 --where policy!=fifo --per-trace
  kvreplay leaderboard rows.jsonl --format markdown
  kvreplay leaderboard results --out board`,
		RunE: func(c *cobra.Command, args []string) error { return runLeaderboard(c, args, &f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.format, "format", "table", "`table`, markdown, csv or json on stdout")
	fl.StringVar(&f.out, "out", "", "folder to write leaderboard.md, .csv, .json and curves-<trace>.svg to as well")
	fl.StringArrayVar(&f.where, "where", nil, "only rows with `KEY=VALUE` (or KEY!=VALUE), any field of a row; repeatable: one key's values are alternatives")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the bootstrap")
	fl.BoolVar(&f.perTrace, "per-trace", false, "a table for every trace too")
	return c
}

func runLeaderboard(c *cobra.Command, paths []string, f *boardFlags) error {
	if !slices.Contains(boardFormats, f.format) {
		return usagef("--format %q: expected table, markdown, csv or json", f.format)
	}
	where, err := metrics.ParseWhere(f.where)
	if err != nil {
		return errUsage{fmt.Errorf("--where: %w", err)}
	}
	rows, err := readAllRows(paths)
	if err != nil {
		return err
	}
	if rows, err = where.Filter(rows); err != nil {
		return fmt.Errorf("--where: %w", err)
	}
	board, err := metrics.NewBoard(rows, metrics.Options{Seed: f.seed})
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := f.write(c.ErrOrStderr(), board); err != nil {
			return err
		}
	}
	return f.render(c.OutOrStdout(), board, f.format)
}

// readAllRows reads the rows of all paths, of the results folder without any.
func readAllRows(paths []string) ([]metrics.Row, error) {
	if len(paths) == 0 {
		if _, err := os.Stat(resultsFolder); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no folder %s here, and no rows named: make it with `kvreplay replay TRACE... --out %s` or `make leaderboard`, or name files of rows", resultsFolder, resultsFolder)
		}
		paths = []string{resultsFolder}
	}
	var rows []metrics.Row
	for _, path := range paths {
		more, err := metrics.ReadRows(path)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

func (f *boardFlags) render(w io.Writer, b *metrics.Board, format string) error {
	switch format {
	case "markdown":
		return b.RenderMarkdown(w, f.perTrace)
	case "csv":
		return b.RenderCSV(w)
	case "json":
		return b.RenderJSON(w)
	}
	return b.RenderTable(w, f.perTrace)
}

// write puts every rendering and the curves into the folder, each file whole or not
// at all.
func (f *boardFlags) write(progress io.Writer, b *metrics.Board) error {
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return fmt.Errorf("leaderboard: %w", err)
	}
	for format, name := range map[string]string{"markdown": "leaderboard.md", "csv": "leaderboard.csv", "json": "leaderboard.json"} {
		if err := f.writeFile(name, func(w io.Writer) error { return f.render(w, b, format) }); err != nil {
			return err
		}
	}
	names := b.CurveNames()
	for _, trace := range b.CurveTraces() {
		if err := f.writeFile(names[trace], func(w io.Writer) error { return b.RenderCurves(w, trace) }); err != nil {
			return err
		}
	}
	fmt.Fprintf(progress, "kvreplay: wrote leaderboard.md, .csv, .json and %d curves to %s\n", len(b.CurveTraces()), f.out)
	return nil
}

func (f *boardFlags) writeFile(name string, render func(io.Writer) error) error {
	var out bytes.Buffer
	if err := render(&out); err != nil {
		return fmt.Errorf("leaderboard: %s: %w", name, err)
	}
	if err := renameio.WriteFile(filepath.Join(f.out, name), out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("leaderboard: %w", err)
	}
	return nil
}
