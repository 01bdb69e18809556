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

// add pools counts. least and most are the smallest and the largest capacity of the counted
// streams. whole is the number of streams whose whole context fits the capacity.
func (t *tally) add(c *cache.Counts, least, most, whole int64) {
	t.whole += whole
	if t.counts.Streams == 0 {
		t.minEntries, t.maxEntries = least, most
	}
	t.minEntries, t.maxEntries = min(t.minEntries, least), max(t.maxEntries, most)
	t.counts.Add(c)
}

func (t *tally) merge(o *tally) {
	if o.counts.Streams == 0 {
		return
	}
	t.add(&o.counts, o.minEntries, o.maxEntries, o.whole)
}

// newTallies returns a tally for every part of every cell that is to be replayed.
func (p *plan) newTallies() [][]tally {
	all := make([][]tally, len(p.cells))
	for _, i := range p.todo {
		all[i] = make([]tally, len(p.parts))
	}
	return all
}

func addTallies(total, part [][]tally) {
	for i := range total {
		for j := range total[i] {
			total[i][j].merge(&part[i][j])
		}
	}
}
