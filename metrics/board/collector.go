package board

import (
	"errors"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// Collector makes a board from rows that come one at a time. It keeps the counts of requests that
// figures need, a few bytes for each row, and one row of each cell. The zero value has no rows.
type Collector struct {
	rows       []result.Row // of the cell that is being read
	top, below []*cell      // of the GPU's caches and of tiers
	known      map[cellName]bool
	works      map[string]*work // of the first cell of each trace
	kinds      result.Kinds
}

type cellName struct {
	cellKey
	above string
	tier  int
}

// ErrNotCollected means that a Collector cannot make the board: a cell has its rows in several
// places, or rows may differ in a setting. NewBoard of all rows gives the board or the reason that
// there is none.
var ErrNotCollected = errors.New("rows need to be read at once")

// Add adds a row and copies it. same is true if the row is known to be of the kind of the row before
// (result.SameKind).
func (c *Collector) Add(r *result.Row, same bool) error {
	if n := len(c.rows); n > 0 && !same && !result.SameKind(&c.rows[n-1], r) {
		if err := c.finish(); err != nil {
			return err
		}
	}
	c.rows = append(c.rows, *r)
	return nil
}

// finish makes the cell of the rows since the last one.
func (c *Collector) finish() error {
	if len(c.rows) == 0 {
		return nil
	}
	rows := result.Pointers(c.rows)
	result.SortRows(rows)
	rows, err := result.Unique(rows)
	if err != nil {
		return err
	}
	done, err := newCell(rows)
	if err != nil {
		return err
	}
	sample := *done.sample // in its own memory
	done.sample = &sample
	name := cellName{done.key(), sample.Above, sample.Tier}
	if c.known[name] || !c.kinds.Add(&sample, rows) {
		return ErrNotCollected
	}
	if c.known == nil {
		c.known, c.works = map[cellName]bool{}, map[string]*work{}
	}
	c.known[name] = true
	if w := done.work; w != nil {
		if known := c.works[done.trace]; known == nil {
			c.works[done.trace] = w
		} else if known.equal(w) {
			done.work = known
		}
	}
	if sample.Tier == 0 {
		c.top = append(c.top, done)
	} else {
		c.below = append(c.below, done)
	}
	c.rows = c.rows[:0]
	return nil
}

// Empty reports whether no row was added.
func (c *Collector) Empty() bool { return len(c.rows)+len(c.top)+len(c.below) == 0 }

// Board returns the board that NewBoard returns for the rows.
func (c *Collector) Board(o Options) (*Board, error) {
	if err := c.finish(); err != nil {
		return nil, err
	}
	if err := c.kinds.Check(); err != nil {
		return nil, err
	}
	sortCells(c.top)
	sortCells(c.below)
	return newBoard(c.top, c.below, o)
}
