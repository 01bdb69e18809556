package board

import (
	"fmt"
	"slices"
)

// intervalNotes explain intervals without an upper end, and those that are not there although
// the requests would do.
func intervalNotes(figures []*Figure) (notes []string) {
	if slices.ContainsFunc(figures, (*Figure).Unbounded) {
		notes = append(notes, "∞: the requests leave the upper end open; in some resamples the one compared with has no miss, and the other has")
	}
	if slices.ContainsFunc(figures, (*Figure).lost) {
		notes = append(notes, fmt.Sprintf("no interval where more than %g %% of the resamples have no such figure: of the requests drawn neither of the two compared has a miss in some cell", 100*mostUndefined))
	}
	return notes
}

// ratios lists the ratios of misses of the board that are shown with an interval.
func (b *Board) ratios() (all []*Figure) {
	add := func(figures ...*Figures) {
		for _, f := range figures {
			if f != nil {
				all = append(all, f.XOpt, f.XLRU)
			}
		}
	}
	for _, t := range b.Tables {
		for _, l := range slices.Concat(t.Ranked, t.Unranked, t.Bounds) {
			add(l.Pooled)
			add(l.Capacities...)
			add(l.Traces...)
		}
	}
	for _, c := range b.Cells {
		add(c.Figures)
	}
	for _, w := range b.Windows {
		add(w.Figures)
	}
	return all
}
