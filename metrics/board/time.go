package board

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Timer models the times of cells. This package knows no hardware: the caller of NewBoard supplies
// a Timer.
type Timer interface {
	// TPOT returns the time per output token of a cell in seconds. The row has the settings that the
	// cell's rows share and the sums of their counts. The error states why there is no time.
	TPOT(cell *result.Row) (float64, error)
	// Model returns the assumptions of the times so far.
	Model() TimeModel
}

// TimeModel is the assumptions of modelled times.
type TimeModel struct {
	Hardware string `json:"hardware"`
	// Model is the shape that computes. Several are joined with commas, if traces have their own.
	Model    string `json:"model"`
	Schedule string `json:"schedule"`
	// Batch is the number of requests that decode together. Each misses as the cell does.
	Batch int `json:"batch"`
	// Labels are the conditions that limit only the times, not the counts.
	Labels result.Labels `json:"labels"`
	// Assumptions are texts.
	Assumptions []string `json:"assumptions"`
}

// clock keeps the times of cells.
type clock struct {
	timer   Timer
	times   map[*cell]float64   // NaN if there is none
	refused map[string][]string // traces of cells by reason
}

// time returns a cell's TPOT, NaN if it has none.
func (k *clock) time(c *cell) float64 {
	if t, ok := k.times[c]; ok {
		return t
	}
	t, err := k.timer.TPOT(c.row())
	if err != nil {
		t = math.NaN()
		k.refused[err.Error()] = append(k.refused[err.Error()], c.trace)
	}
	k.times[c] = t
	return t
}

// row returns the cell as one row: settings of the sample, sums of the counts.
func (c *cell) row() *result.Row {
	r, t := *c.sample, &c.total
	r.RequestID, r.LayerID, r.Head = nil, nil, nil
	r.Streams, r.Steps, r.Demand, r.Hits, r.Misses = t.streams, t.steps, t.demand, t.hits, t.misses
	r.Prefetched, r.MovedEntries, r.ResidentPeak, r.HostToDeviceBytes = t.prefetched, t.moved, t.residentPeak, nil
	if t.bytesKnown {
		r.HostToDeviceBytes = &t.bytes
	}
	return &r
}

// tpot returns the geometric mean of the cells' times to six digits, nil if one has none.
func (g *grid) tpot(cells []*cell) *float64 {
	if g.clock == nil {
		return nil
	}
	times := slice.Map(cells, g.clock.time)
	return rounded(stat.GeometricMean(times, nil), 6)
}

// model returns the time model of the board, nil if no cell has a time.
func (k *clock) model() *TimeModel {
	if k == nil {
		return nil
	}
	for _, t := range k.times {
		if !math.IsNaN(t) {
			return new(k.timer.Model())
		}
	}
	return nil
}

// notes name the traces without times, with the reasons, in a fixed order.
func (k *clock) notes() (notes []string) {
	if k == nil {
		return nil
	}
	for why, cells := range k.refused {
		traces := text.Union(cells)
		notes = append(notes, fmt.Sprintf("no modelled TPOT: %s: %s", strings.Join(traces, ", "), why))
	}
	slices.Sort(notes)
	return notes
}

// requestTimes divides a cell's time among its requests, so that it is their sum. A
// request's share is the time at its own rate of misses, weighed by its steps. Times
// between the fewest and the most misses of a request are interpolated: on a sequential
// schedule they are linear in misses.
func (g *grid) requestTimes(c *cell) []float64 {
	counts := make([]float64, len(c.requests)) // misses at each request's rate, in the steps of the cell
	for i, t := range c.requests {
		counts[i] = float64(t.misses) * float64(c.total.steps) / float64(max(1, c.work.tasks[i].steps))
	}
	fewest, most := math.Floor(slices.Min(counts)), math.Ceil(slices.Max(counts))
	slope := 0.0
	if fewest < most {
		slope = (g.clock.timeAt(c, most) - g.clock.timeAt(c, fewest)) / (most - fewest)
	}
	times := make([]float64, len(counts))
	for i, n := range counts {
		share := float64(c.work.tasks[i].steps) / float64(max(1, c.total.steps))
		times[i] = share * (g.clock.time(c) + slope*(n-float64(c.total.misses)))
	}
	return times
}

// timeAt returns a cell's TPOT with other misses, and moved entries in proportion. It is NaN if the
// cell has none.
func (k *clock) timeAt(c *cell, misses float64) float64 {
	r := c.row()
	scale := misses / max(1, float64(r.Misses))
	scaled := func(n int64) int64 { return int64(math.Round(scale * float64(n))) }
	r.Misses = int64(misses)
	r.Hits, r.Prefetched, r.MovedEntries = r.Demand-r.Misses, scaled(r.Prefetched), scaled(r.MovedEntries)
	if r.HostToDeviceBytes != nil {
		r.HostToDeviceBytes = new(scaled(*r.HostToDeviceBytes))
	}
	t, err := k.timer.TPOT(r)
	if err != nil {
		return math.NaN()
	}
	return t
}
