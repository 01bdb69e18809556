package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// section is a titled table of the board with its notes.
type section struct {
	title string
	table *textTable
	notes []string
}

// boardSections lay the board out; perTrace adds a table for every trace.
func boardSections(b *board.Board, perTrace bool) []section {
	m := boardMarks(b)
	var all []section
	for i := range b.Tables {
		if b.RankedBy == board.ByTime {
			all = append(all, marked(b, timeSection(&b.Tables[i], m, b.Time), b.Tables[i].Common).labelled(limitLabels(b.Time, b.Labels, "")))
			continue
		}
		all = append(all, marked(b, tableSection(&b.Tables[i], m, b.Time), b.Tables[i].Common).labelled(labelsBeside(b, timed(&b.Tables[i]))))
		if len(b.Tables[i].Traces) > 1 {
			all = append(all, tableByTrace(b, &b.Tables[i]).labelled(b.Labels))
		}
	}
	if b.Lossy != nil {
		all = append(all, marked(b, lossySection(b.Lossy, m), b.Lossy.Common).labelled(b.Labels))
	}
	if perTrace {
		for _, t := range b.Traces {
			for _, s := range traceSections(b, m, t.Trace) {
				all = append(all, s.labelled(t.Labels))
			}
		}
	}
	if len(b.Windows) > 0 {
		all = append(all, windowSection(b, m).labelled(labelsBeside(b, windowsTimed(b))))
	}
	if len(b.Tiers) > 0 {
		all = append(all, tierSection(b).labelled(b.Labels))
	}
	all = append(all, settingsSection(b).labelled(b.Labels))
	for i := range all {
		all[i].title = b.Incomplete.Titled(all[i].title)
	}
	return all
}

// tableSection lays a ranking out.
func tableSection(t *board.Table, m marks, model *board.TimeModel) section {
	intervals := t.Intervals()
	header := append(placeTexts("#", "policy", "letters", lettered(t)), "× OPT")
	if intervals {
		header = append(header, "95 %")
	}
	shown := columns(t.Capacities)
	for _, c := range pick(t.Capacities, shown) {
		header = append(header, "at "+c)
	}
	header = append(header, "× LRU", "gap closed", "hit rate", "H2D/step")
	if !timed(t) {
		model = nil
	} else {
		header = append(header, "TPOT")
	}
	tab := newTable(header...)
	tab.rightFrom(len(placeTexts("", "", "", lettered(t))))
	addLines(t, tab, m, t.Ranked, intervals)
	addLines(t, tab, m, t.Unranked, intervals)
	tab.line()
	addLines(t, tab, m, t.Bounds, intervals)
	return section{"Exact policies: misses ÷ OPT's at the same capacity", tab, slices.Concat(t.Notes, columnNotes(t.Capacities, shown), timeNotes(model))}
}

// tableByTrace lays × OPT out by trace, over the capacities of each.
func tableByTrace(b *board.Board, t *board.Table) section {
	header := []string{"policy"}
	for _, trace := range t.Traces {
		header = append(header, strings.Replace(traceName(b, trace), ".parquet", "", 1))
	}
	tab := newTable(header...)
	tab.rightFrom(1)
	units := unitsOf(t)
	for _, l := range t.Lines() {
		cells := []string{l.Policy}
		for i, f := range l.Traces {
			cells = append(cells, units.on[i].aligned(xOpt(f)))
		}
		tab.add(cells...)
	}
	return section{"Exact policies by trace: × OPT over all capacities", tab, t.TraceNotes()}
}

func addLines(t *board.Table, tab *textTable, m marks, lines []board.Line, intervals bool) {
	units := unitsOf(t)
	for _, l := range lines {
		f := l.Pooled
		if f == nil {
			f = &board.Figures{}
		}
		cells := append(linePlaceTexts(t, l, m), units.xOpt.aligned(f.XOpt))
		if intervals {
			cells = append(cells, units.xOpt.interval(f.XOpt))
		}
		for _, i := range columns(t.Capacities) {
			cells = append(cells, units.at[i].aligned(xOpt(l.Capacities[i])))
		}
		cells = append(cells, units.xLRU.aligned(f.XLRU), units.gap.percent(f.GapClosed), units.hits.percent(f.HitRate), bytesText(f.BytesPerStep))
		if timed(t) {
			cells = append(cells, timeText(f.TPOT))
		}
		tab.add(cells...)
	}
}

// tableUnits are the units of a table's columns of figures.
type tableUnits struct {
	xOpt, xLRU, gap, hits unit
	at, on                []unit // × OPT by capacity and by trace
}

func unitsOf(t *board.Table) tableUnits {
	of := func(u unit, figure func(board.Line) *board.Figure) unit {
		var figures []*board.Figure
		for _, l := range t.Lines() {
			figures = append(figures, figure(l))
		}
		return u.column(figures)
	}
	pooled := func(u unit, figure func(*board.Figures) *board.Figure) unit {
		return of(u, func(l board.Line) *board.Figure {
			if l.Pooled == nil {
				return nil
			}
			return figure(l.Pooled)
		})
	}
	units := tableUnits{
		xOpt: pooled(ratioUnit, func(f *board.Figures) *board.Figure { return f.XOpt }), xLRU: pooled(ratioUnit, func(f *board.Figures) *board.Figure { return f.XLRU }),
		gap: pooled(percentUnit, func(f *board.Figures) *board.Figure { return f.GapClosed }), hits: pooled(percentUnit, func(f *board.Figures) *board.Figure { return f.HitRate }),
	}
	for i := range t.Capacities {
		units.at = append(units.at, of(ratioUnit, func(l board.Line) *board.Figure { return xOpt(l.Capacities[i]) }))
	}
	for i := range t.Traces {
		units.on = append(units.on, of(ratioUnit, func(l board.Line) *board.Figure { return xOpt(l.Traces[i]) }))
	}
	return units
}

// xOpt is nil without figures.
func xOpt(f *board.Figures) *board.Figure {
	if f == nil {
		return nil
	}
	return f.XOpt
}

// lettered is true if the table has a column of letters.
func lettered(t *board.Table) bool {
	return slices.ContainsFunc(t.Ranked, func(l board.Line) bool { return l.Letters != "" })
}

// linePlaceTexts are the first cells of a line: its rank, policy and letters.
func linePlaceTexts(t *board.Table, l board.Line, m marks) []string {
	rank := rankText(l.Rank, l.Pooled != nil)
	if slices.ContainsFunc(t.Bounds, func(bound board.Line) bool { return bound.Policy == l.Policy }) {
		rank = "bound"
	}
	return placeTexts(rank, l.Policy+m.text(l.Notes), l.Letters, lettered(t))
}

// placeTexts leaves the letters out of a table that has none.
func placeTexts(rank, policy, letters string, lettered bool) []string {
	if lettered {
		return []string{rank, policy, letters}
	}
	return []string{rank, policy}
}

// rankText is – for a policy that has figures and no rank, n/a for one without figures.
func rankText(rank string, measured bool) string {
	switch {
	case rank != "":
		return rank
	case measured:
		return "–"
	}
	return notAvailable
}

// policyOrder lists the policies as the tables do.
func policyOrder(b *board.Board, kind string) []string {
	var names []string
	for _, t := range b.Tables {
		if t.Kind != kind {
			continue
		}
		for _, l := range slices.Concat(t.Ranked, t.Unranked, t.Bounds) {
			names = append(names, l.Policy)
		}
	}
	return names
}

func onlyBounds(t *board.Table) bool { return len(t.Ranked)+len(t.Unranked) == 0 }

// place is where a line meets a column of a table of a trace.
type place struct{ policy, capacity string }

// traceSections lay out × OPT, and the recall of lossy policies, over the capacities of a
// trace.
func traceSections(b *board.Board, m marks, trace string) []section {
	var all []section
	for _, t := range b.Tables {
		var capacities []string
		at := map[place]board.CellLine{}
		for _, c := range b.Cells {
			if c.Trace == trace {
				at[place{c.Policy, c.Capacity}] = c
			}
			if c.Trace == trace && c.Kind == t.Kind && (!c.Bound || onlyBounds(&t)) {
				capacities = append(capacities, c.Capacity)
			}
		}
		if capacities = result.SortCapacities(capacities); capacities != nil {
			shown := columns(capacities)
			all = append(all, section{title: fmt.Sprintf("Exact policies on %s: × OPT", titleName(b, trace)), table: traceTable(b, m, t.Kind, pick(capacities, shown), func(policy, capacity string) (board.CellLine, bool) {
				c, ok := at[place{policy, capacity}]
				return c, ok
			}), notes: columnNotes(capacities, shown)})
		}
	}
	if s, ok := lossyOn(b, m, trace); ok {
		all = append(all, s)
	}
	return all
}

func traceTable(b *board.Board, m marks, kind string, capacities []string, at func(policy, capacity string) (board.CellLine, bool)) *textTable {
	header := []string{"policy"}
	for _, c := range capacities {
		header = append(header, "at "+c, "hit rate")
	}
	tab := newTable(header...)
	tab.rightFrom(1)
	for _, p := range policyOrder(b, kind) {
		cells := []string{p}
		for _, capacity := range capacities {
			c, ok := at(p, capacity)
			cells = append(cells, cellTexts(m, c, ok)...)
		}
		tab.add(cells...)
	}
	return tab
}

// cellTexts are × OPT with its interval, and the hit rate.
func cellTexts(m marks, c board.CellLine, ok bool) []string {
	if !ok {
		return []string{notAvailable, notAvailable}
	}
	x := timesWithInterval(c.Figures.XOpt)
	if opt := c.Figures.OptMisses; opt != nil && *opt == 0 {
		x = "OPT 0"
	}
	return []string{x + m.text(c.Notes), percentFigure(c.Figures.HitRate)}
}

func windowsTimed(b *board.Board) bool {
	return slices.ContainsFunc(b.Windows, func(w board.WindowLine) bool { return w.Figures.TPOT != nil })
}

func windowSection(b *board.Board, m marks) section {
	header := []string{"trace", "policy", "mean size", "peak size", "misses", "LRU at peak", "OPT at peak", "× LRU", "× OPT", "hit rate", "H2D/step"}
	timed := windowsTimed(b)
	if timed {
		header = append(header, "TPOT")
	}
	tab := newTable(header...)
	tab.rightFrom(2)
	for _, w := range b.Windows {
		f := w.Figures
		cells := []string{traceName(b, w.Trace), w.Policy + m.text(w.Notes), threeDigits(w.ResidentMean), fmt.Sprint(w.ResidentPeak), fmt.Sprint(f.Misses),
			countText(f.LRUMisses), countText(f.OptMisses), timesWithInterval(f.XLRU), timesWithInterval(f.XOpt), percentFigure(f.HitRate), bytesText(f.BytesPerStep)}
		if timed {
			cells = append(cells, timeText(f.TPOT))
		}
		tab.add(cells...)
	}
	notes := []string{"sizes are blocks of a stream after a step; these rows are no part of the rankings"}
	if slices.ContainsFunc(b.Windows, func(w board.WindowLine) bool { return w.Figures.LRUMisses == nil || w.Figures.OptMisses == nil }) {
		notes = append(notes, "n/a at peak: there is no row of lru or opt at capacity peak:POLICY")
	}
	return section{"Policies without capacity: against LRU and OPT given their peak size", tab, notes}
}

func countText(n *int64) string {
	if n == nil {
		return notAvailable
	}
	return fmt.Sprint(*n)
}

// settingsSection shows the traces and what their rows were replayed with.
func settingsSection(b *board.Board) section {
	tab := newTable("trace", "digest", "requests", "streams", "steps", "demand/step", "K", "M", "warm-up", "sink", "local", "block", "entry bytes", "selection")
	tab.rightFrom(2)
	for _, t := range b.Traces {
		tab.add(traceName(b, t.Trace), result.ShortDigest(t.TraceDigest), intText(t.RequestCount, "pooled"), fmt.Sprint(t.Streams), fmt.Sprint(t.Steps), fmt.Sprintf("%.1f", result.PerStep(float64(t.Demand), t.Steps)),
			fmt.Sprint(t.TopK), fmt.Sprint(t.Candidates), t.Warmup, fmt.Sprint(t.Sink), fmt.Sprint(t.Local), fmt.Sprint(t.BlockTokens), intText(t.EntryBytes, notAvailable), selection(t))
	}
	notes := slices.Clone(b.Notes)
	if len(b.Traces) > 0 {
		notes = append(notes, fmt.Sprintf("replay engine %s, seed %d", b.Traces[0].Engine, b.Traces[0].Seed))
	}
	return section{"Traces", tab, notes}
}

func intText(n *int, none string) string {
	if n == nil {
		return none
	}
	return fmt.Sprint(*n)
}

func selection(t board.TraceInfo) string {
	return cmp.Or(strings.Join(t.Words(), ", "), "all")
}

func tierSection(b *board.Board) section {
	tab := newTable("trace", "above", "tier", "demand", "misses", "hit rate", "read/step", "written/step")
	tab.rightFrom(3)
	for _, l := range b.Tiers {
		rate := notAvailable
		if l.HitRate != nil {
			rate = percentFigure(&board.Figure{Value: *l.HitRate})
		}
		tab.add(traceName(b, l.Trace), l.Above, l.Name, countText(&l.Demand), countText(&l.Misses), rate, bytesText(l.ReadPerStep), bytesText(l.WrittenPerStep))
	}
	return section{"Tiers below the GPU's cache", tab, []string{"a tier's demand is what the one above misses; read from below, written from above; these rows are no part of the rankings"}}
}
