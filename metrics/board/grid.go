package board

import (
	"fmt"
	"slices"
	"strings"

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
	first   map[string]*cell         // by trace. With requests if any cell has them
	sampled map[string]*sampledTrace // none if intervals cannot be made
	sampler *sampler
	clock   *clock // nil: no times
}

// newGrid checks that all policies of a trace did the same work. It draws resamples for the
// traces that have enough requests.
func newGrid(cells []*cell, s *sampler) (*grid, error) {
	g := &grid{list: cells, cells: map[cellKey]*cell{}, first: map[string]*cell{}, sampled: map[string]*sampledTrace{}, sampler: s}
	for _, c := range cells {
		g.cells[cellKey{c.trace, c.policy, c.capacity}] = c
		if f := g.first[c.trace]; f == nil || f.requests == nil && c.requests != nil {
			g.first[c.trace] = c
		}
	}
	given := map[CellRef]*cell{} // the first exact policy of a place
	for _, c := range cells {
		if err := sameWork(g.first[c.trace], c); err != nil {
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
	for trace, c := range g.first {
		if len(c.requests) >= MinRequests {
			g.sampled[trace] = s.of(trace, len(c.requests))
		}
	}
	return g, nil
}

// sameWork compares streams, steps and demand, which no policy can change. A cell that lost
// requests, or ran on others, is never compared.
func sameWork(a, b *cell) error {
	what := a.total.fixedCounts.differs(b.total.fixedCounts)
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

// requests returns the number of requests of each trace of the cells, nil if one has too few for
// intervals.
func (g *grid) requests(refs []CellRef) []int {
	var requests []int
	seen := map[string]bool{}
	for _, r := range refs {
		if seen[r.Trace] {
			continue
		}
		t := g.sampled[r.Trace]
		if t == nil {
			return nil
		}
		seen[r.Trace], requests = true, append(requests, t.requests)
	}
	return requests
}
