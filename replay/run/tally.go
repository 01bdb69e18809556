package run

import (
	"github.com/kvreplay/kvreplay/replay/cache"
)

// tally pools a part of a cell: its counts and the capacities of its streams.
type tally struct {
	counts                 cache.Counts
	minEntries, maxEntries int64
	whole                  int64 // streams whose whole context fits the capacity
}

// merge pools o into t.
func (t *tally) merge(o *tally) {
	if o.counts.Streams == 0 {
		return
	}
	if t.counts.Streams == 0 {
		t.minEntries, t.maxEntries = o.minEntries, o.maxEntries
	}
	t.minEntries, t.maxEntries = min(t.minEntries, o.minEntries), max(t.maxEntries, o.maxEntries)
	t.whole += o.whole
	t.counts.Add(&o.counts)
}

// newTallies returns a tally for every part of every cell that is to be replayed.
func (p *plan) newTallies() [][]tally {
	all := make([][]tally, len(p.cells))
	for _, i := range p.todo {
		all[i] = make([]tally, len(p.parts))
	}
	return all
}
