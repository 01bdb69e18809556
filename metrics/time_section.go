package metrics

import (
	"fmt"
	"slices"
	"strings"
)

// timed is true where some line of the table has a modelled time.
func (t *Table) timed() bool {
	return slices.ContainsFunc(slices.Concat(t.Ranked, t.Unranked, t.Bounds), func(l Line) bool { return l.Pooled != nil && l.Pooled.TPOT != nil })
}

// timeSection lays a ranking by time out.
func (t *Table) timeSection(m marks, model *TimeModel) section {
	header := []string{"#", "policy", "TPOT"}
	shown := columns(t.Capacities)
	for _, c := range pick(t.Capacities, shown) {
		header = append(header, "at "+c)
	}
	tab := newTable(append(header, "÷ OPT's", "tokens/s", "× OPT", "H2D/step")...)
	tab.rightFrom(2)
	t.addTimes(tab, m, model, t.Ranked, "")
	t.addTimes(tab, m, model, t.Unranked, notAvailable)
	tab.line()
	t.addTimes(tab, m, model, t.Bounds, "bound")
	return section{"Exact policies: modelled time per output token", tab, slices.Concat(t.Notes, columnNotes(t.Capacities, shown), model.notes())}
}

func (t *Table) addTimes(tab *textTable, m marks, model *TimeModel, lines []Line, rank string) {
	var opt *float64
	for _, l := range t.Bounds {
		if l.Policy == optPolicy && l.Pooled != nil {
			opt = l.Pooled.TPOT
		}
	}
	for _, l := range lines {
		f := l.Pooled
		if f == nil {
			f = &Figures{}
		}
		cells := []string{rankText(l, rank), l.Policy + m.text(l.Notes), timeText(f.TPOT)}
		for _, c := range pick(l.Capacities, columns(t.Capacities)) {
			if c == nil {
				c = &Figures{}
			}
			cells = append(cells, timeText(c.TPOT))
		}
		ratio, rate := notAvailable, notAvailable
		if f.TPOT != nil {
			rate = fmt.Sprintf("%.1f", float64(model.Batch) / *f.TPOT)
			if opt != nil {
				ratio = fmt.Sprintf("%.3f", *f.TPOT / *opt)
			}
		}
		tab.add(append(cells, ratio, rate, times(f.XOpt), bytesText(f.BytesPerStep))...)
	}
}

// timeText shows seconds as milliseconds, so that a column has one unit.
func timeText(seconds *float64) string {
	if seconds == nil {
		return notAvailable
	}
	return fmt.Sprintf("%.3f ms", 1e3**seconds)
}

// notes are the assumptions that stand under a table of times.
func (m *TimeModel) notes() []string {
	if m == nil {
		return nil
	}
	notes := []string{fmt.Sprintf("TPOT is modelled, not measured: %s on %s, batch %d, %s; geometric mean over the cells", m.Model, m.Hardware, m.Batch, m.Schedule)}
	if len(m.Assumptions) > 0 {
		notes = append(notes, "TPOT assumes: "+strings.Join(m.Assumptions, "; "))
	}
	return notes
}
