package run

import (
	"context"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/replay/referee/brute"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// growing draws a capacity and larger later capacities.
func growing(r *rand.Rand, first, steps int) (capacity int, later []cache.CapacityAt, config []referee.Growth) {
	capacity = first
	at, size := int32(0), first
	for range 1 + r.IntN(3) {
		at, size = at+1+int32(r.IntN(1+steps/2)), size+1+r.IntN(first)
		later, config = append(later, cache.CapacityAt{Step: at, Capacity: size}), append(config, referee.Growth{From: at, Capacity: size})
	}
	return capacity, later, config
}

// The engine and the referee agree on capacities that grow, with every policy and shape.
func TestGrowthAgreesWithReferee(t *testing.T) {
	var b bench
	onShapes(t, draws(250), 91, func(r *rand.Rand, p *plan, streams []trace.Stream, name string) {
		var capacity int
		capacity, b.later, _ = growing(r, 1+r.IntN(2*p.topk), streams[0].Rows)
		b.runShared(t, p, streams, name, capacity)
	})
}

// OPT is also optimal if the capacity grows: exhaustive search finds no fewer misses.
func TestOptimumGrows(t *testing.T) {
	var b bench
	better := 0
	for seed := uint64(0); seed < draws(1500); seed++ {
		r := rand.New(rand.NewPCG(seed, 92))
		s, p := draw(r, replaytest.Small(r))
		p.warmup = setting.Warmup{Kind: setting.WarmupCold}
		var config []referee.Growth
		var capacity int
		capacity, b.later, config = growing(r, 1+r.IntN(p.topk+2), s.Rows)
		for name, bypass := range map[string]bool{"opt": false, "opt-bypass": true} {
			got := b.run(t, p, s, name, capacity)
			c := referee.Config{Policy: name, TopK: p.topk, Candidates: p.m, Capacity: capacity, Growth: config,
				Sink: p.pins.Sink, Local: p.pins.Local, BlockTokens: p.pins.BlockTokens}
			want, err := brute.MinMisses(s, p.ranks, c, bypass)
			fatal.If(t, err)
			if got.Misses != int64(want) {
				t.Fatalf("seed %d: %s misses %d, exhaustive search %d", seed, name, got.Misses, want)
			}
			c.Growth = nil
			if fixed, err := brute.MinMisses(s, p.ranks, c, bypass); err == nil && fixed > want {
				better++
			}
		}
	}
	if better < int(draws(100)) {
		t.Errorf("growth saves a miss in %d cases only: the test is weak", better)
	}
}

// A capacity that grows after the last step gives the same misses as one that does not grow.
func TestRunGrows(t *testing.T) {
	f := manyStreams(t)
	o := Options{Policies: specs(t, "lru", "lfu", "opt", "opt-bypass", "lookahead"), Per: PerStream}
	runs := map[string][]int64{}
	for _, text := range []string{"1x", "1x+2x@1000", "1x+2x@10+4x@20", "4x"} {
		o.Capacities, o.Referee = capacities(t, text), true
		for _, row := range mustRun(t, f, o) {
			runs[text] = append(runs[text], row.Misses)
		}
	}
	if !reflect.DeepEqual(runs["1x"], runs["1x+2x@1000"]) {
		t.Error("growth after the end changes counts")
	}
	for i := range runs["1x"] {
		if grown := runs["1x+2x@10+4x@20"][i]; grown > runs["1x"][i] || grown < runs["4x"][i] {
			t.Errorf("cell %d: %d misses at 1x, %d growing to 4x, %d at 4x", i, runs["1x"][i], grown, runs["4x"][i])
		}
	}
	o.Capacities, o.Policies = capacities(t, "1x+2x@10"), specs(t, "arc")
	if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), "built for one capacity") {
		t.Error(err)
	}
	for _, text := range []string{"1x+2x", "1x+2x@0", "2x+1x@4", "1x+64@4", "1x+2x@9+3x@9", "peak:lru+2x@4"} {
		if _, err := setting.ParseCapacity(text); err == nil {
			t.Errorf("capacity %q is read", text)
		}
	}
}
