package render

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// boardColumns are the columns of the board's CSV, one line per scope and policy.
var boardColumns = []string{
	"scope", "kind", "bound", "rank", "letters", "policy", "trace", "capacity", "cells",
	"x_opt", "x_opt_low", "x_opt_high", "x_lru", "x_lru_low", "x_lru_high",
	"gap_closed", "gap_closed_low", "gap_closed_high", "hit_rate", "hit_rate_low", "hit_rate_high",
	"bytes_per_step", "tpot_s", "misses", "opt_misses", "lru_misses", "demand", "steps",
	"capacity_over_k", "resident_mean", "resident_peak",
	"recall", "recall_low", "recall_high", "lost", "mass_kept", "mass_least", "mass_most", "covered_mass",
	"selector_recall", "incomplete", "labels", "notes",
}

// CSV writes the board as CSV, one line per figure: scope "pooled" (all common
// cells), "capacity" (those of one capacity), "cell" (one trace and capacity), "window" (a
// policy without capacity) and "tier" (a cache below the GPU's). Lines of kind "lossy" have
// the first three. What does not apply or cannot be computed is empty. selector_recall is
// the least of the line's traces of approximate selectors. Labels are those of the line's
// trace, or of the board, and of its times. Notes are the footnotes' texts as a JSON list,
// as the warnings of rows are. Incomplete is the same in all lines: "2 of 27 traces" if
// cells that were asked for have no rows.
func CSV(w io.Writer, b *board.Board) error {
	c := csv.NewWriter(w)
	lines := [][]string{boardColumns}
	for _, t := range b.Tables {
		lines = append(lines, csvLines(b, &t)...)
	}
	for _, l := range b.Cells {
		lines = append(lines, csvLine(b, l.Figures, map[string]string{
			"scope": "cell", "labels": csvLabels(b, l.Trace, l.Figures), "kind": l.Kind, "bound": fmt.Sprint(l.Bound), "policy": l.Policy, "trace": l.Trace,
			"capacity": l.Capacity, "capacity_over_k": floatText(l.CapacityOverK), "selector_recall": recallOn(b, l.Trace), "notes": noteText(b, l.Notes),
		}))
	}
	for _, l := range b.Windows {
		lines = append(lines, csvLine(b, l.Figures, map[string]string{
			"scope": "window", "labels": csvLabels(b, l.Trace, l.Figures), "policy": l.Policy, "trace": l.Trace, "resident_mean": floatText(&l.ResidentMean),
			"resident_peak": fmt.Sprint(l.ResidentPeak), "selector_recall": recallOn(b, l.Trace), "notes": noteText(b, l.Notes),
		}))
	}
	for _, l := range b.Tiers {
		f := board.Figures{Demand: l.Demand, Misses: l.Misses, Steps: l.Steps, BytesPerStep: l.ReadPerStep}
		if l.HitRate != nil {
			f.HitRate = &board.Figure{Value: *l.HitRate}
		}
		lines = append(lines, csvLine(b, &f, map[string]string{"scope": "tier", "labels": csvLabels(b, l.Trace, nil), "policy": l.Above + " > " + l.Name, "trace": l.Trace, "capacity": l.Capacity, "selector_recall": recallOn(b, l.Trace)}))
	}
	return c.WriteAll(append(lines, csvLossy(b)...))
}

// recallOn is the selector's recall on a trace.
func recallOn(b *board.Board, trace string) string {
	return floatText(leastRecall(b, []board.CellRef{{Trace: trace}}))
}

// csvLabels are the labels of a line: those of its trace, or of the board if the line is of
// several, and those of its modelled time.
func csvLabels(b *board.Board, trace string, f *board.Figures) string {
	labels := b.Labels
	if trace != "" {
		labels = b.LabelsOn(trace)
	}
	if f != nil && f.TPOT != nil {
		labels = limitLabels(b.Time, labels, labelledTPOT)
	}
	return labels.String()
}

// csvLines are a table's lines, each pooled and by capacity.
func csvLines(b *board.Board, t *board.Table) [][]string {
	var lines [][]string
	for i, l := range slices.Concat(t.Ranked, t.Unranked, t.Bounds) {
		bound := fmt.Sprint(i >= len(t.Ranked)+len(t.Unranked))
		line := func(f *board.Figures, scope, capacity, rank, letters string) {
			lines = append(lines, csvLine(b, f, map[string]string{
				"scope": scope, "labels": csvLabels(b, "", f), "kind": t.Kind, "bound": bound, "rank": rank, "letters": letters, "policy": l.Policy,
				"capacity": capacity, "selector_recall": floatText(leastRecall(b, t.Common)), "notes": noteText(b, l.Notes),
			}))
		}
		line(l.Pooled, "pooled", "", l.Rank, l.Letters)
		for j, f := range l.Capacities {
			line(f, "capacity", t.Capacities[j], "", "")
		}
	}
	return lines
}

// csvLine adds figures to the cells of a line.
func csvLine(b *board.Board, f *board.Figures, cells map[string]string) []string {
	if f != nil {
		cells["cells"], cells["misses"] = fmt.Sprint(f.Cells), fmt.Sprint(f.Misses)
		cells["demand"], cells["steps"] = fmt.Sprint(f.Demand), fmt.Sprint(f.Steps)
		cells["opt_misses"], cells["lru_misses"] = intPointerText(f.OptMisses), intPointerText(f.LRUMisses)
		cells["bytes_per_step"], cells["tpot_s"] = floatText(f.BytesPerStep), floatText(f.TPOT)
		addFigure(cells, "x_opt", f.XOpt)
		addFigure(cells, "x_lru", f.XLRU)
		addFigure(cells, "gap_closed", f.GapClosed)
		addFigure(cells, "hit_rate", f.HitRate)
	}
	cells["incomplete"] = b.Incomplete.Shares()
	line := make([]string, len(boardColumns))
	for i, name := range boardColumns {
		line[i] = printable.CSV(cells[name])
	}
	return line
}

func addFigure(cells map[string]string, name string, f *board.Figure) {
	if f != nil {
		cells[name] = floatText(&f.Value)
		cells[name+"_low"], cells[name+"_high"] = floatText(f.Low), floatText(f.High)
	}
}

func noteText(b *board.Board, notes []int) string {
	texts := make([]string, len(notes))
	for i, n := range notes {
		texts[i] = b.Footnotes[n-1]
	}
	return result.JSONList(texts)
}

func floatText(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'g', -1, 64)
}

func intPointerText(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}
