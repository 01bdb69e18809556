package render

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// lossySection lays the lossy ranking out.
func lossySection(t *board.LossyTable, m marks) section {
	lines := slices.Concat(t.Ranked, t.Unranked)
	intervals := slices.ContainsFunc(lines, func(l board.LossyLine) bool { return l.Pooled != nil && l.Pooled.Recall.Low != nil })
	var pooled []*board.Figure
	at := make([][]*board.Figure, len(t.Capacities))
	for _, l := range lines {
		pooled = append(pooled, recallFigure(l.Pooled))
		for i, f := range l.Capacities {
			at[i] = append(at[i], recallFigure(f))
		}
	}
	lettered := slices.ContainsFunc(t.Ranked, func(l board.LossyLine) bool { return l.Letters != "" })
	header := append(placeTexts("#", "policy", "letters", lettered), "recall")
	if intervals {
		header = append(header, "95 %")
	}
	shown := columns(t.Capacities)
	for _, c := range pick(t.Capacities, shown) {
		header = append(header, "at "+c)
	}
	tab := newTable(append(header, "lost/step", "mass kept", "recorded", "of all mass", "held")...)
	tab.rightFrom(len(placeTexts("", "", "", lettered)))
	for _, l := range lines {
		f := l.Pooled
		if f == nil {
			f = new(board.LossyFigures)
		}
		recall := percentUnit.column(pooled)
		cells := append(placeTexts(rankText(l.Rank, l.Pooled != nil), l.Policy+m.text(l.Notes), l.Letters, lettered), recall.percent(f.Recall))
		if intervals {
			cells = append(cells, recall.interval(f.Recall))
		}
		for _, i := range shown {
			cells = append(cells, percentUnit.column(at[i]).percent(recallFigure(l.Capacities[i])))
		}
		tab.add(append(cells, massTexts(f)...)...)
	}
	return section{"Lossy methods: recall of the demand at equal budget", tab, slices.Concat(t.Notes, columnNotes(t.Capacities, shown))}
}

// recallFigure is nil without figures.
func recallFigure(f *board.LossyFigures) *board.Figure {
	if f == nil {
		return nil
	}
	return f.Recall
}

// massTexts are what was lost a step, the masses, and what was held.
func massTexts(f *board.LossyFigures) []string {
	if f.Steps == 0 {
		return []string{notAvailable, notAvailable, notAvailable, notAvailable, notAvailable}
	}
	bounds := notAvailable
	if f.MassLeast != nil {
		bounds = fmt.Sprintf("%s–%s %%", threeDigits(100**f.MassLeast), threeDigits(100**f.MassMost))
	}
	return []string{threeDigits(float64(f.Lost) / float64(f.Steps)), shareText(f.MassKept), shareText(f.CoveredMass), bounds, threeDigits(f.ResidentMean)}
}

func shareText(x *float64) string {
	if x == nil {
		return notAvailable
	}
	return percent(*x)
}

// lossyOn lays out recall and mass over the capacities of a trace; false without rows.
func lossyOn(b *board.Board, m marks, trace string) (section, bool) {
	if b.Lossy == nil {
		return section{}, false
	}
	var capacities, policies []string
	at := map[place]board.LossyCell{}
	for _, c := range b.Lossy.Cells {
		if c.Trace == trace {
			capacities, policies = append(capacities, c.Capacity), append(policies, c.Policy)
			at[place{c.Policy, c.Capacity}] = c
		}
	}
	if capacities == nil {
		return section{}, false
	}
	capacities, policies = result.SortCapacities(capacities), result.Unite(policies, nil)
	shown := columns(capacities)
	header := []string{"policy"}
	for _, c := range pick(capacities, shown) {
		header = append(header, "at "+c, "mass kept")
	}
	tab := newTable(header...)
	tab.rightFrom(1)
	for _, p := range policies {
		cells := []string{p}
		for _, capacity := range pick(capacities, shown) {
			c, ok := at[place{p, capacity}]
			if !ok {
				cells = append(cells, notAvailable, notAvailable)
				continue
			}
			cells = append(cells, percentFigure(c.Figures.Recall)+m.text(c.Notes), shareText(c.Figures.MassKept))
		}
		tab.add(cells...)
	}
	return section{"Lossy methods on " + titleName(b, trace) + ": recall", tab, columnNotes(capacities, shown)}, true
}

// csvLossy are the lines of the lossy policies, pooled, by capacity and by cell.
func csvLossy(b *board.Board) (lines [][]string) {
	t := b.Lossy
	if t == nil {
		return nil
	}
	add := func(f *board.LossyFigures, cells map[string]string) {
		cells["labels"] = csvLabels(b, cells["trace"], nil)
		cells["kind"], cells["bound"], cells["incomplete"] = board.LossyKind, "false", b.Incomplete.Shares()
		lines = append(lines, lossyCSVLine(f, cells))
	}
	pooled := floatText(leastRecall(b, t.Common))
	for _, l := range slices.Concat(t.Ranked, t.Unranked) {
		notes := noteText(b, l.Notes)
		add(l.Pooled, map[string]string{"scope": "pooled", "rank": l.Rank, "letters": l.Letters, "policy": l.Policy, "selector_recall": pooled, "notes": notes})
		for i, f := range l.Capacities {
			add(f, map[string]string{"scope": "capacity", "policy": l.Policy, "capacity": t.Capacities[i], "selector_recall": pooled, "notes": notes})
		}
	}
	for _, c := range t.Cells {
		add(c.Figures, map[string]string{"scope": "cell", "policy": c.Policy, "trace": c.Trace, "capacity": c.Capacity, "selector_recall": recallOn(b, c.Trace), "notes": noteText(b, c.Notes)})
	}
	return lines
}

// lossyCSVLine adds figures to the cells of a line.
func lossyCSVLine(f *board.LossyFigures, cells map[string]string) []string {
	if f != nil {
		addFigure(cells, "recall", f.Recall)
		cells["cells"], cells["lost"], cells["demand"], cells["steps"] = fmt.Sprint(f.Cells), fmt.Sprint(f.Lost), fmt.Sprint(f.Demand), fmt.Sprint(f.Steps)
		cells["mass_kept"], cells["mass_least"], cells["mass_most"] = floatText(f.MassKept), floatText(f.MassLeast), floatText(f.MassMost)
		cells["covered_mass"], cells["resident_mean"] = floatText(f.CoveredMass), floatText(&f.ResidentMean)
	}
	line := make([]string, len(boardColumns))
	for i, name := range boardColumns {
		line[i] = cells[name]
	}
	return line
}
