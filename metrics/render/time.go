package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/board"
)

// timed is true where some line of the table has a modelled time.
func timed(t *board.Table) bool {
	return slices.ContainsFunc(slices.Concat(t.Ranked, t.Unranked, t.Bounds), func(l board.Line) bool { return l.Pooled != nil && l.Pooled.TPOT != nil })
}

// timeSection lays a ranking by time out.
func timeSection(t *board.Table, m marks, model *board.TimeModel) section {
	header := append(placeTexts("#", "policy", "letters", lettered(t)), "TPOT")
	shown := columns(t.Capacities)
	for _, c := range pick(t.Capacities, shown) {
		header = append(header, "at "+c)
	}
	tab := newTable(append(header, "÷ OPT's", "tokens/s", "× OPT", "H2D/step")...)
	tab.rightFrom(len(placeTexts("", "", "", lettered(t))))
	addTimes(t, tab, m, model, t.Ranked)
	addTimes(t, tab, m, model, t.Unranked)
	tab.line()
	addTimes(t, tab, m, model, t.Bounds)
	return section{"Exact policies: modelled time per output token", tab, slices.Concat(t.Notes, columnNotes(t.Capacities, shown), timeNotes(model))}
}

func addTimes(t *board.Table, tab *textTable, m marks, model *board.TimeModel, lines []board.Line) {
	var opt *float64
	for _, l := range t.Bounds {
		if l.Policy == board.OptPolicy && l.Pooled != nil {
			opt = l.Pooled.TPOT
		}
	}
	for _, l := range lines {
		f := l.Pooled
		if f == nil {
			f = &board.Figures{}
		}
		cells := append(linePlaceTexts(t, l, m), timeText(f.TPOT))
		for _, c := range pick(l.Capacities, columns(t.Capacities)) {
			if c == nil {
				c = &board.Figures{}
			}
			cells = append(cells, timeText(c.TPOT))
		}
		ratio, rate := notAvailable, notAvailable
		if f.TPOT != nil {
			rate = threeDigits(float64(model.Batch) / *f.TPOT)
			if opt != nil {
				ratio = threeDigits(*f.TPOT / *opt)
			}
		}
		tab.add(append(cells, ratio, rate, unitsOf(t).xOpt.aligned(f.XOpt), bytesText(f.BytesPerStep))...)
	}
}

// timeText shows seconds as milliseconds with three digits, so that a column has one unit.
func timeText(seconds *float64) string {
	if seconds == nil {
		return notAvailable
	}
	return threeDigits(1e3**seconds) + " ms"
}

// timeNotes are the assumptions that stand under a table of times.
func timeNotes(m *board.TimeModel) []string {
	if m == nil {
		return nil
	}
	notes := []string{fmt.Sprintf("TPOT is modelled, not measured: %s on %s, batch %d, %s; geometric mean over the cells", m.Model, m.Hardware, m.Batch, m.Schedule)}
	if len(m.Assumptions) > 0 {
		notes = append(notes, "TPOT assumes: "+strings.Join(m.Assumptions, "; "))
	}
	return notes
}
