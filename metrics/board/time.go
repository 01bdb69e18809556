package board

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
	"gonum.org/v1/gonum/stat"
)

// What a board can rank by.
const (
	ByMisses = "misses" // × OPT
	ByTime   = "time"   // modelled time per output token
)

// Timer models how long cells take. This package knows no hardware: whoever makes a board
// of times brings one.
type Timer interface {
	// TPOT is the time per output token of a cell in seconds. The row has the settings that
	// the cell's rows share and the sums of their counts. The error says why there is none.
	TPOT(cell *result.Row) (float64, error)
	// Model says what the times so far assume.
	Model() TimeModel
}

// TimeModel is what modelled times assume.
type TimeModel struct {
	Hardware string `json:"hardware"`
	// Model is the shape that computes; several, with commas, where traces have their own.
	Model    string `json:"model"`
	Schedule string `json:"schedule"`
	// Batch is the requests that decode together, each of which misses as the cell does.
	Batch int `json:"batch"`
	// Labels are the conditions that limit the times, and not the counts.
	Labels result.Labels `json:"labels"`
	// Assumptions are texts.
	Assumptions []string `json:"assumptions"`
}

// clock keeps the times of cells.
type clock struct {
	timer   Timer
	times   map[*cell]float64   // NaN: there is none
	refused map[string][]string // traces of cells by reason
}

// time is a cell's TPOT, NaN where it has none.
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

// row is the cell as one row: settings of the sample, sums of the counts.
func (c *cell) row() *result.Row {
	r, t := *c.sample, &c.total
	r.RequestID, r.LayerID, r.Head = nil, nil, nil
	r.Streams, r.Steps, r.Demand, r.Hits, r.Misses = t.streams, t.steps, t.demand, t.hits, t.misses
	r.Prefetched, r.MovedEntries, r.ResidentPeak, r.HostToDeviceBytes = t.prefetched, t.moved, t.residentPeak, t.bytes
	return &r
}

// tpot is the geometric mean of the cells' times to six digits, nil where one has none.
func (g *grid) tpot(policy string, refs []CellRef) *float64 {
	if g.clock == nil {
		return nil
	}
	times := make([]float64, len(refs))
	for i, r := range refs {
		times[i] = g.clock.time(g.at(r, policy))
	}
	mean := stat.GeometricMean(times, nil)
	if math.IsNaN(mean) {
		return nil
	}
	mean, err := strconv.ParseFloat(strconv.FormatFloat(mean, 'g', 6, 64), 64)
	if err != nil {
		panic(err) // what FormatFloat writes, ParseFloat reads
	}
	return &mean
}

// model is what the board says of its times: nil where no cell has one.
func (k *clock) model() *TimeModel {
	if k == nil {
		return nil
	}
	for _, t := range k.times {
		if !math.IsNaN(t) {
			m := k.timer.Model()
			return &m
		}
	}
	return nil
}

// notes say which traces have no times, and why, in a fixed order.
func (k *clock) notes() (notes []string) {
	if k == nil {
		return nil
	}
	for why, cells := range k.refused {
		traces := result.Unite(nil, cells)
		notes = append(notes, fmt.Sprintf("no modelled TPOT: %s: %s", strings.Join(traces, ", "), why))
	}
	slices.Sort(notes)
	return notes
}

// untimed parts the contenders whose pooled figures have no time from the others. The
// times become the others' keys.
func untimed(cs []contender) (timed []contender, without []string) {
	for _, c := range cs {
		if c.line.Pooled.TPOT == nil {
			without = append(without, c.line.Policy)
			continue
		}
		c.key = *c.line.Pooled.TPOT
		timed = append(timed, c)
	}
	return timed, without
}
