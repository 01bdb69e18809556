package run

import (
	"iter"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

const (
	// mostLanes is the largest number of streams that a worker replays in turn.
	mostLanes = 8
	// lanesIndices is the number of listed indices that the lanes of a worker may hold. They take 128 MiB.
	lanesIndices = 1 << 25
)

// lanes returns the number of streams that each worker replays in turn. It is more than 1 if there are policies
// of other programs and all of them can serve several streams at once. It does not depend on the cells that remain.
func (p *plan) lanes() int {
	n, shared := mostLanes, false
	for i := range p.cells {
		if s, ok := p.cells[i].spec.Make().(policies.Sharer); ok {
			n, shared = min(n, s.Streams()), true
		}
	}
	if !shared || p.warmup.Scope == setting.ScopeRequest || p.opt.Reallocation.Every > 0 {
		return 1 // a worker keeps the streams of a request
	}
	for _, c := range p.caches {
		n = min(n, lanesIndices/max(1, p.indices(c)))
	}
	return max(1, n)
}

// abreast are lanes: workers that run in turn on one goroutine. A lane gives way to the next one while its
// policy waits for another program. The program then gets the questions of all lanes at once.
type abreast struct {
	first  *worker
	reader *trace.Reader
	wait   func() // of the lane that runs
}

// runAbreast calls lane n times, in turn.
func runAbreast(n int, lane func(*abreast) error) (err error) {
	if n == 1 {
		return lane(nil)
	}
	a := new(abreast)
	var lanes []func() (struct{}, bool)
	for range n {
		next, stop := iter.Pull(func(yield func(struct{}) bool) {
			a.wait = func() { yield(struct{}{}) }
			if e := lane(a); err == nil {
				err = e
			}
		})
		defer stop()
		lanes = append(lanes, next)
	}
	for len(lanes) > 0 {
		lanes = slices.DeleteFunc(lanes, func(next func() (struct{}, bool)) bool { _, more := next(); return !more })
	}
	a.reader.Close()
	return err
}

// join makes w share the reader and the programs of the first lane.
func (a *abreast) join(w *worker) {
	if a == nil {
		return
	}
	if a.first == nil {
		a.first = w
	}
	if a.reader == nil {
		a.reader = w.reader
	} else {
		w.reader.Close()
	}
	w.reader, w.borrows = a.reader, true // lanes take streams in their order, so reading stays sequential
	for i, r := range w.runners {
		for at := a.first.runners[i]; r != nil; {
			if s, ok := r.Policy.(policies.Sharer); ok {
				s.Share(at.Policy, a.wait)
			}
			if r.Lower == nil {
				break
			}
			r, at = r.Lower.Cell, at.Lower.Cell
		}
	}
}
