package run

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// The engine and the referee agree on prefetching from every source, with every policy and shape.
// Prompt windows prefetch nothing.
func TestPrefetchAgreesWithReferee(t *testing.T) {
	var b bench
	var total cache.Counts
	onShapes(t, draws(250), 81, func(r *rand.Rand, p *plan, streams []trace.Stream, name string) {
		b.prefetch, b.staging = setting.PrefetchPredicted, 1+r.IntN(p.topk+2)
		switch r.IntN(3) {
		case 0:
			b.prefetch = setting.PrefetchEcho
		case 1:
			b.prefetch = setting.PrefetchCandidates
		}
		if b.prefetch == setting.PrefetchPredicted && len(streams[0].PredictedOffsets) == 0 {
			b.prefetch = setting.PrefetchCandidates
		}
		counts := b.runShared(t, p, streams, name, 1+r.IntN(2*p.topk))
		if counts.Prefetched != counts.PrefetchUseful+counts.PrefetchUseless {
			t.Fatalf("%s, prefetch %s of %d: %d prefetched, %d useful, %d useless", name, b.prefetch, b.staging, counts.Prefetched, counts.PrefetchUseful, counts.PrefetchUseless)
		}
		total.Add(&counts)
	})
	if least := int64(draws(1000)); total.PrefetchUseful < least || total.PrefetchLate < least || total.PrefetchUseless < least {
		t.Errorf("%+v: expected thousands of useful, late and useless prefetches", total)
	}
}

// The engine and the referee agree on tiers below a cache with a prefetcher, step by step: exclusive
// and inclusive, one and two, from every source. Draws of streams, policies, sizes and capacities
// differ.
func TestPrefetchAboveTiersAgreesWithReferee(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 24))
	names := []string{"lru", "fifo", "lfu", "lookahead", "window:2", "opt-bypass"}
	var total struct{ ahead, returned, hits int64 }
	for range draws(400) {
		o := replaytest.Options{Prompt: 10 + r.IntN(40), Steps: 5 + r.IntN(30), Windows: r.IntN(4), M: 2 + r.IntN(14), Locality: r.Float64(),
			Short: 0.2 * r.Float64(), Local: 1 + r.IntN(3), Sink: r.IntN(3), Pinned: 0.2, Predicted: 0.7 * float64(r.IntN(2))}
		o.Ascending = o.Predicted > 0 && r.IntN(4) == 0
		s, p := draw(r, o)
		spec := specs(t, names[r.IntN(len(names))])[0]
		source := setting.PrefetchPredicted
		if len(s.PredictedOffsets) == 0 || p.ranks && r.IntN(2) == 0 {
			source = setting.PrefetchCandidates
		}
		if r.IntN(3) == 0 {
			source = setting.PrefetchEcho
		}
		if source == setting.PrefetchCandidates && !p.ranks {
			continue
		}
		below := []string{"dram=lru@", "dram=fifo@", "dram=lfu@", "dram=lookahead@"}[r.IntN(4)]
		if !p.ranks && (spec.Name() == "lookahead" || below == "dram=lookahead@") {
			continue
		}
		texts := []string{below + fmt.Sprint(1+r.IntN(3*p.topk))}
		if r.IntN(2) == 0 {
			texts = append(texts, "cxl=lru@"+fmt.Sprint(1+r.IntN(3*p.topk)))
		}
		inclusive := r.IntN(2) == 0
		p.opt.Tiers, p.opt.Inclusive = tiers(t, texts...), inclusive
		var d demand.Delta
		fatal.If(t, d.Build(s, demand.Options{K: p.topk, M: p.m, Pins: p.pins, Meta: p.meta, Windows: p.warmup.Replayed(), Members: true, NextUses: true}, trace.NewChecker("test", p.meta)))
		st := cache.Start{Capacity: 1 + r.IntN(2*p.topk), Ranks: p.ranks, Unit: 1, Prefetch: source, Staging: 1 + r.IntN(p.topk+2), NewPredictor: newPredictor}
		if spec.Entry.Traits.Windowed {
			st.Capacity = policies.Unbounded
		}
		if p.warmup.Kind != setting.WarmupRun {
			p.warmup = setting.Warmup{Kind: setting.WarmupCold}
		}
		var lower []cache.TierStart
		for _, tier := range p.opt.Tiers {
			blocks, err := tier.Capacity.Blocks(setting.Sizing{BlockTokens: 1})
			fatal.If(t, err)
			lower = append(lower, cache.TierStart{Start: cache.Start{Capacity: blocks, Ranks: p.ranks, Unit: 1}})
		}
		checks, err := newRefereeChecks(p, spec.Name(), [][]*trace.Stream{{s}}, nil, st, lower)
		fatal.If(t, err)
		c := cache.NewCell(spec.Make())
		c.Lower = newTiers(p.opt.Tiers, inclusive)
		taken, moved := int64(0), int64(0)
		for n := range lower {
			own := checks[n+1].Observer(nil)
			lower[n].Observer = func(step *cache.StepReport) {
				own(step)
				if n == 0 && step.T >= 0 {
					taken += int64(step.Demand)
					total.returned += int64(step.Births)
					total.hits += int64(step.Demand - len(step.Misses))
				}
			}
		}
		top := checks[0].Observer(nil)
		counts, err := c.Run(&d, st, func(step *cache.StepReport) {
			top(step)
			if step.T >= 0 {
				moved += int64(len(step.Misses)) + step.Prefetched.Moved
			}
		}, lower...)
		for _, check := range checks {
			if err == nil {
				err = check.Verdict()
			}
		}
		if err != nil {
			t.Fatalf("%s capacity %d, %s of %d, tiers %v, inclusive %t, warm-up %v, K %d: %v", spec.Name(), st.Capacity, source, st.Staging, texts, inclusive, p.warmup, p.topk, err)
		}
		if taken != moved {
			t.Fatalf("%s: the tier is asked for %d blocks, the cache fetches %d", spec.Name(), taken, moved)
		}
		total.ahead += counts.Prefetched
	}
	if least := int64(draws(1000)); total.ahead < least || total.returned < least || total.hits < least {
		t.Errorf("%+v: expected thousands of prefetches, returns and hits", total)
	}
}

// By hand: K is 2 of lists of 4, a cache of 2, a buffer of 1 and a tier of 4 blocks, cold. Step 0 demands
// 1 2 and step 1 demands 1 3. Before step 1 block 3, the best candidate of step 0, is prefetched. It is
// a hit, and 2 is evicted to the tier. Before step 2 block 5 is prefetched, and step 2 demands 1 2: 2
// comes from the tier. Before step 3 block 6 takes the place of 5, which returns to the tier, and step 3
// demands 1 5: the tier has it.
func TestWorkedPrefetchAboveTier(t *testing.T) {
	h := worked{topk: 2, lists: [][]int32{{1, 2, 3, 4}, {1, 3, 5, 6}, {1, 2, 6, 7}, {1, 5, 8, 9}}}
	c, n := h.run(t, cache.Start{Capacity: 2, Prefetch: setting.PrefetchCandidates, Staging: 1}, false, "dram=lru@4")
	if n.Misses != 2+0+1+1 || n.Prefetched != 3 || n.PrefetchUseful != 1 {
		t.Errorf("%+v, worked out: 4 misses, 3 prefetches, 1 useful", n)
	}
	// The tier is asked for 1 2, for 3, for 5 2 and for 6 5. It has 2 and 5.
	if low := c.Lower.Cell.Counts()[0]; low.Demand != 2+1+2+2 || low.Misses != 2+1+1+1 || low.Births != 1+1+2 {
		t.Errorf("%+v, worked out: the tier is asked for 7 blocks, misses 5, and 4 arrive", low)
	}
}
