package replay

import (
	"fmt"

	"github.com/kvreplay/kvreplay/trace"
)

// foresight is what is known of a whole request before its caches are replayed: the
// importance of its positions at the end of the prompt, and budgets that change.
type foresight struct {
	request    string
	known      bool
	importance map[int32]float64 // of each position, over layers and heads; nil where it is not asked for
	budgets    map[int][]grown   // by selected stream; nil where they stay
	streams    [][]*trace.Stream // of the request, for the referee

	delta    Delta
	observed []observed
	initial  []int // entries
	members  []int // selected streams
}

// foresees reports whether something is to be known of a request as a whole.
func (p *plan) foresees() bool {
	return p.warmup.Scope == ScopeRequest || p.opt.Reallocation.Every > 0
}

// foresee looks at all selected streams of the request that the cache is of, unless it
// has just done so.
func (w *worker) foresee() error {
	p, a := w.plan, &w.ahead
	request := p.selected(w.cache.from).Request
	if !p.foresees() || a.known && a.request == request {
		return nil
	}
	*a = foresight{request: request, delta: a.delta}
	if p.warmup.Scope == ScopeRequest {
		a.importance = map[int32]float64{}
	}
	for i := range p.streams {
		if p.selected(i).Request == request {
			a.members = append(a.members, i)
		}
	}
	sizes, err := w.initialBudgets()
	if err != nil {
		return err
	}
	watch := newWatcher()
	var j *joiner
	if !p.layout.plain() {
		j = p.newJoiner()
	}
	recorded := make([]trace.Stream, p.layout.heads)
	for _, i := range a.members {
		s, err := w.read(i, recorded, j)
		if err != nil {
			return err
		}
		if err := w.look(i, s, j, watch, sizes); err != nil {
			return err
		}
		if p.opt.Referee {
			a.streams = append(a.streams, pointers(recorded))
			recorded = make([]trace.Stream, p.layout.heads)
		}
	}
	if err := w.settleBudgets(sizes); err != nil {
		return err
	}
	a.known = true
	return nil
}

// look takes what is to be known of the i-th selected stream.
func (w *worker) look(i int, s *trace.Stream, j *joiner, watch *watcher, sizes []int) error {
	p, a := w.plan, &w.ahead
	if a.importance != nil {
		d := Delta{stream: s, joined: j, first: s.Windows, k: p.topk, m: p.m}
		d.addImportance(a.importance, p.warmup.Windows)
	}
	if sizes == nil {
		return nil
	}
	o := p.deltaOptions(j)
	o.nexts = false
	if err := a.delta.build(s, o, w.check); err != nil {
		return err
	}
	misses, err := watch.observe(&a.delta, p.opt.Reallocation.Every, inBlocks(sizes, p.pins.BlockTokens))
	if err != nil {
		return err
	}
	a.observed = append(a.observed, observed{key: p.allocated(i), misses: misses, last: s.LastStep})
	return nil
}

func inBlocks(sizes []int, unit int) []int32 {
	blocks := make([]int32, len(sizes))
	for i, size := range sizes {
		blocks[i] = int32(size / unit)
	}
	return blocks
}

// initialBudgets are what the plan gives the streams of the request; it returns the sizes
// that budgets are chosen among, nil where they stay.
func (w *worker) initialBudgets() ([]int, error) {
	p, a := w.plan, &w.ahead
	if p.opt.Reallocation.Every == 0 {
		return nil, nil
	}
	memory := int64(0)
	for _, i := range a.members {
		k := p.allocated(i)
		entries, ok := p.opt.Allocation.Capacity(k.Layer, k.Head)
		if !ok {
			return nil, fmt.Errorf("reallocation: the plan says nothing of %v", k)
		}
		a.initial = append(a.initial, entries)
		memory += int64(entries)
	}
	return p.budgets(memory), nil
}

// settleBudgets divides the memory anew, interval by interval.
func (w *worker) settleBudgets(sizes []int) error {
	p, a := w.plan, &w.ahead
	if sizes == nil {
		return nil
	}
	later, err := reallocate(p.opt.Reallocation, a.observed, a.initial, sizes, p.pins.BlockTokens)
	if err != nil {
		return err
	}
	a.budgets = map[int][]grown{}
	for n, i := range a.members {
		a.budgets[i] = later[n]
	}
	if p.opt.Referee {
		return w.judgeObserved(sizes)
	}
	return nil
}

// over are the streams whose importance is one, as the referee takes them; nil where each
// has its own.
func (a *foresight) over() [][]*trace.Stream {
	if a.importance == nil {
		return nil
	}
	return a.streams
}
