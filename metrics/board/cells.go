package board

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// cell is one (trace, policy, capacity), of the GPU's cache or of a tier below it. Its counts are
// pooled over all its streams, and also kept by request if the rows have them.
type cell struct {
	trace, policy, capacity string      // capacity is "" for policies without one
	sample                  *result.Row // a row of the cell, for its settings and traits
	total                   tally
	requests                []counts        // by request, sorted by id. Nil if rows are pooled over requests
	work                    *fixedByRequest // of the requests. Cells that did the same work share it
	parts                   []partCount     // of rows by layer
	kind                    result.Kind     // only of a Collector
	warnings                []string
}

// counts are those of a request that policies change.
type counts struct{ misses, lost int64 }

// fixedByRequest are the counts of requests that no policy can change.
type fixedByRequest struct {
	ids   []string
	tasks []fixedCounts
}

// fixedCounts are the counts of a request, or of a cell, that no policy can change.
type fixedCounts struct{ streams, steps, demand int64 }

func (w *fixedByRequest) equal(o *fixedByRequest) bool {
	return w == o || slices.Equal(w.ids, o.ids) && slices.Equal(w.tasks, o.tasks)
}

// partCount is the misses of one layer or stream. alone is true if they are of one stream.
type partCount struct {
	part   result.Part
	misses int64
	alone  bool
}

func (c *cell) name() string { return result.CellName(c.sample) }

// onBoard reports whether a cell is on the main board: of an exact policy, at a capacity that every
// exact policy can have.
func (c *cell) onBoard() bool {
	return c.capacity != "" && !strings.HasPrefix(c.capacity, result.PeakPrefix) && !c.sample.Lossy
}

func (c *cell) ref() CellRef { return CellRef{c.trace, c.capacity} }

// newCells makes the cells of rows with equal settings. Rows at several levels of detail are
// counted once. The levels must agree, and the finest division by request is kept. Cells are sorted
// by trace, policy and capacity text.
func newCells(rows []*result.Row) ([]*cell, error) {
	rows = slices.Clone(rows)
	result.SortRows(rows)
	rows, err := result.Unique(rows)
	if err != nil {
		return nil, err
	}
	var cells []*cell
	for _, own := range slice.Runs(rows, result.SameCell) {
		c, err := newCell(own)
		if err != nil {
			return nil, err
		}
		cells = append(cells, c)
	}
	return cells, nil
}

// sortCells sorts cells as newCells does.
func sortCells(cells []*cell) {
	slice.Sort(cells, func(a, b *cell) int { return result.CompareCells(a.sample, b.sample) })
}

// newCell makes the cell of its rows, which are sorted and unique.
func newCell(rows []*result.Row) (*cell, error) {
	first := rows[0]
	c := &cell{trace: first.Trace, policy: first.Policy, capacity: optional.Or(first.Capacity, ""), sample: first}
	for i, r := range rows {
		if i == 0 || !slices.Equal(rows[i-1].Warnings, r.Warnings) {
			c.warnings = append(c.warnings, r.Warnings...)
		}
		c.addPart(r)
	}
	c.warnings = text.Union(c.warnings)
	pooled, byRequest := result.Split(rows, func(r *result.Row) bool { return r.RequestID == nil })
	levels, err := c.levels(pooled)
	if err != nil {
		return nil, err
	}
	total, err := c.addRequests(byRequest)
	if err != nil {
		return nil, err
	}
	if total != nil {
		levels = append(levels, level{"rows by request", *total})
	}
	c.total, err = c.agree("", levels)
	return c, err
}

// addPart adds a row of a layer or stream, and no other one.
func (c *cell) addPart(r *result.Row) {
	if r.LayerID != nil {
		c.parts = append(c.parts, partCount{result.PartOf(r), r.Misses, r.Streams == 1})
	}
}

// addRequests adds the counts of the requests, and returns their sum, nil for none. The rows are sorted.
func (c *cell) addRequests(rows []*result.Row) (total *tally, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	runs := slice.Runs(rows, func(a, b *result.Row) bool { return *a.RequestID == *b.RequestID })
	c.requests = make([]counts, len(runs))
	c.work = &fixedByRequest{make([]string, len(runs)), make([]fixedCounts, len(runs))}
	total = new(tally)
	for i, own := range runs {
		id := *own[0].RequestID
		t, err := c.request(id, own)
		if err != nil {
			return nil, err
		}
		c.requests[i] = counts{t.misses, t.lost}
		c.work.ids[i], c.work.tasks[i] = id, t.fixedCounts
		if i == 0 {
			*total = t
		} else {
			total.add(&t)
		}
	}
	return total, nil
}

// request returns the tally of a request.
func (c *cell) request(id string, rows []*result.Row) (tally, error) {
	if len(rows) == 1 && rows[0].LayerID == nil {
		return tallyOf(rows[0]), nil
	}
	levels, err := c.levels(rows)
	if err != nil {
		return tally{}, err
	}
	return c.agree(", request "+id, levels)
}

// level is the sum of the rows of one level of detail.
type level struct {
	name  string
	tally tally
}

// levels sums rows of one request, or rows pooled over requests. One level is the row without
// layer. The other is the rows by layer, each of which is one row or rows by head.
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
		levels = append(levels, level{"rows by head", sum(slice.Map(byHead, tallyOf))})
	}
	return c.agree(", layer "+g.Key, levels)
}

// agree returns the first level's tally if all levels have the same counts.
func (c *cell) agree(where string, levels []level) (tally, error) {
	first := levels[0]
	for _, l := range levels[1:] {
		if what := first.tally.differs(l.tally); what != "" {
			return tally{}, fmt.Errorf("%s%s: %s and %s disagree: %s", c.name(), where, first.name, l.name, what)
		}
	}
	return first.tally, nil
}

// tally is the counts that can be pooled, as sums over streams.
type tally struct {
	fixedCounts
	hits, misses, prefetched, moved int64
	bytes, written                  int64 // host to device, and back
	bytesKnown                      bool  // false without entry_bytes

	residentSum  float64 // resident_mean × steps
	residentPeak int64
	entriesSum   float64 // capacity_entries × streams
	entriesKnown bool

	lost                int64
	keptSum, coveredSum float64 // masses × steps
	massKnown           bool    // whether keptSum is known. coveredKnown is for coveredSum
	coveredKnown        bool
}

func tallyOf(r *result.Row) tally {
	t := tally{
		fixedCounts: fixedCounts{r.Streams, r.Steps, r.Demand}, hits: r.Hits, misses: r.Misses,
		prefetched: r.Prefetched, moved: r.MovedEntries, lost: r.Lost,
		residentSum: r.ResidentMean * float64(r.Steps), residentPeak: r.ResidentPeak,
	}
	if r.HostToDeviceBytes != nil && r.DeviceToHostBytes != nil {
		t.bytes, t.written, t.bytesKnown = *r.HostToDeviceBytes, *r.DeviceToHostBytes, true
	}
	if r.CapacityEntries != nil {
		t.entriesSum, t.entriesKnown = float64(*r.CapacityEntries)*float64(r.Streams), true
	}
	if r.KeptMass != nil {
		t.keptSum, t.massKnown = *r.KeptMass*float64(r.Steps), true
	}
	if r.CoveredMass != nil {
		t.coveredSum, t.coveredKnown = *r.CoveredMass*float64(r.Steps), true
	}
	return t
}

func (c *counts) countMisses() int64 { return c.misses }
func (c *counts) countLost() int64   { return c.lost }

// perRequest returns one count for each request of a cell.
func perRequest[N int64 | float64](c *cell, count func(*counts) int64) []N {
	values := make([]N, len(c.requests))
	for i := range c.requests {
		values[i] = N(count(&c.requests[i]))
	}
	return values
}

// sum pools tallies.
func sum(tallies []tally) tally {
	total := tallies[0]
	for i := range tallies[1:] {
		total.add(&tallies[1+i])
	}
	return total
}

// add pools counts: the only way in which this package combines them. A count that one tally lacks, the
// sum lacks too.
func (t *tally) add(u *tally) {
	t.streams += u.streams
	t.steps += u.steps
	t.demand += u.demand
	t.hits += u.hits
	t.misses += u.misses
	t.prefetched += u.prefetched
	t.moved += u.moved
	t.bytes += u.bytes
	t.written += u.written
	t.residentSum += u.residentSum
	t.residentPeak = max(t.residentPeak, u.residentPeak)
	t.entriesSum += u.entriesSum
	t.lost += u.lost
	t.keptSum += u.keptSum
	t.coveredSum += u.coveredSum
	t.bytesKnown = t.bytesKnown && u.bytesKnown
	t.entriesKnown = t.entriesKnown && u.entriesKnown
	t.massKnown = t.massKnown && u.massKnown
	t.coveredKnown = t.coveredKnown && u.coveredKnown
	if !t.bytesKnown {
		t.bytes, t.written = 0, 0 // differs compares no part of a sum
	}
}

// differs names the first count in which two tallies of the same work differ, or "".
func (t tally) differs(u tally) string {
	if what := t.fixedCounts.differs(u.fixedCounts); what != "" {
		return what
	}
	return firstDifference(
		twoCounts{"misses", t.misses, u.misses}, twoCounts{"lost", t.lost, u.lost}, twoCounts{"prefetched", t.prefetched, u.prefetched},
		twoCounts{"host_to_device_bytes", t.bytes, u.bytes}, twoCounts{"device_to_host_bytes", t.written, u.written})
}

// twoCounts is one count of two tallies.
type twoCounts struct {
	name string
	a, b int64
}

// firstDifference names the first count that differs, or "".
func firstDifference(counts ...twoCounts) string {
	for _, c := range counts {
		if c.a != c.b {
			return fmt.Sprintf("%s %d and %d", c.name, c.a, c.b)
		}
	}
	return ""
}

func (t fixedCounts) differs(u fixedCounts) string {
	return firstDifference(twoCounts{"streams", t.streams, u.streams}, twoCounts{"steps", t.steps, u.steps}, twoCounts{"demand", t.demand, u.demand})
}
