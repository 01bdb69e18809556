package run

import (
	"github.com/kvreplay/kvreplay/replay/cache"
)

// tally pools a part of a cell: its counts and the capacities of its streams. A checkpoint has it as
// JSON.
type tally struct {
	Counts cache.Counts `json:"counts"`
	Least  int64        `json:"min"` // smallest and largest capacity, in entries
	Most   int64        `json:"max"`
	Whole  int64        `json:"whole"` // streams whose whole context fits the capacity
}

// merge pools o into t.
func (t *tally) merge(o *tally) {
	if o.Counts.Streams == 0 {
		return
	}
	if t.Counts.Streams == 0 {
		t.Least, t.Most = o.Least, o.Most
	}
	t.Least, t.Most = min(t.Least, o.Least), max(t.Most, o.Most)
	t.Whole += o.Whole
	t.Counts.Add(&o.Counts)
}

// newTallies returns a tally for every part of every cell that is to be replayed.
func (p *plan) newTallies() [][]tally {
	all := make([][]tally, len(p.cells))
	for _, i := range p.todo {
		all[i] = make([]tally, len(p.parts))
	}
	return all
}
