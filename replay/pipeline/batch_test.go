package pipeline

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
)

// A batch that the profile has requests for draws each at most once, a larger one some twice.
func TestDraws(t *testing.T) {
	p := &Profile{Requests: make([]Request, 9)}
	for i := range p.Requests {
		p.Requests[i].Steps = [][]Counts{make([]Counts, 1+i)}
	}
	for seed := range uint64(20) {
		for _, size := range []int{1, 5, 9, 40} {
			b, err := NewBatch(p, size, seed, 0)
			if err != nil {
				t.Fatal(err)
			}
			drawn := slices.Sorted(slices.Values(b.Drawn))
			if different := slices.Compact(slices.Clone(drawn)); len(drawn) != size || drawn[size-1] > 8 || size <= 9 && len(different) != size {
				t.Fatalf("seed %d: a batch of %d draws %v", seed, size, b.Drawn)
			}
			if b.Steps != drawn[size-1]+1 {
				t.Fatalf("seed %d: %d steps, the longest of %v has %d", seed, b.Steps, b.Drawn, drawn[size-1]+1)
			}
		}
	}
}

// By hand: one request once and another twice, with 3 pinned tokens beside the demand, which
// blocks of 4 and a factor of 2 make 8 tokens a block; none attends to more than its context.
func TestSums(t *testing.T) {
	at := func(n int64) [][]Counts {
		return [][]Counts{{{Demand: n, Misses: 2 * n, Runs: 3 * n, Moved: 4 * n, SSDMisses: 5 * n, SSDMoved: 6 * n, SSDRuns: 7 * n, Positions: 2, SeqLen: 20, Prompt: 9}}}
	}
	b := &Batch{Profile: &Profile{Meta: replay.ProfileMeta{Setting: result.Setting{Sink: 2, Local: 1, BlockTokens: 4}}, Requests: []Request{{Steps: at(1)}, {Steps: at(10)}}}}
	got := b.sum([]share{{0, 1}, {1, 2}}, 0, 5, &Scaling{Factor: 2, Heads: 1}, 0, 0)
	want := sums{Counts: Counts{Demand: 21, Misses: 42, Runs: 63, Moved: 84, SSDMisses: 105, SSDMoved: 126, SSDRuns: 147, Positions: 6, SeqLen: 60, Prompt: 27},
		requests: 3, scored: 120, attended: 2 * (11 + 20 + 20), entries: 11 + 20 + 20, squares: 3 * 400}
	if got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
	// Attention reads the two outliers, blocks of 4 tokens, as well.
	b.Profile.Meta.OutlierBlocks = 2
	if got := b.sum([]share{{0, 1}}, 0, 5, &Scaling{Factor: 2, Heads: 1}, 0, 0); got.entries != 11+8 {
		t.Errorf("%g entries are read with outliers, expected 19", got.entries)
	}
	b.Profile.Meta.OutlierBlocks = 0
	// Asked for a context of 100 and 3 positions.
	got = b.sum([]share{{1, 2}}, 0, 0, &Scaling{Factor: 2, Heads: 1}, 100, 3)
	if got.SeqLen != 200 || got.Prompt != 200 || got.Positions != 6 || got.scored != 600 || got.entries != 2*83 || got.attended != 6*83 || got.squares != 20000 {
		t.Errorf("%+v", got)
	}
}
