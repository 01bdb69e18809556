package board

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// The yardsticks of every board.
const (
	OptPolicy = "opt"
	LRUPolicy = "lru"
)

// CellRef names a place of the board: a trace and a capacity at which policies are compared.
type CellRef struct {
	Trace    string `json:"trace"`
	Capacity string `json:"capacity"`
}

func compareRefs(a, b CellRef) int {
	if c := strings.Compare(a.Trace, b.Trace); c != 0 {
		return c
	}
	return result.CompareCapacity(a.Capacity, b.Capacity)
}

type cellKey struct{ trace, policy, capacity string }

// grid is the cells, with figures over them.
type grid struct {
	list    []*cell
	cells   map[cellKey]*cell
	draws   map[string]*draws    // by trace. None if intervals cannot be made
	sampled map[*cell][]float64  // resampled misses, or lost blocks of lossy policies
	demand  map[string][]float64 // resampled demand by trace
	clock   *clock               // nil: no times
	seed    uint64
}

// newGrid checks that all policies of a trace did the same work. It draws resamples for the
// traces that have enough requests.
func newGrid(cells []*cell, s *sampler) (*grid, error) {
	g := &grid{
		list: cells, cells: map[cellKey]*cell{}, draws: map[string]*draws{},
		sampled: map[*cell][]float64{}, demand: map[string][]float64{}, seed: s.seed,
	}
	first := map[string]*cell{} // by trace. With requests if any cell has them
	for _, c := range cells {
		g.cells[cellKey{c.trace, c.policy, c.capacity}] = c
		if f := first[c.trace]; f == nil || f.requests == nil && c.requests != nil {
			first[c.trace] = c
		}
	}
	given := map[CellRef]*cell{} // the first exact policy of a place
	for _, c := range cells {
		if err := sameWork(first[c.trace], c); err != nil {
			return nil, err
		}
		if c.capacity == "" || c.sample.Lossy {
			continue
		}
		if given[c.ref()] == nil {
			given[c.ref()] = c
		}
		// Their rows may have different detail, so rows are not compared one by one.
		if a := given[c.ref()]; a.total.entriesKnown && c.total.entriesKnown && a.total.entriesSum != c.total.entriesSum {
			return nil, fmt.Errorf("%s and %s had different memory: capacity_entries sum to %.0f and %.0f over the streams", a.name(), c.name(), a.total.entriesSum, c.total.entriesSum)
		}
	}
	byTrace := map[string][]*cell{}
	for _, c := range cells {
		if c.requests != nil {
			byTrace[c.trace] = append(byTrace[c.trace], c)
		}
	}
	for trace, c := range first {
		if len(c.requests) >= MinRequests {
			g.draws[trace] = s.draws(trace, len(c.requests))
			g.resample(trace, c.work, byTrace[trace])
		}
	}
	return g, nil
}

// resample makes the sums of all resamples of a trace: of the demand, of the misses of exact policies
// and of what lossy ones lost.
func (g *grid) resample(trace string, w *work, cells []*cell) {
	series := [][]int64{slice.Map(w.tasks, func(t task) int64 { return t.demand })}
	for _, c := range cells {
		count := (*counts).countMisses
		if c.sample.Lossy {
			count = (*counts).countLost
		}
		series = append(series, perRequest[int64](c, count))
	}
	sums := g.draws[trace].all(series)
	g.demand[trace] = sums[0]
	for i, c := range cells {
		g.sampled[c] = sums[1+i]
	}
}

// sameWork compares streams, steps and demand, which no policy can change. A cell that lost
// requests, or ran on others, is never compared.
func sameWork(a, b *cell) error {
	what := a.total.task.differs(b.total.task)
	if what == "" && b.work != nil && !a.work.equal(b.work) {
		if !slices.Equal(a.work.ids, b.work.ids) {
			what = fmt.Sprintf("requests %v and %v", a.work.ids, b.work.ids)
		}
		for i := range b.work.tasks {
			if what == "" {
				what = a.work.tasks[i].differs(b.work.tasks[i])
			}
		}
	}
	if what != "" {
		return fmt.Errorf("%s and %s replayed different work: %s", a.name(), b.name(), what)
	}
	return nil
}

func (g *grid) at(r CellRef, policy string) *cell {
	return g.cells[cellKey{r.Trace, policy, r.Capacity}]
}

// misses returns a cell's count, NaN without a cell.
func misses(c *cell) []float64 {
	if c == nil {
		return []float64{math.NaN()}
	}
	return []float64{float64(c.total.misses)}
}

// resampled returns a cell's misses, or a lossy cell's lost blocks, in every resample. It is nil if
// they cannot be made, and has NaN without a cell.
func (g *grid) resampled(trace string, c *cell) []float64 {
	d := g.draws[trace]
	if d == nil || c != nil && c.requests == nil {
		return nil
	}
	if c == nil {
		return slices.Repeat([]float64{math.NaN()}, len(g.demand[trace]))
	}
	return g.sampled[c]
}

// cellSamples is the counts of a cell that figures are made from: one of each kind, or one for each
// resample. A count without a row is NaN. A comparison has no lru and demand.
type cellSamples struct{ misses, opt, lru, demand []float64 }

// yardstick returns the misses to compare with.
type yardstick func(*cellSamples) []float64

func ofOpt(c *cellSamples) []float64 { return c.opt }
func ofLRU(c *cellSamples) []float64 { return c.lru }

// counted returns the counts of a policy's cells, nil if one is missing.
func (g *grid) counted(policy string, refs []CellRef) []cellSamples {
	cells := make([]cellSamples, len(refs))
	for i, r := range refs {
		c := g.at(r, policy)
		if c == nil {
			return nil
		}
		cells[i] = cellSamples{misses: misses(c), demand: []float64{float64(c.total.demand)}}
		cells[i].opt, cells[i].lru = misses(g.at(r, OptPolicy)), misses(g.at(r, LRUPolicy))
	}
	return cells
}

// resampledCells returns the counts of a policy's cells by resample, nil if a cell has none.
func (g *grid) resampledCells(policy string, refs []CellRef) []cellSamples {
	cells := make([]cellSamples, len(refs))
	for i, r := range refs {
		c := &cells[i]
		c.misses, c.opt = g.resampled(r.Trace, g.at(r, policy)), g.resampled(r.Trace, g.at(r, OptPolicy))
		c.lru, c.demand = g.resampled(r.Trace, g.at(r, LRUPolicy)), g.demand[r.Trace]
		if c.misses == nil || c.opt == nil || c.lru == nil {
			return nil
		}
	}
	return cells
}

// sumsOver returns the sums of a count over cells, by resample.
func sumsOver(cells []cellSamples, count func(*cellSamples) []float64) []float64 {
	sums := slices.Clone(count(&cells[0]))
	for i := range cells[1:] {
		for b, x := range count(&cells[1+i]) {
			sums[b] += x
		}
	}
	return sums
}

// ratioOrder returns values that order resamples as meanRatio does: products of ratios, or logarithms of
// them if there are many cells.
func ratioOrder(cells []cellSamples, yardstick yardstick) []float64 {
	logs := make([]float64, len(cells[0].misses))
	for some := range slices.Chunk(cells, mostFactors) {
		ratios, below := slices.Clone(some[0].misses), slices.Clone(yardstick(&some[0]))
		for i := range some[1:] {
			c := &some[1+i]
			by := yardstick(c)
			for b, x := range c.misses {
				ratios[b] *= x
				below[b] *= by[b]
			}
		}
		for b, x := range below {
			ratios[b] /= x
		}
		if len(some) == len(cells) {
			return ratios
		}
		for b, x := range ratios {
			logs[b] += math.Log(x)
		}
	}
	return logs
}

// requests returns the number of requests of each trace of the cells, nil if one has too few for
// intervals.
func (g *grid) requests(refs []CellRef) []int {
	var requests []int
	seen := map[string]bool{}
	for _, r := range refs {
		if seen[r.Trace] {
			continue
		}
		d := g.draws[r.Trace]
		if d == nil {
			return nil
		}
		seen[r.Trace], requests = true, append(requests, d.requests)
	}
	return requests
}

// tail returns the tail of figures over the cells, or the nominal one if they have no resamples.
func (g *grid) tail(refs []CellRef) float64 {
	requests := g.requests(refs)
	if requests == nil {
		return nominalTail
	}
	return tail(requests)
}
