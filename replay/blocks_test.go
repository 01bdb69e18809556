package replay

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// A multiplication and a shift divide every number that an entry can have.
func TestDivider(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 98))
	for d := 1; d <= 64; d++ {
		v := divideBy(d)
		for range 2000 {
			x := uint32(r.Int32())
			for _, x := range []uint32{x, x / uint32(d) * uint32(d), x | (1<<31 - 1), 0} {
				if got := v.quotient(x); got != x/uint32(d) {
					t.Fatalf("%d ÷ %d = %d, not %d", x, d, x/uint32(d), got)
				}
			}
		}
	}
}

// Single lists are joined as all others are: the same blocks, demand, entries, scores.
func TestSingleListsJoinLikeOthers(t *testing.T) {
	quick, slow := new(joiner), &joiner{slow: true}
	for seed := uint64(0); seed < draws(2000); seed++ {
		r := rand.New(rand.NewPCG(seed, 99))
		o := replaytest.Medium(r)
		o.BlockTokens, o.Predicted = 1+r.IntN(2), []float64{0, 0.8}[r.IntN(2)]
		s, p := draw(r, o)
		l := layout{factor: 2 + r.IntN(63), heads: 1, mtp: 1}
		if r.IntN(2) == 0 {
			l.factor = 2 + r.IntN(5)
		}
		for _, j := range []*joiner{quick, slow} {
			j.layout, j.k, j.m, j.ranks = l, p.topk, p.m, p.ranks
			if err := j.join([]trace.Stream{*s}, o.BlockTokens*l.factor); err != nil {
				t.Fatal(err)
			}
		}
		a, b := &quick.out, &slow.out
		if !slices.Equal(a.Indices, b.Indices) || !slices.Equal(a.Offsets, b.Offsets) || !slices.Equal(a.Steps, b.Steps) || !slices.Equal(a.Scores, b.Scores) ||
			!slices.Equal(a.Predicted, b.Predicted) || !slices.Equal(a.PredictedOffsets, b.PredictedOffsets) || a.StreamInfo != b.StreamInfo ||
			!slices.Equal(quick.demand, slow.demand) || !slices.Equal(quick.picked, slow.picked) || !slices.Equal(quick.made, slow.made) || !slices.Equal(quick.span, slow.span) {
			t.Fatalf("seed %d: blocks of %d: joined apart: %v, as all others: %v", seed, l.factor, a, b)
		}
	}
}

// Lists that nobody has checked are refused if and only if the format forbids them.
func TestBlocksRefuseWhatTheFormatForbids(t *testing.T) {
	j := new(joiner)
	refused := uint64(0)
	for seed := uint64(0); seed < draws(4000); seed++ {
		r := rand.New(rand.NewPCG(seed, 32))
		o := replaytest.Medium(r)
		o.Steps++ // at least one row to break
		s, p := draw(r, o)
		if !p.ranks {
			s.Scores = nil
		}
		if seed%16 == 0 {
			p.meta.Candidates = max(p.topk, p.meta.Candidates-1)
		}
		damage(r, s, p.pins.blocks(s.MaxSeqLen()))
		want := trace.NewChecker("stream", p.meta).First(s)
		j.layout, j.k, j.m, j.ranks, j.trusts = layout{factor: 2 + r.IntN(20), heads: 1, mtp: 1}, p.topk, p.meta.Candidates, p.ranks, true
		err := j.join([]trace.Stream{*s}, p.pins.BlockTokens*j.factor)
		if err != nil && err != errBroken || (err == nil) != (want == nil) {
			t.Fatalf("seed %d: joining says %v, the format %v", seed, err, want)
		}
		if err != nil {
			refused++
		}
	}
	if refused < draws(1000) {
		t.Errorf("%d streams were refused: the draw no longer covers what it should", refused)
	}
}
