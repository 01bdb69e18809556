package render

import (
	"math"
	"slices"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// pageDigits are the significant digits of the figures in a page. Files have nine.
const pageDigits = 5

// pageNumber is a number with pageDigits digits. NaN is null.
type pageNumber float64

// MarshalJSON writes the digits, or null.
func (x pageNumber) MarshalJSON() ([]byte, error) {
	if v := float64(x); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(x), 'g', pageDigits, 64), nil
}

func pageNumberOf(x *float64) pageNumber { return pageNumber(optional.Or(x, math.NaN())) }

// pageData is the data of a board from which page.js draws curves and fills the table. Texts are
// printable. Traces, capacities and policies are indexes of their lists.
type pageData struct {
	Stem       string       `json:"stem"` // begins the names of files to download
	Traces     []pageTrace  `json:"traces"`
	Capacities []string     `json:"capacities"`
	Policies   []pagePolicy `json:"policies"`
	Lines      []pageLine   `json:"lines"`
	Places     []pagePlace  `json:"places"`
	// OverK are the mean capacities ÷ K of the pooled cells of each capacity, of exact and of lossy
	// policies.
	OverK [2][]pageNumber `json:"k"`
	Timed bool            `json:"timed"`
	// Heat are maps of layers and heads. HeatLeft is the number of those left out.
	Heat     []pageHeat `json:"heat"`
	HeatLeft int        `json:"-"`
}

// pageTrace is a trace with the amounts that its cells share.
type pageTrace struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Demand int64  `json:"demand"`
	// Bytes are those of one entry in all caches of a request, or of a stream if rows are pooled
	// over requests. They are null if the trace states no bytes.
	Bytes pageNumber `json:"bytes"`
	Owner string     `json:"owner"` // "request" or "stream"
}

// Kinds of policies of a page.
const (
	pageExact = iota
	pageBound
	pageLossy
)

type pagePolicy struct {
	Name  string `json:"name"`
	Short string `json:"short"` // without default options
	Kind  int    `json:"kind"`
	Rank  string `json:"rank"`
	Place int    `json:"place"` // position in its ranking
	Focus bool   `json:"focus"` // shown at first

	TPOT pageNumber `json:"tpot"` // pooled, in seconds
}

// pageLine is a line of the table over several cells: pooled, of a trace or of a capacity. It is a
// list, because there are many. Its numbers are the trace, the capacity and the policy, -1 for all.
// Then follow × OPT or the recall, the ends of its interval, the hit rate, and the host-to-device
// bytes per step.
type pageLine [8]pageNumber

// intervalUnit is the unit of the ends of intervals in a pagePlace.
const intervalUnit = 1e-4

// pagePlace is a trace at a capacity with the figures of its policies, as columns. Policies are
// null if they are those of the place before. Misses are the lost blocks of lossy policies. Low and
// High are distances from the figure, × OPT or recall, in intervalUnit.
type pagePlace struct {
	Trace    int          `json:"t"`
	Capacity int          `json:"c"`
	OverK    pageNumber   `json:"k"`
	Entries  pageNumber   `json:"e"`
	Policies []int        `json:"p"`
	Misses   []int64      `json:"m"`
	Low      []pageNumber `json:"l"`
	High     []pageNumber `json:"h"`
}

// focused is the number of ranked policies that curves show at first, apart from LRU and OPT.
const focused = 5

func newPageData(b *board.Board, rows []result.Row, view View, suffix string) (*pageData, error) {
	d := &pageData{Stem: "leaderboard" + suffix, Heat: []pageHeat{}, Traces: []pageTrace{}, Capacities: []string{}, Policies: []pagePolicy{}, Lines: []pageLine{}, Places: []pagePlace{}}
	index := pageIndex{map[string]int{}, map[string]int{}, map[string]int{}}
	for _, t := range b.Traces {
		index.traces[t.Trace] = len(d.Traces)
		d.Traces = append(d.Traces, newPageTrace(&t))
	}
	cells := b.Cells
	if b.Lossy != nil {
		cells = slices.Concat(b.Cells, b.Lossy.Cells)
	}
	capacities := slice.Map(cells, func(c board.CellLine) string { return c.Capacity })
	for i, c := range result.SortCapacities(capacities) {
		index.capacities[c] = i
		d.Capacities = append(d.Capacities, printable.Line(c))
	}
	names := view.PolicyNames((&boardView{Board: b}).policies())
	for _, t := range b.Rankings() {
		d.addPolicies(t, names, index)
		d.addLines(b, t, index)
	}
	d.addPlaces(cells, index)
	return d, d.addHeat(rows, index)
}

// pageIndex is the position of names in the lists of a page.
type pageIndex struct{ traces, capacities, policies map[string]int }

func newPageTrace(t *board.TraceInfo) pageTrace {
	p := pageTrace{Name: printable.Line(t.Trace), Digest: printable.Line(t.TraceDigest), Demand: t.Demand, Bytes: pageNumber(math.NaN()), Owner: "stream"}
	streams := 1.0
	if t.RequestCount != nil && *t.RequestCount > 0 {
		streams, p.Owner = float64(t.Streams)/float64(*t.RequestCount), "request"
	}
	if t.EntryBytes != nil {
		p.Bytes = pageNumber(streams * float64(*t.EntryBytes))
	}
	return p
}

// addPolicies adds the policies of a ranking in its order.
func (d *pageData) addPolicies(t *board.Ranking, names map[string]string, index pageIndex) {
	for i, l := range t.Lines() {
		p := pagePolicy{TPOT: pageNumberOf(nil), Name: printable.Line(l.Policy), Short: printable.Line(names[l.Policy]), Rank: rankText(t, &l), Place: i}
		switch {
		case t.Key.Kind == board.LossyKind:
			p.Kind = pageLossy
		case i >= len(t.Ranked)+len(t.Unranked):
			p.Kind = pageBound
		}
		p.Focus = inFocus(t, i, l.Policy)
		index.policies[l.Policy] = len(d.Policies)
		d.Policies = append(d.Policies, p)
	}
}

// addLines adds the figures of a ranking over several cells.
func (d *pageData) addLines(b *board.Board, t *board.Ranking, index pageIndex) {
	kind := 0
	if t.Key.Kind == board.LossyKind {
		kind = 1
	}
	d.OverK[kind] = make([]pageNumber, len(d.Capacities))
	over := pooledOverK(b, t)
	for capacity, i := range index.capacities {
		d.OverK[kind][i] = pageNumberOf(nil)
		if x, ok := over[capacity]; ok {
			d.OverK[kind][i] = pageNumber(x)
		}
	}
	for _, l := range t.Lines() {
		policy := index.policies[l.Policy]
		add := func(f *board.Figures, trace, capacity int) {
			if f != nil {
				d.Lines = append(d.Lines, newPageLine(t.Key, f, trace, capacity, policy))
			}
		}
		add(l.Pooled, -1, -1)
		if l.Pooled != nil && l.Pooled.ExactFigures != nil && l.Pooled.TPOT != nil {
			d.Policies[policy].TPOT, d.Timed = pageNumber(*l.Pooled.TPOT), true
		}
		for i, f := range l.Capacities {
			add(f, -1, index.capacities[t.Capacities[i]])
		}
		for i, f := range l.Traces {
			add(f, index.traces[t.Traces[i]], -1)
		}
	}
}

func newPageLine(key *board.Key, f *board.Figures, trace, capacity, policy int) pageLine {
	figure, hits, bytes := (*board.Figure)(nil), pageNumber(math.NaN()), pageNumber(math.NaN())
	if key.Kind == board.LossyKind {
		figure = f.Recall
	} else {
		figure, bytes = f.XOpt, pageNumberOf(f.BytesPerStep)
		if f.HitRate != nil {
			hits = pageNumber(f.HitRate.Value)
		}
	}
	value, low, high := pageFigure(figure)
	return pageLine{pageNumber(trace), pageNumber(capacity), pageNumber(policy), value, low, high, hits, bytes}
}

// pageFigure returns a figure and the ends of its interval, NaN if they are missing.
func pageFigure(f *board.Figure) (value, low, high pageNumber) {
	if f == nil {
		return pageNumberOf(nil), pageNumberOf(nil), pageNumberOf(nil)
	}
	return pageNumber(f.Value), pageNumberOf(f.Low), pageNumberOf(f.High)
}

func (d *pageData) addPlaces(cells []board.CellLine, index pageIndex) {
	at := map[board.CellRef]int{}
	for _, c := range cells {
		policy, ok := index.policies[c.Policy]
		if !ok || c.Figures == nil {
			continue
		}
		i, ok := at[c.CellRef]
		if !ok {
			i, at[c.CellRef] = len(d.Places), len(d.Places)
			none := pageNumber(math.NaN())
			d.Places = append(d.Places, pagePlace{Trace: index.traces[c.Trace], Capacity: index.capacities[c.Capacity], OverK: none, Entries: none})
		}
		p, figure := &d.Places[i], (*board.Figure)(nil)
		p.Policies = append(p.Policies, policy)
		if c.ExactCell != nil {
			p.Misses, figure = append(p.Misses, c.Figures.Misses), c.Figures.XOpt
			if c.CapacityOverK != nil {
				p.OverK = pageNumberOf(c.CapacityOverK)
			}
			if c.Entries != nil {
				p.Entries = pageNumberOf(c.Entries)
			}
		} else {
			p.Misses, figure = append(p.Misses, c.Figures.Lost), c.Figures.Recall
		}
		value, low, high := pageFigure(figure)
		p.Low = append(p.Low, pageNumber(math.Round(float64(value-low)/intervalUnit)))
		p.High = append(p.High, pageNumber(math.Round(float64(high-value)/intervalUnit)))
	}
	last := []int(nil)
	for i := range d.Places {
		if p := &d.Places[i]; slices.Equal(p.Policies, last) {
			p.Policies = nil
		} else {
			last = p.Policies
		}
	}
}
