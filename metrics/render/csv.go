package render

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
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

// CSV writes the board as CSV, one line per figure. Its scope is one of these:
//
//   - "pooled": all common cells
//   - "capacity": those of one capacity
//   - "cell": one trace and capacity
//   - "window": a policy without capacity
//   - "tier": a cache below the GPU's
//
// Lines of kind "lossy" have the first three. A value that does not apply or cannot be computed is
// empty. selector_recall is the least of the line's traces of approximate selectors. Labels are
// those of the line's trace, or of the board, and of its times. Notes are the footnotes' texts as a
// JSON list, like the warnings of rows. Incomplete is the same in all lines: "2 of 27 traces" if
// requested cells have no rows.
func CSV(w io.Writer, b *board.Board) error {
	c := boardCSV{b, table.New(boardColumns...)}
	for i := range b.Tables {
		c.ranking(&b.Tables[i])
	}
	c.cells(b.Cells)
	for _, l := range b.Windows {
		c.add(l.Figures, map[string]any{"scope": "window", "policy": l.Policy, "trace": l.Trace, "notes": c.notes(l.Notes),
			"resident_mean": l.ResidentMean, "resident_peak": l.ResidentPeak})
	}
	for _, l := range b.Tiers {
		exact := &board.ExactFigures{Misses: l.Misses, BytesPerStep: l.ReadPerStep}
		f := &board.Figures{Demand: l.Demand, Steps: l.Steps, ExactFigures: exact}
		if l.HitRate != nil {
			f.HitRate = &board.Figure{Value: *l.HitRate}
		}
		c.add(f, map[string]any{"scope": "tier", "policy": l.Above + " > " + l.Name, "trace": l.Trace, "capacity": l.Capacity})
	}
	if b.Lossy != nil {
		c.ranking(b.Lossy)
		c.cells(b.Lossy.Cells)
	}
	return c.table.CSV(w)
}

// boardCSV collects the lines of a board's CSV.
type boardCSV struct {
	*board.Board
	table *table.Table
}

// ranking adds the lines of a ranking, each pooled and by capacity.
func (c *boardCSV) ranking(t *board.Ranking) {
	recall := leastRecall(c.Board, t.Common)
	for i, l := range t.Lines() {
		line := func(f *board.Figures, scope, capacity, rank, letters string) {
			bound := i >= len(t.Ranked)+len(t.Unranked)
			c.add(f, map[string]any{"scope": scope, "kind": t.Key.Kind, "bound": bound, "rank": rank, "letters": letters,
				"policy": l.Policy, "capacity": capacity, "selector_recall": recall, "notes": c.notes(l.Notes)})
		}
		line(l.Pooled, "pooled", "", l.Rank, l.Letters)
		for j, f := range l.Capacities {
			line(f, "capacity", t.Capacities[j], "", "")
		}
	}
}

func (c *boardCSV) cells(cells []board.CellLine) {
	for _, l := range cells {
		line := map[string]any{"scope": "cell", "kind": board.LossyKind, "bound": false,
			"policy": l.Policy, "trace": l.Trace, "capacity": l.Capacity, "notes": c.notes(l.Notes)}
		if l.ExactCell != nil {
			line["kind"], line["bound"], line["capacity_over_k"] = l.Kind, l.Bound, l.CapacityOverK
		}
		c.add(l.Figures, line)
	}
}

// add adds a line with figures. Its labels are those of its trace, or of the board if the line is
// of several traces, and those of its modelled time.
func (c *boardCSV) add(f *board.Figures, cells map[string]any) {
	labels := c.Labels
	if trace, ok := cells["trace"].(string); ok {
		labels = c.LabelsOn(trace)
		cells["selector_recall"] = leastRecall(c.Board, []board.CellRef{{Trace: trace}})
	}
	if f != nil {
		cells["cells"], cells["demand"], cells["steps"] = f.Cells, f.Demand, f.Steps
	}
	if f != nil && f.ExactFigures != nil {
		cells["misses"] = f.Misses
		cells["opt_misses"], cells["lru_misses"] = f.OptMisses, f.LRUMisses
		cells["bytes_per_step"], cells["tpot_s"] = f.BytesPerStep, f.TPOT
		addFigure(cells, "x_opt", f.XOpt)
		addFigure(cells, "x_lru", f.XLRU)
		addFigure(cells, "gap_closed", f.GapClosed)
		addFigure(cells, "hit_rate", f.HitRate)
		if f.TPOT != nil {
			labels = limitLabels(c.Time, labels, labelledTPOT)
		}
	}
	if f != nil && f.LossyFigures != nil {
		addFigure(cells, "recall", f.Recall)
		cells["lost"], cells["mass_kept"] = f.Lost, f.MassKept
		cells["mass_least"], cells["mass_most"] = f.MassLeast, f.MassMost
		cells["covered_mass"], cells["resident_mean"] = f.CoveredMass, f.ResidentMean
	}
	cells["incomplete"], cells["labels"] = c.Incomplete.Shares(), labels.String()
	line, placed := make([]any, len(boardColumns)), 0
	for i, name := range boardColumns {
		if value, ok := cells[name]; ok {
			line[i] = value
			placed++
		}
	}
	if placed != len(cells) {
		panic(fmt.Sprintf("render: a value of %v has no column in boardColumns", slices.Sorted(maps.Keys(cells))))
	}
	c.table.Add(line...)
}

func addFigure(cells map[string]any, name string, f *board.Figure) {
	if f != nil {
		cells[name] = f.Value
		cells[name+"_low"], cells[name+"_high"] = f.Low, f.High
	}
}

// notes returns footnotes as a JSON list.
func (c *boardCSV) notes(notes []int) string {
	return result.JSONList(slice.Map(notes, func(n int) string { return c.Footnotes[n-1] }))
}
