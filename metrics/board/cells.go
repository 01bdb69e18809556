package board

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// cell is one (trace, policy, capacity), of the GPU's cache or of a tier below one: its
// counts pooled over all its streams, and by request where the rows have them.
type cell struct {
	trace, policy, capacity string      // capacity is "" for policies without
	sample                  *result.Row // a row of the cell, for its settings and traits
	total                   tally
	requests                []tally // sorted by id; nil where rows are pooled over requests
	ids                     []string
	warnings                []string
}

func (c *cell) name() string { return result.CellName(c.sample) }

// newCells makes the cells of rows whose settings are equal. Rows at several levels of
// detail are counted once: they must agree, and the finest division by request is kept.
// Cells come sorted by trace, policy and capacity text.
func newCells(rows []*result.Row) ([]*cell, error) {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, result.CompareRows)
	rows, err := result.Unique(rows)
	if err != nil {
		return nil, err
	}
	var cells []*cell
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && sameCell(rows[0], rows[n]) {
			n++
		}
		c, err := newCell(rows[:n])
		if err != nil {
			return nil, err
		}
		cells, rows = append(cells, c), rows[n:]
	}
	return cells, nil
}

func sameCell(a, b *result.Row) bool {
	return a.Trace == b.Trace && a.Tier == b.Tier && a.Above == b.Above && a.Policy == b.Policy && (a.Capacity == nil) == (b.Capacity == nil) && result.OrDash(a.Capacity) == result.OrDash(b.Capacity)
}

func newCell(rows []*result.Row) (*cell, error) {
	c := &cell{trace: rows[0].Trace, policy: rows[0].Policy, sample: rows[0]}
	if rows[0].Capacity != nil {
		c.capacity = *rows[0].Capacity
	}
	for _, r := range rows {
		c.warnings = append(c.warnings, r.Warnings...)
	}
	c.warnings = result.Unite(c.warnings, nil)
	pooled, byRequest := result.Split(rows, func(r *result.Row) bool { return r.RequestID == nil })
	levels, err := c.levels(pooled)
	if err != nil {
		return nil, err
	}
	if err := c.addRequests(byRequest); err != nil {
		return nil, err
	}
	if c.requests != nil {
		levels = append(levels, level{"rows by request", sum(c.requests)})
	}
	c.total, err = c.agree("", levels)
	return c, err
}

// addRequests makes one tally per request.
func (c *cell) addRequests(rows []*result.Row) error {
	for _, g := range result.GroupBy(rows, func(r *result.Row) string { return *r.RequestID }) {
		levels, err := c.levels(g.Rows)
		if err != nil {
			return err
		}
		t, err := c.agree(", request "+g.Key, levels)
		if err != nil {
			return err
		}
		c.ids, c.requests = append(c.ids, g.Key), append(c.requests, t)
	}
	return nil
}

// level is what the rows of one level of detail sum to.
type level struct {
	name  string
	tally tally
}

// levels sums rows of one request, or pooled over requests: the row without layer,
// and the rows by layer, each of which is one row or rows by head.
func (c *cell) levels(rows []*result.Row) ([]level, error) {
	var levels []level
	whole, byLayer := result.Split(rows, func(r *result.Row) bool { return r.LayerID == nil })
	if len(whole) > 0 {
		levels = append(levels, level{"pooled row", tallyOf(whole[0])})
	}
	var layers []tally
	for _, g := range result.GroupBy(byLayer, func(r *result.Row) string { return strconv.Itoa(int(*r.LayerID)) }) {
		t, err := c.layer(g)
		if err != nil {
			return nil, err
		}
		layers = append(layers, t)
	}
	if layers != nil {
		levels = append(levels, level{"rows by layer", sum(layers)})
	}
	return levels, nil
}

func (c *cell) layer(g result.Group) (tally, error) {
	var levels []level
	whole, byHead := result.Split(g.Rows, func(r *result.Row) bool { return r.Head == nil })
	if len(whole) > 0 {
		levels = append(levels, level{"row of the layer", tallyOf(whole[0])})
	}
	if len(byHead) > 0 {
		levels = append(levels, level{"rows by head", sum(talliesOf(byHead))})
	}
	return c.agree(", layer "+g.Key, levels)
}

// agree returns the first level's tally once all levels count the same.
func (c *cell) agree(where string, levels []level) (tally, error) {
	first := levels[0]
	for _, l := range levels[1:] {
		if what := first.tally.differs(l.tally); what != "" {
			return tally{}, fmt.Errorf("%s%s: %s and %s disagree: %s", c.name(), where, first.name, l.name, what)
		}
	}
	return first.tally, nil
}
