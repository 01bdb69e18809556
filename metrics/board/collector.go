package board

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Collector makes a board or comparisons from rows that come one at a time. It keeps the counts of
// requests that figures need, a few bytes for each row, and one row of each cell. The zero value has no
// rows.
type Collector struct {
	rows       []result.Row // of the cell that is being read
	top, below []*cell      // of the GPU's caches and of tiers
	known      map[cellName]bool
	works      map[string]*fixedByRequest // of the first cell of each trace
}

type cellName struct {
	cellKey
	above string
	tier  int
}

// ErrNotCollected means that a Collector cannot make the board or comparison. A cell has its rows in
// several places, or rows may differ in a setting. NewBoard or Compare of all rows gives the result, or
// the reason that there is none.
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
	sample := new(*done.sample) // in its own memory
	done.sample = sample
	name := cellName{done.key(), sample.Above, sample.Tier}
	if c.known[name] {
		return ErrNotCollected
	}
	done.kind = result.KindOf(sample, rows)
	if c.known == nil {
		c.known, c.works = map[cellName]bool{}, map[string]*fixedByRequest{}
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

// Board returns the board that NewBoard returns for the rows.
func (c *Collector) Board(o Options) (*Board, error) {
	if err := c.finish(); err != nil {
		return nil, err
	}
	if err := checkKinds(slices.Concat(c.top, c.below)); err != nil {
		return nil, err
	}
	sortCells(c.top)
	sortCells(c.below)
	return newBoard(c.top, c.below, o)
}

func checkKinds(cells []*cell) error {
	known, err := result.CheckKinds(slice.Map(cells, func(c *cell) result.Kind { return c.kind }))
	if !known {
		return ErrNotCollected
	}
	return err
}

// Starts are the rows of boards and comparisons, which came one at a time or are all in memory. Rows of
// warmed caches and of cold starts are never pooled (SEMANTICS S8).
type Starts struct {
	rows         []result.Row // in memory
	warmed, cold *Collector   // of rows that came one at a time, else nil
	policies     []string
}

// NewStarts returns the rows of two collectors, to which no more are added.
func NewStarts(warmed, cold *Collector) (*Starts, error) {
	err := cmp.Or(warmed.finish(), cold.finish())
	cells := slices.Concat(warmed.top, warmed.below, cold.top, cold.below)
	return &Starts{warmed: warmed, cold: cold, policies: text.Union(slice.Map(cells, func(c *cell) string { return c.policy }))}, err
}

// StartsOf returns rows in memory.
func StartsOf(rows []result.Row) *Starts {
	return &Starts{rows: rows, policies: text.Union(slice.Map(rows, func(r result.Row) string { return r.Policy }))}
}

// Board returns the board of the warmed rows or of the cold ones. It is nil without such rows.
func (s *Starts) Board(isCold bool, o Options) (*Board, error) {
	if s.warmed != nil {
		of := s.warmed
		if isCold {
			of = s.cold
		}
		if len(of.top)+len(of.below) == 0 {
			return nil, nil
		}
		return of.Board(o)
	}
	warmed, cold := result.SplitCold(s.rows)
	own, name := warmed, "warmed caches"
	if isCold {
		own, name = cold, "cold starts"
	}
	if len(own) == 0 {
		return nil, nil
	}
	b, err := NewBoard(own, o)
	if err != nil && len(own) < len(s.rows) {
		err = fmt.Errorf("cold starts (%d of %d rows) have a board of their own, and one of the two boards fails: %s: %w: "+
			"choose with --where warmup=cold or --where warmup!=cold", len(cold), len(s.rows), name, err)
	}
	return b, err
}

func (s *Starts) comparer(o Options) (*comparer, error) {
	if s.warmed != nil {
		return collectedComparer(s.warmed, s.cold, o)
	}
	return newComparer(s.rows, o), nil
}

func collectedComparer(warmed, cold *Collector, o Options) (*comparer, error) {
	c := &comparer{options: o, sampler: newSampler(o), samples: map[string]*result.Row{}}
	for _, of := range []*Collector{warmed, cold} {
		c.tiers = c.tiers || len(of.below) > 0
		for _, one := range of.top {
			known := c.samples[one.policy]
			if known == nil {
				c.samples[one.policy] = one.sample
			} else if known.Lossy != one.sample.Lossy || known.Offline != one.sample.Offline {
				return nil, ErrNotCollected
			}
		}
	}
	c.cells = func(a, b string, isCold bool) ([]*cell, error) {
		of := warmed
		if isCold {
			of = cold
		}
		cells := slice.Filter(of.top, func(one *cell) bool { return one.policy == a || one.policy == b })
		sortCells(cells)
		return cells, checkKinds(cells)
	}
	return c, nil
}

// Policies lists the policies of the rows.
func (s *Starts) Policies() []string { return s.policies }

// Compare is the function Compare of the rows.
func (s *Starts) Compare(a, b string, o Options) (*Comparison, error) {
	c, err := s.comparer(o)
	if err != nil {
		return nil, err
	}
	return c.comparison(a, b)
}

// CompareAll compares every policy of the rows with b. Rows that must not be compared are an error,
// as in Compare. Lossy policies, and those that share no place with b, are left out with a note.
func (s *Starts) CompareAll(b string, o Options) (*Comparisons, error) {
	c, err := s.comparer(o)
	if err != nil {
		return nil, err
	}
	return c.all(b)
}
