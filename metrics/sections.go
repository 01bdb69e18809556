package metrics

import (
	"fmt"
	"slices"
	"strings"
)

// section is a titled table of the board with its notes.
type section struct {
	title string
	table *textTable
	notes []string
}

// sections lay the board out; perTrace adds a table for every trace.
func (b *Board) sections(perTrace bool) []section {
	m := b.marks()
	var all []section
	for i := range b.Tables {
		if b.RankedBy == ByTime {
			all = append(all, b.marked(b.Tables[i].timeSection(m, b.Time), b.Tables[i].Common).labelled(b.Time.limit(b.Labels, "")))
			continue
		}
		all = append(all, b.marked(b.Tables[i].section(m, b.Time), b.Tables[i].Common).labelled(b.labelsBeside(b.Tables[i].timed())))
		if len(b.Tables[i].Traces) > 1 {
			all = append(all, b.Tables[i].byTrace(b.traceName).labelled(b.Labels))
		}
	}
	if b.Lossy != nil {
		all = append(all, b.marked(b.Lossy.section(m), b.Lossy.Common).labelled(b.Labels))
	}
	if perTrace {
		for _, t := range b.Traces {
			for _, s := range b.traceSections(m, t.Trace) {
				all = append(all, s.labelled(t.Labels))
			}
		}
	}
	if len(b.Windows) > 0 {
		all = append(all, b.windowSection(m).labelled(b.labelsBeside(b.windowsTimed())))
	}
	if len(b.Tiers) > 0 {
		all = append(all, b.tierSection().labelled(b.Labels))
	}
	all = append(all, b.settingsSection().labelled(b.Labels))
	for i := range all {
		all[i].title = b.Incomplete.titled(all[i].title)
	}
	return all
}

// intervals is true where some line of the table has a × OPT with an interval.
func (t *Table) intervals() bool {
	return slices.ContainsFunc(slices.Concat(t.Ranked, t.Unranked, t.Bounds), func(l Line) bool { return l.Pooled != nil && l.Pooled.XOpt.bounded() })
}

// section lays a ranking out.
func (t *Table) section(m marks, model *TimeModel) section {
	intervals := t.intervals()
	header := append(placeTexts("#", "policy", "letters", t.lettered()), "× OPT")
	if intervals {
		header = append(header, "95 %")
	}
	shown := columns(t.Capacities)
	for _, c := range pick(t.Capacities, shown) {
		header = append(header, "at "+c)
	}
	header = append(header, "× LRU", "gap closed", "hit rate", "H2D/step")
	if !t.timed() {
		model = nil
	} else {
		header = append(header, "TPOT")
	}
	tab := newTable(header...)
	tab.rightFrom(len(placeTexts("", "", "", t.lettered())))
	t.addLines(tab, m, t.Ranked, intervals)
	t.addLines(tab, m, t.Unranked, intervals)
	tab.line()
	t.addLines(tab, m, t.Bounds, intervals)
	return section{"Exact policies: misses ÷ OPT's at the same capacity", tab, slices.Concat(t.Notes, columnNotes(t.Capacities, shown), model.notes())}
}

// byTrace lays × OPT out by trace, over the capacities of each.
func (t *Table) byTrace(name func(trace string) string) section {
	header := []string{"policy"}
	for _, trace := range t.Traces {
		header = append(header, strings.Replace(name(trace), ".parquet", "", 1))
	}
	tab := newTable(header...)
	tab.rightFrom(1)
	units := t.units()
	for _, l := range t.lines() {
		cells := []string{l.Policy}
		for i, f := range l.Traces {
			cells = append(cells, units.on[i].aligned(f.xOpt()))
		}
		tab.add(cells...)
	}
	return section{"Exact policies by trace: × OPT over all capacities", tab, t.traceNotes()}
}

// traceNotes say which cells the figures by trace are not over.
func (t *Table) traceNotes() []string {
	left := slices.DeleteFunc(slices.Clone(t.usable), func(r CellRef) bool { return slices.Contains(t.onTrace[r.Trace], r) })
	if len(left) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("not in the figures of a trace, as not all policies compared there have them: %s; n/a: the policy lacks others, or ran at none (--per-trace shows every cell)", refsText(left))}
}

func (t *Table) addLines(tab *textTable, m marks, lines []Line, intervals bool) {
	units := t.units()
	for _, l := range lines {
		f := l.Pooled
		if f == nil {
			f = &Figures{}
		}
		cells := append(t.placeTexts(l, m), units.xOpt.aligned(f.XOpt))
		if intervals {
			cells = append(cells, units.xOpt.interval(f.XOpt))
		}
		for _, i := range columns(t.Capacities) {
			cells = append(cells, units.at[i].aligned(l.Capacities[i].xOpt()))
		}
		cells = append(cells, units.xLRU.aligned(f.XLRU), units.gap.percent(f.GapClosed), units.hits.percent(f.HitRate), bytesText(f.BytesPerStep))
		if t.timed() {
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

func (t *Table) units() tableUnits {
	of := func(u unit, figure func(Line) *Figure) unit {
		var figures []*Figure
		for _, l := range t.lines() {
			figures = append(figures, figure(l))
		}
		return u.column(figures)
	}
	pooled := func(u unit, figure func(*Figures) *Figure) unit {
		return of(u, func(l Line) *Figure {
			if l.Pooled == nil {
				return nil
			}
			return figure(l.Pooled)
		})
	}
	units := tableUnits{
		xOpt: pooled(ratioUnit, func(f *Figures) *Figure { return f.XOpt }), xLRU: pooled(ratioUnit, func(f *Figures) *Figure { return f.XLRU }),
		gap: pooled(percentUnit, func(f *Figures) *Figure { return f.GapClosed }), hits: pooled(percentUnit, func(f *Figures) *Figure { return f.HitRate }),
	}
	for i := range t.Capacities {
		units.at = append(units.at, of(ratioUnit, func(l Line) *Figure { return l.Capacities[i].xOpt() }))
	}
	for i := range t.Traces {
		units.on = append(units.on, of(ratioUnit, func(l Line) *Figure { return l.Traces[i].xOpt() }))
	}
	return units
}

// lines are all lines of the table, in their order.
func (t *Table) lines() []Line { return slices.Concat(t.Ranked, t.Unranked, t.Bounds) }

// xOpt is nil without figures.
func (f *Figures) xOpt() *Figure {
	if f == nil {
		return nil
	}
	return f.XOpt
}

// lettered is true if the table has a column of letters.
func (t *Table) lettered() bool {
	return slices.ContainsFunc(t.Ranked, func(l Line) bool { return l.Letters != "" })
}

// placeTexts are the first cells of a line: its rank, policy and letters.
func (t *Table) placeTexts(l Line, m marks) []string {
	rank := rankText(l.Rank, l.Pooled != nil)
	if slices.ContainsFunc(t.Bounds, func(bound Line) bool { return bound.Policy == l.Policy }) {
		rank = "bound"
	}
	return placeTexts(rank, l.Policy+m.text(l.Notes), l.Letters, t.lettered())
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

// order lists the policies as the tables do.
func (b *Board) order(kind string) []string {
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

func (t *Table) onlyBounds() bool { return len(t.Ranked)+len(t.Unranked) == 0 }

// traceSections lay out × OPT, and the recall of lossy policies, over the capacities of a
// trace.
func (b *Board) traceSections(m marks, trace string) []section {
	var all []section
	for _, t := range b.Tables {
		var capacities []string
		at := map[cellKey]CellLine{}
		for _, c := range b.Cells {
			if c.Trace == trace {
				at[cellKey{trace, c.Policy, c.Capacity}] = c
			}
			if c.Trace == trace && c.Kind == t.Kind && (!c.Bound || t.onlyBounds()) {
				capacities = append(capacities, c.Capacity)
			}
		}
		if capacities = sortCapacities(capacities); capacities != nil {
			shown := columns(capacities)
			all = append(all, section{title: fmt.Sprintf("Exact policies on %s: × OPT", b.titleName(trace)), table: b.traceTable(m, t.Kind, pick(capacities, shown), func(policy, capacity string) (CellLine, bool) {
				c, ok := at[cellKey{trace, policy, capacity}]
				return c, ok
			}), notes: columnNotes(capacities, shown)})
		}
	}
	if s, ok := b.lossyOn(m, trace); ok {
		all = append(all, s)
	}
	return all
}

func (b *Board) traceTable(m marks, kind string, capacities []string, at func(policy, capacity string) (CellLine, bool)) *textTable {
	header := []string{"policy"}
	for _, c := range capacities {
		header = append(header, "at "+c, "hit rate")
	}
	tab := newTable(header...)
	tab.rightFrom(1)
	for _, p := range b.order(kind) {
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
func cellTexts(m marks, c CellLine, ok bool) []string {
	if !ok {
		return []string{notAvailable, notAvailable}
	}
	x := timesWithInterval(c.Figures.XOpt)
	if opt := c.Figures.OptMisses; opt != nil && *opt == 0 {
		x = "OPT 0"
	}
	return []string{x + m.text(c.Notes), percentFigure(c.Figures.HitRate)}
}

func (b *Board) windowsTimed() bool {
	return slices.ContainsFunc(b.Windows, func(w WindowLine) bool { return w.Figures.TPOT != nil })
}

func (b *Board) windowSection(m marks) section {
	header := []string{"trace", "policy", "mean size", "peak size", "misses", "LRU at peak", "OPT at peak", "× LRU", "× OPT", "hit rate", "H2D/step"}
	timed := b.windowsTimed()
	if timed {
		header = append(header, "TPOT")
	}
	tab := newTable(header...)
	tab.rightFrom(2)
	for _, w := range b.Windows {
		f := w.Figures
		cells := []string{b.traceName(w.Trace), w.Policy + m.text(w.Notes), threeDigits(w.ResidentMean), fmt.Sprint(w.ResidentPeak), fmt.Sprint(f.Misses),
			countText(f.LRUMisses), countText(f.OptMisses), timesWithInterval(f.XLRU), timesWithInterval(f.XOpt), percentFigure(f.HitRate), bytesText(f.BytesPerStep)}
		if timed {
			cells = append(cells, timeText(f.TPOT))
		}
		tab.add(cells...)
	}
	notes := []string{"sizes are blocks of a stream after a step; these rows are no part of the rankings"}
	if slices.ContainsFunc(b.Windows, func(w WindowLine) bool { return w.Figures.LRUMisses == nil || w.Figures.OptMisses == nil }) {
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
func (b *Board) settingsSection() section {
	tab := newTable("trace", "digest", "requests", "streams", "steps", "demand/step", "K", "M", "warm-up", "sink", "local", "block", "entry bytes", "selection")
	tab.rightFrom(2)
	for _, t := range b.Traces {
		tab.add(b.traceName(t.Trace), short(t.Digest), intText(t.RequestCount, "pooled"), fmt.Sprint(t.Streams), fmt.Sprint(t.Steps), fmt.Sprintf("%.1f", perStep(float64(t.Demand), t.Steps)),
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

// short is the beginning of a digest, enough to tell traces apart.
func short(digest string) string {
	_, hex, found := strings.Cut(digest, ":")
	if !found {
		hex = digest
	}
	return hex[:min(len(hex), 12)]
}

func selection(t TraceInfo) string {
	var words []string
	if t.Layers != "" {
		words = append(words, "layers "+t.Layers)
	}
	if t.Requests != "" {
		words = append(words, "requests "+t.Requests)
	}
	if t.SharedHeads > 1 {
		words = append(words, fmt.Sprintf("%d heads share a cache", t.SharedHeads))
	}
	if t.Pool != "" {
		words = append(words, "one cache a "+t.Pool)
	}
	if t.StepTokens > 1 {
		words = append(words, fmt.Sprintf("%d positions a step", t.StepTokens))
	}
	if t.Prefetch != "" {
		words = append(words, "prefetch "+t.Prefetch)
	}
	if t.Outliers != "" {
		words = append(words, "outliers "+t.Outliers)
	}
	if t.Clusters != "" {
		words = append(words, "clusters "+t.Clusters)
	}
	if t.Tiers != "" {
		words = append(words, "tiers "+t.Tiers)
	}
	if words == nil {
		return "all"
	}
	return strings.Join(words, ", ")
}
