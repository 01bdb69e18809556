// Package replaytest draws random streams for tests of the replay engine, its referee and policies.
// Every draw is a function of its options and its random source alone. So a failing seed reproduces
// the failure.
package replaytest

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
)

// Options describe the stream to draw. The zero value of each field is usable.
type Options struct {
	Prompt      int     // tokens of the prompt, 0 for 1
	Steps       int     // recorded steps ≥ 0
	Windows     int     // recorded steps < 0, at most Prompt
	Gap         float64 // chance that trace steps are skipped before a recorded one, 0 to 1
	M           int     // longest list, in blocks, 0 for 1
	Short       float64 // chance that a list is cut to a random length from 1 to M
	Locality    float64 // AR(1) coefficient of the scores from row to row: 0 redraws, 1 freezes
	Levels      int     // scores are rounded to this many values per unit, so that they tie, or exact if 0
	Ascending   bool    // order=index: lists ascend and have no ranks, otherwise best first
	Scores      bool    // the stream has scores
	BlockTokens int     // tokens per block, 0 for 1
	Sink, Local int     // pins in tokens, Local 0 for 1
	Pinned      float64 // chance that a row's list may contain pinned blocks
	Predicted   float64 // chance that a predicted block is listed, 0 for no predictions
}

// defaults returns o with default values for its zero fields.
func (o Options) defaults() Options {
	o.Prompt, o.M = max(o.Prompt, 1), max(o.M, 1)
	o.BlockTokens, o.Local = max(o.BlockTokens, 1), max(o.Local, 1)
	o.Windows = min(o.Windows, o.Prompt)
	return o
}

// Meta returns the metadata of a trace that holds the stream, with top-k k. With Ascending the
// whole list is the demand and k must be M.
func (o Options) Meta(k int) trace.Meta {
	o = o.defaults()
	m := trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: k, Candidates: o.M,
		BlockTokens: o.BlockTokens, Sink: &o.Sink, Local: &o.Local}
	if o.Ascending {
		m.Order, m.TopK = trace.OrderIndex, o.M
	}
	if o.Scores {
		m.ScoreKind = "logit"
	}
	return m
}

// Stream draws a stream that keeps the rules of the trace format.
func Stream(r *rand.Rand, o Options) *trace.Stream {
	o = o.defaults()
	s := new(trace.Stream)
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: int32(o.Prompt)})
	var latent []float64 // one hidden score per block, carried from row to row
	for _, step := range o.steps(r) {
		seqLen := o.Prompt + step + 1
		latent = o.drift(r, latent, (seqLen+o.BlockTokens-1)/o.BlockTokens)
		s.Append(o.row(r, latent, step, seqLen))
	}
	return s
}

// steps draws the trace's step numbers, strictly increasing: o.Windows negative ones, then o.Steps
// others.
func (o Options) steps(r *rand.Rand) []int {
	gap := func() int {
		if r.Float64() < o.Gap {
			return 1 + r.IntN(3)
		}
		return 0
	}
	var steps []int
	at := 0
	for range o.Windows {
		at -= 1 + gap()
		if at >= -o.Prompt {
			steps = append(steps, at)
		}
	}
	for at = -1; len(steps) < o.Windows; at-- { // gaps exceed the prompt, so fill the holes
		steps = slice.Add(steps, at)
	}
	slices.Sort(steps)
	at = -1
	for range o.Steps {
		at += 1 + gap()
		steps = append(steps, at)
	}
	return steps
}

// drift moves every hidden score by one step of AR(1) and draws those of new blocks.
func (o Options) drift(r *rand.Rand, latent []float64, blocks int) []float64 {
	noise := math.Sqrt(max(0, 1-o.Locality*o.Locality))
	for b := range latent {
		latent[b] = o.Locality*latent[b] + noise*r.NormFloat64()
	}
	for len(latent) < blocks {
		latent = append(latent, r.NormFloat64())
	}
	return latent
}

// row ranks the blocks of a context by score, ties in random order, and cuts the list.
func (o Options) row(r *rand.Rand, latent []float64, step, seqLen int) trace.Row {
	score := make([]float32, len(latent))
	var list []int32
	pinned := r.Float64() < o.Pinned
	for _, b := range r.Perm(len(latent)) {
		score[b] = o.round(latent[b])
		if pinned || !o.pins(b, seqLen) {
			list = append(list, int32(b))
		}
	}
	if len(list) == 0 {
		list = []int32{int32(r.IntN(len(latent)))} // a list is never empty
	}
	slices.SortStableFunc(list, func(a, b int32) int {
		switch {
		case score[a] > score[b]:
			return -1
		case score[a] < score[b]:
			return 1
		}
		return 0
	})
	length := o.M
	if r.Float64() < o.Short {
		length = 1 + r.IntN(o.M)
	}
	list = list[:min(length, len(list))]
	if o.Ascending {
		slices.Sort(list)
	}
	row := trace.Row{Step: int32(step), Indices: list}
	if o.Predicted > 0 {
		row.Predicted = o.predict(r, list, len(latent))
	}
	for _, b := range list {
		if o.Scores {
			row.Scores = append(row.Scores, score[b])
		}
	}
	return row
}

// predict draws a prediction of a list: some of its blocks, and others, in random order. If the
// list is ascending, so is the prediction.
func (o Options) predict(r *rand.Rand, list []int32, blocks int) []int32 {
	predicted := []int32{}
	for _, b := range list {
		if r.Float64() >= o.Predicted {
			b = int32(r.IntN(blocks))
		}
		predicted = slice.Add(predicted, b)
	}
	if o.Ascending {
		slices.Sort(predicted)
	}
	return predicted
}

func (o Options) round(v float64) float32 {
	if o.Levels == 0 {
		return float32(v)
	}
	return float32(math.Round(v*float64(o.Levels))/float64(o.Levels)) + 0 // no negative zero
}

// pins reports whether a sink or the local window holds a token of block b.
func (o Options) pins(b, seqLen int) bool {
	return b*o.BlockTokens < o.Sink || (b+1)*o.BlockTokens > seqLen-o.Local
}

// Small draws the options of a stream that is small enough for exhaustive search: at most 13
// blocks, ties, gaps, windows, pins, and blocks of one or two tokens.
func Small(r *rand.Rand) Options {
	o := Options{
		Prompt: 1 + r.IntN(6), Steps: 1 + r.IntN(7), Windows: r.IntN(5), M: 1 + r.IntN(5),
		Locality: []float64{0, 0.5, 0.9}[r.IntN(3)], Levels: r.IntN(3), Ascending: r.IntN(4) == 0,
		Scores: true, BlockTokens: 1 + r.IntN(2), Sink: r.IntN(3), Local: 1 + r.IntN(2),
		Pinned: []float64{0, 0.3, 1}[r.IntN(3)], Short: 0.2,
	}
	if o.BlockTokens == 2 {
		o.Prompt, o.Steps = 2*o.Prompt, o.Steps+2
		o.Gap = []float64{0, 0.2}[r.IntN(2)]
	}
	return o.defaults()
}

// Medium draws the options of a stream for differential tests: long enough for caches to fill and
// turn over, and small enough for thousands of draws.
func Medium(r *rand.Rand) Options {
	return Options{
		Prompt: 1 + r.IntN(60), Steps: r.IntN(50), Windows: r.IntN(20), M: 1 + r.IntN(24),
		Gap: []float64{0, 0, 0.1, 0.5}[r.IntN(4)], Short: []float64{0, 0.1, 1}[r.IntN(3)],
		Locality: []float64{0, 0.5, 0.9, 0.99}[r.IntN(4)], Levels: r.IntN(4), Ascending: r.IntN(4) == 0,
		Scores: r.IntN(4) > 0, BlockTokens: 1 + r.IntN(4), Sink: r.IntN(6), Local: 1 + r.IntN(6),
		Pinned: []float64{0, 0.3, 1}[r.IntN(3)],
	}.defaults()
}

// Damage breaks a random place of a random list, often so that a rule of the format
// breaks, sometimes not.
func Damage(r *rand.Rand, s *trace.Stream, blocks int) {
	at := r.IntN(len(s.Indices))
	switch r.IntN(5) {
	case 0:
		s.Indices[at] = -1 - int32(r.IntN(3))
	case 1:
		s.Indices[at] = int32(blocks + r.IntN(3) - 2)
	case 2:
		s.Indices[at] = s.Indices[r.IntN(len(s.Indices))]
	case 3:
		s.Indices[at] = 1<<31 - 1
	case 4:
		s.Indices[at] = int32(r.IntN(blocks))
	}
}
