package synthetic

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// Source draws the streams of a trace in any order and reuses its memory; one per
// goroutine.
type Source struct {
	dials   *Dials
	process process
	ranker  ranker
	step    int32     // of the next row
	scores  []float32 // by rank
}

const (
	leadIn = 8 // steps of a process before its first recorded one, if the context has them
	ahead  = 8 // and after its last
)

// NewSource returns a source of the streams that d describes; d has been validated.
func NewSource(d *Dials) *Source {
	g := &Source{dials: d}
	if d.Scores > 0 {
		g.scores = scoresOf(d.Candidates, d.Scores)
	}
	return g
}

// scoresOf are the scores by rank: a power law that sums to 1.
func scoresOf(n int, power float64) []float32 {
	values, sum := make([]float64, n), 0.0
	for i := range values {
		values[i] = math.Pow(float64(i+1), -power)
		sum += values[i]
	}
	scores := make([]float32, n)
	for i, v := range values {
		scores[i] = float32(v / sum)
	}
	return scores
}

// Streams is the number of streams.
func (g *Source) Streams() int { return g.dials.streams() }

// Stream draws the i-th stream in the order of keys into s.
func (g *Source) Stream(i int, s *trace.Stream) {
	info := g.begin(i)
	g.rows(info, info.Rows, s)
}

// begin begins to draw the i-th stream.
func (g *Source) begin(i int) trace.StreamInfo {
	g.draw(i)
	g.ranker.begin(&g.process, g.lead())
	if g.dials.Order == trace.OrderRank {
		g.ranker.rank()
	}
	g.step = int32(-g.dials.Windows)
	return g.dials.info(i)
}

// draw draws the process of the i-th stream.
func (g *Source) draw(i int) {
	d := g.dials
	request, layer, head := d.place(i)
	l := d.spread(layer, head)
	r := source(d.Seed, ofStream, uint64(request), uint64(layer), uint64(head))
	g.process.draw(extent{topK: d.TopK, tokens: d.listed() - g.lead() + 1, steps: g.lead() + d.Windows + d.Steps + ahead}, &l, r)
}

// lead is the number of steps of a process before its first recorded one.
func (g *Source) lead() int { return min(leadIn, g.dials.listed()-g.dials.Candidates) }

// place says which request, layer and head the i-th stream is of, by number.
func (d *Dials) place(i int) (request, layer, head int) {
	heads := max(1, d.Heads)
	return i / heads / d.Layers, i / heads % d.Layers, i % heads
}

// info describes the i-th stream.
func (d *Dials) info(i int) trace.StreamInfo {
	request, layer, head := d.place(i)
	key := trace.Key{Request: requestID(request, d.Requests), Layer: d.layerID(layer), Head: trace.NoHead}
	if d.Heads > 0 {
		key.Head = int32(head)
	}
	return trace.StreamInfo{Key: key, PromptLen: int32(d.Context), Rows: d.Windows + d.Steps}
}

// rows fills s with the next n rows of the stream.
func (g *Source) rows(info trace.StreamInfo, n int, s *trace.Stream) {
	s.Reset(info)
	s.Indices = slices.Grow(s.Indices, n*g.dials.Candidates)
	for range n {
		g.row(s)
	}
}

// row appends the next row. It writes the list where it stays: s has room for it.
func (g *Source) row(s *trace.Stream) {
	m, from := g.dials.Candidates, len(s.Indices)
	list := s.Indices[from : from+m]
	if g.dials.Order == trace.OrderIndex {
		g.ranker.ascending(list)
		g.ranker.follow()
	} else {
		g.ranker.demand(list[:g.dials.TopK])
		g.ranker.candidates(list[g.dials.TopK:])
		g.ranker.advance()
	}
	if sink := int32(g.dials.Sink); sink > 0 {
		for i := range list {
			list[i] += sink
		}
	}
	s.Append(trace.Row{Step: g.step, Scores: g.scores})
	g.step++
	s.Indices = s.Indices[:from+m]
	s.Offsets[s.Rows] = int32(from + m)
}

// requestID names the i-th of n requests so that names sort as numbers do.
func requestID(i, n int) string {
	return fmt.Sprintf("synthetic-%0*d", len(fmt.Sprint(n-1)), i)
}
