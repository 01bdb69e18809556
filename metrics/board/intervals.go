package board

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// The intervals of all figures are made together, trace by trace. So memory holds the resamples of one
// trace, and of a figure over several traces only the sums and products of its cells. Products of ratios
// need few logarithms.

// sampler draws the resamples of traces, and makes the intervals of figures. All grids of one
// comparison share it.
type sampler struct {
	seed   uint64
	count  int
	traces map[traceSize]*sampledTrace
	free   [][]float64 // series by resample that are not in use
}

type traceSize struct {
	trace    string
	requests int
}

// sampledTrace is the resamples of one trace, and the figures that need them.
type sampledTrace struct {
	name string
	*draws
	pools  []*pool
	counts map[countOf]*count
}

// countOf names a count of a cell by request: the misses, or the blocks that a lossy policy lost, or
// the demand.
type countOf struct {
	cell   *cell
	demand bool
}

// count has values by resample while its trace is read.
type count struct{ resamples []float64 }

func newSampler(o Options) *sampler {
	return &sampler{seed: o.Seed, count: cmp.Or(o.Resamples, DefaultResamples), traces: map[traceSize]*sampledTrace{}}
}

// of returns the resamples of a trace with a number of requests.
func (s *sampler) of(trace string, requests int) *sampledTrace {
	size := traceSize{trace, requests}
	t := s.traces[size]
	if t == nil {
		t = &sampledTrace{name: trace, draws: newDraws(s.seed, trace, requests, s.count), counts: map[countOf]*count{}}
		s.traces[size] = t
	}
	return t
}

func (t *sampledTrace) count(of countOf) *count {
	if t.counts[of] == nil {
		t.counts[of] = &count{}
	}
	return t.counts[of]
}

func (of countOf) byRequest() []int64 {
	switch {
	case of.demand:
		return slice.Map(of.cell.work.tasks, func(t fixedCounts) int64 { return t.demand })
	case of.cell.sample.Lossy:
		return perRequest[int64](of.cell, (*counts).countLost)
	}
	return perRequest[int64](of.cell, (*counts).countMisses)
}

// pool is the cells that figures are over.
type pool struct {
	grid   *grid
	refs   []CellRef
	traces []*sampledTrace // of each cell. Nil if one has too few requests
	tail   float64

	opt, lru, demand *series
	shared           []*series // of the entries
	entries          []*entry  // the policies whose figures have intervals
	done             int       // cells whose resamples are added
}

// over returns the pool of some cells, which are sorted.
func (g *grid) over(refs []CellRef) *pool {
	p := &pool{grid: g, refs: refs, demand: &series{demand: true}}
	p.opt, p.lru = p.series(OptPolicy), p.series(LRUPolicy)
	for _, r := range refs {
		p.demand.cells = append(p.demand.cells, g.first[r.Trace])
	}
	if requests := g.requests(refs); requests != nil {
		p.tail = tail(requests)
		p.traces = slice.Map(refs, func(r CellRef) *sampledTrace { return g.sampled[r.Trace] })
	}
	return p
}

// series is one count of the cells of a pool. It adds up and multiplies their resamples.
type series struct {
	cells  []*cell // nil if there is none
	demand bool

	counts   []*count  // of the cells
	sums     []float64 // by resample
	products []float64 // of the last cells, of mostFactors at most
}

// series returns the misses of a policy in the pool, or the blocks that it lost.
func (p *pool) series(policy string) *series {
	return &series{cells: slice.Map(p.refs, func(r CellRef) *cell { return p.grid.at(r, policy) })}
}

// complete reports whether all cells exist.
func (s *series) complete() bool { return len(s.cells) > 0 && !slices.Contains(s.cells, nil) }

// pooled reports whether rows of a cell are pooled over requests.
func (s *series) pooled() bool {
	return slices.ContainsFunc(s.cells, func(c *cell) bool { return c != nil && c.requests == nil })
}

// tally returns the sum of the cells, which all exist.
func (s *series) tally() tally {
	return sum(slice.Map(s.cells, func(c *cell) tally { return c.total }))
}

// misses returns the misses of the cells, nil if one is missing.
func (s *series) misses() *int64 {
	if !s.complete() {
		return nil
	}
	return new(s.tally().misses)
}

// entry is a policy of a pool with the figures whose intervals are to be made.
type entry struct {
	*series
	intervals []*bootstrap
}

// bootstrap is the interval of a figure, which is to be made.
type bootstrap struct {
	set   func(low, high float64)
	value func(resample int) float64 // the figure of a resample. Nil for a mean ratio
	by    *series                    // the divisor of a mean ratio
	logs  []float64                  // of the products so far, if there are more cells than mostFactors
}

// entry returns the entry of a policy with the other series that its figures need. It has no
// intervals if rows of one are pooled over requests.
func (p *pool) entry(own *series, others ...*series) *entry {
	e := &entry{series: own}
	if all := append(others, own); p.traces == nil || slices.ContainsFunc(all, (*series).pooled) {
		return e
	}
	if p.entries == nil {
		for _, t := range slices.Compact(slices.Clone(p.traces)) {
			t.pools = append(t.pools, p)
		}
	}
	p.entries = append(p.entries, e)
	p.prepare(own)
	for _, s := range others {
		if s.counts == nil && s.complete() {
			p.prepare(s)
			p.shared = append(p.shared, s)
		}
	}
	return e
}

func (p *pool) prepare(s *series) {
	for i, c := range s.cells {
		s.counts = append(s.counts, p.traces[i].count(countOf{c, s.demand}))
	}
}

// figure returns a figure whose interval has the values of resamples. It is nil if the value is NaN: a
// yardstick has no rows, or no miss.
func (e *entry) figure(value float64, of func(resample int) float64) *Figure {
	return e.add(value, &bootstrap{value: of})
}

// ratio returns the mean ratio of the entry to a yardstick.
func (e *entry) ratio(by *series) *Figure {
	return e.add(meanRatio(e.cells, by.cells), &bootstrap{by: by})
}

func (e *entry) add(value float64, made *bootstrap) *Figure {
	rounded := Number(value)
	if rounded == nil {
		return nil
	}
	f := &Figure{Value: *rounded}
	made.set = func(low, high float64) {
		f.Low, f.High = Number(low), Number(high)
		f.undefined = f.Low == nil
	}
	e.intervals = append(e.intervals, made)
	return f
}

// makeIntervals makes the intervals of all figures.
func (s *sampler) makeIntervals() {
	traces := slices.SortedFunc(maps.Values(s.traces), func(a, b *sampledTrace) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.requests, b.requests))
	})
	clear(s.traces)
	for _, t := range traces {
		s.sum(t)
		for _, p := range t.pools {
			s.addTo(p, t)
		}
		for _, c := range t.counts {
			s.release(&c.resamples)
		}
	}
}

// sum makes the sums of all counts of a trace in the resamples.
func (s *sampler) sum(t *sampledTrace) {
	var requests [][]int64
	var resamples [][]float64
	for of, c := range t.counts {
		c.resamples = s.series()
		requests, resamples = append(requests, of.byRequest()), append(resamples, c.resamples)
	}
	t.all(requests, resamples)
}

// series returns a series with a value for each resample.
func (s *sampler) series() (x []float64) {
	last := len(s.free) - 1
	if last < 0 {
		return make([]float64, s.count)
	}
	x, s.free = s.free[last], s.free[:last]
	return x
}

// release takes a series back, and removes it.
func (s *sampler) release(x *[]float64) {
	s.free = append(s.free, *x)
	*x = nil
}

// addTo adds the cells of a trace to all series of a pool, at most mostFactors at a time. After the last
// cell it sets the intervals.
func (s *sampler) addTo(p *pool, t *sampledTrace) {
	for p.done < len(p.refs) && p.traces[p.done] == t {
		first := p.done
		for p.done++; p.done%mostFactors != 0 && p.done < len(p.refs) && p.traces[p.done] == t; p.done++ {
		}
		last := p.done == len(p.refs)
		for _, x := range p.shared {
			s.addCells(x, first, p.done)
		}
		for _, e := range p.entries {
			s.addCells(e.series, first, p.done)
			if len(p.refs) > mostFactors && (last || p.done%mostFactors == 0) {
				s.addLogs(e)
			}
			if last {
				s.setIntervals(e, p.tail)
				s.drop(e.series)
			}
		}
		if last {
			for _, x := range p.shared {
				s.drop(x)
			}
		}
	}
}

// addCells adds the cells from first to end to a series.
func (s *sampler) addCells(x *series, first, end int) {
	if len(x.cells) == 1 {
		x.sums, x.products = x.counts[0].resamples, x.counts[0].resamples
		return
	}
	for k := first; k < end; k++ {
		from := x.counts[k].resamples
		switch {
		case k == 0:
			x.sums, x.products = s.series(), s.series()
			copy(x.sums, from)
			copy(x.products, from)
		case k%mostFactors == 0:
			copy(x.products, from)
			for b, n := range from {
				x.sums[b] += n
			}
		default:
			sums, products := x.sums[:len(from)], x.products[:len(from)]
			for b, n := range from {
				sums[b] += n
				products[b] *= n
			}
		}
	}
}

// drop releases the sums and products of a series.
func (s *sampler) drop(x *series) {
	if len(x.cells) > 1 {
		s.release(&x.sums)
		s.release(&x.products)
	}
	x.sums, x.products = nil, nil
}

// addLogs adds the logarithms of the products of the last cells to the mean ratios of an entry.
func (s *sampler) addLogs(e *entry) {
	for _, i := range e.intervals {
		if i.by == nil {
			continue
		}
		if i.logs == nil {
			i.logs = s.series()
			clear(i.logs)
		}
		for b, x := range e.products {
			i.logs[b] += math.Log(x / i.by.products[b])
		}
	}
}

// setIntervals sets the intervals of an entry.
func (s *sampler) setIntervals(e *entry, tail float64) {
	cells := float64(len(e.cells))
	for _, i := range e.intervals {
		values := i.logs
		if values == nil {
			values = s.series()
		}
		switch {
		case i.by == nil:
			for b := range values {
				values[b] = i.value(b)
			}
			i.set(bounds(values, tail))
		case i.logs == nil:
			for b, x := range e.products {
				values[b] = x / i.by.products[b]
			}
			low, high := bounds(values, tail)
			i.set(math.Exp(math.Log(low)/cells), math.Exp(math.Log(high)/cells))
		default:
			low, high := bounds(values, tail)
			i.set(math.Exp(low/cells), math.Exp(high/cells))
		}
		i.logs, i.value = nil, nil
		s.release(&values)
	}
}
