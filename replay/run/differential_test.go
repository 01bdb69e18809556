package run

import (
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/replay/referee/brute"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// bench is one engine for all cases of a test. Reusing it checks that Reset and Build leave no state.
type bench struct {
	delta   demand.Delta
	joiner  demand.Joiner
	runners map[string]*cache.Cell

	prefetch setting.PrefetchSource
	staging  int
	swaps    bool
	alone    bool // without the referee
	later    []cache.CapacityAt
}

// testPlan returns the plan that newPlan would make for a stream that is not in a file.
func testPlan(m *trace.Meta, k, mm int, w setting.Warmup) *plan {
	pins := pinsOf(m, &Options{})
	return &plan{meta: m, opt: &Options{}, topk: k, m: mm, pins: pins, layout: demand.Layout{Factor: 1, Heads: 1, Positions: 1}, warmup: w, ranks: m.Order == trace.OrderRank, columns: columns{ranks: m.Order == trace.OrderRank}}
}

// run replays one cell and compares every step with the referee.
func (b *bench) run(t *testing.T, p *plan, s *trace.Stream, name string, capacity int) cache.Counts {
	t.Helper()
	return b.runShared(t, p, []trace.Stream{*s}, name, capacity)
}

// runner returns the cell of a policy. It makes the cell at the first call.
func (b *bench) runner(t *testing.T, name string) (policies.Spec, *cache.Cell) {
	t.Helper()
	spec, err := all.Table().Parse(name)
	fatal.If(t, err)
	if b.runners == nil {
		b.runners = map[string]*cache.Cell{}
	}
	if b.runners[name] == nil {
		b.runners[name] = cache.NewCell(spec.Make())
	}
	return spec, b.runners[name]
}

// runShared does the same as run for streams that share a cache. It joins them by the plan's layout.
func (b *bench) runShared(t *testing.T, p *plan, streams []trace.Stream, name string, capacity int) cache.Counts {
	t.Helper()
	s := &streams[0]
	var joined *demand.Joiner
	if !p.layout.Plain() {
		if p.opt.Clusters == nil { // a reused joiner would keep the clusters of another case
			joined = &b.joiner
			joined.Layout, joined.K, joined.M, joined.Ranks, joined.Pins = p.layout, p.topk, p.m, p.ranks, p.pins
		} else {
			joined = &demand.Joiner{Layout: p.layout, K: p.topk, M: p.m, Ranks: p.ranks, Pins: p.pins}
		}
		if p.opt.Clusters != nil {
			joined.Group(p.opt.Clusters, s, p.meta.Candidates)
		}
		var err error
		if s, err = joined.Join(streams); err != nil {
			t.Fatal(err)
		}
	}
	spec, runner := b.runner(t, name)
	check := trace.NewChecker("test", p.meta)
	fatal.If(t, b.delta.Build(s, demand.Options{K: p.topk, M: p.m, Pins: p.pins, Meta: p.meta, Windows: p.warmup.Replayed(), Members: true, NextUses: true, Joined: joined, Outliers: p.opt.Outliers}, check))
	later := b.later
	if spec.Entry.Traits.Windowed {
		capacity, later = policies.Unbounded, nil
	}
	st := cache.Start{Capacity: capacity, Ranks: p.ranks, Placed: demand.Place(p.warmup, &b.delta, capacity, nil), Unit: p.layout.Unit(p.pins), Prefetch: b.prefetch, Staging: b.staging, Swap: b.swaps, NewPredictor: newPredictor, Later: later}
	if b.alone {
		counts, err := runner.Run(&b.delta, st, nil)
		fatal.If(t, err)
		return counts
	}
	checks, err := newRefereeChecks(p, spec.Name(), [][]*trace.Stream{pointers(streams)}, nil, st, nil)
	fatal.If(t, err)
	counts, err := runner.Run(&b.delta, st, checks[0].Observer(nil))
	if err == nil {
		err = checks[0].Verdict()
	}
	if err != nil {
		t.Fatalf("%s capacity %d warm-up %v K %d M %d pins %+v: %v", name, capacity, p.warmup, p.topk, p.m, p.pins, err)
	}
	return counts
}

// draws returns the number of streams that a test draws: n, or a tenth of it in short tests.
func draws(n uint64) uint64 {
	if testing.Short() {
		return n / 10
	}
	return n
}

var exactNames = []string{"lru", "fifo", "lfu", "lookahead", "window:1", "window:3", "none", "opt", "opt-bypass"}

// draw draws a stream, K, M and a warm-up.
func draw(r *rand.Rand, o replaytest.Options) (*trace.Stream, *plan) {
	s := replaytest.Stream(r, o)
	m := o.Meta(1 + r.IntN(max(o.M, 1)))
	mm := m.TopK
	if m.Order == trace.OrderRank {
		mm = m.TopK + r.IntN(m.Candidates-m.TopK+1)
	}
	w := setting.Warmup{Kind: setting.WarmupCold}
	switch n := s.Windows; r.IntN(5) {
	case 0, 1:
		if n > 0 {
			w = setting.Warmup{Kind: setting.WarmupRun, Windows: 1 + r.IntN(n)}
		}
	case 2:
		w = setting.Warmup{Kind: setting.WarmupStaging}
	case 3:
		if n > 0 && len(s.Scores) > 0 {
			w = setting.Warmup{Kind: setting.WarmupImportance, Windows: 1 + r.IntN(n)}
		}
	}
	return s, testPlan(&m, m.TopK, mm, w)
}

// The engine and the referee agree on every step of every policy, on streams with
// births, pins, blocks, gaps, short lists, ties, windows and overflow.
func TestEngineAgreesWithReferee(t *testing.T) {
	var b bench
	cells, overflow := 0, 0
	for seed := uint64(0); seed < draws(450); seed++ {
		r := rand.New(rand.NewPCG(seed, 11))
		o := replaytest.Medium(r)
		s, p := draw(r, o)
		for _, name := range exactNames {
			spec, _ := all.Table().Parse(name)
			if spec.Entry.Traits.Windowed && p.warmup.Kind != setting.WarmupRun && p.warmup.Kind != setting.WarmupCold || name == "lookahead" && !p.ranks {
				continue
			}
			for _, capacity := range []int{1 + r.IntN(p.topk+1), p.topk + r.IntN(3*p.topk)} {
				c := b.run(t, p, s, name, capacity)
				cells++
				if c.Overflow > 0 {
					overflow++
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if cells < int(draws(4000)) || overflow < int(draws(400)) {
		t.Errorf("%d cells, %d with overflow: the draw no longer covers what it should", cells, overflow)
	}
}

// OPT and opt-bypass miss exactly as much as the best choice of victims that exhaustive search
// finds, with windows, births and overflow. No policy misses less.
func TestOptimumIsExhaustive(t *testing.T) {
	var b bench
	for seed := uint64(0); seed < draws(2500); seed++ {
		r := rand.New(rand.NewPCG(seed, 12))
		s, p := draw(r, replaytest.Small(r))
		p.warmup = setting.Warmup{Kind: setting.WarmupCold}
		if s.Windows > 0 && seed%4 > 0 {
			p.warmup = setting.Warmup{Kind: setting.WarmupRun, Windows: 1 + r.IntN(s.Windows)}
		}
		capacity := 1 + r.IntN(p.topk+3)
		for _, bypass := range []bool{false, true} {
			name := map[bool]string{false: "opt", true: "opt-bypass"}[bypass]
			got := b.run(t, p, s, name, capacity)
			kind := referee.WarmCold
			if p.warmup.Kind == setting.WarmupRun {
				kind = referee.WarmRun
			}
			want, err := brute.MinMisses(s, p.ranks, referee.Config{Policy: name, TopK: p.topk, Candidates: p.m, Capacity: capacity,
				Warmup: referee.Warmup{Kind: kind, Windows: p.warmup.Windows}, Sink: p.pins.Sink, Local: p.pins.Local, BlockTokens: p.pins.BlockTokens}, bypass)
			fatal.If(t, err)
			if got.Misses != int64(want) {
				t.Fatalf("seed %d: %s misses %d, exhaustive search %d", seed, name, got.Misses, want)
			}
		}
	}
}

// No policy that keeps the demand misses less than OPT. OPT never misses less than opt-bypass.
func TestNoPolicyBeatsTheOptimum(t *testing.T) {
	var b bench
	for seed := uint64(0); seed < draws(150); seed++ {
		r := rand.New(rand.NewPCG(seed, 13))
		s, p := draw(r, replaytest.Medium(r))
		capacity := 1 + r.IntN(3*p.topk)
		opt := b.run(t, p, s, "opt", capacity).Misses
		if bypass := b.run(t, p, s, "opt-bypass", capacity).Misses; bypass > opt {
			t.Fatalf("seed %d: opt-bypass misses %d, opt %d", seed, bypass, opt)
		}
		for _, name := range []string{"lru", "fifo", "lfu", "lookahead"} {
			if name == "lookahead" && !p.ranks {
				continue
			}
			if got := b.run(t, p, s, name, capacity).Misses; got < opt {
				t.Fatalf("seed %d: %s misses %d, opt %d", seed, name, got, opt)
			}
		}
	}
}

// A policy with the stack property never misses more at a larger capacity.
func TestStackProperty(t *testing.T) {
	var b bench
	for seed := uint64(0); seed < draws(70); seed++ {
		r := rand.New(rand.NewPCG(seed, 14))
		s, p := draw(r, replaytest.Medium(r))
		for _, name := range []string{"lru", "opt", "opt-bypass"} {
			last := int64(1) << 60
			for c := 1; c < 4*p.topk; c += 1 + r.IntN(3) {
				got := b.run(t, p, s, name, c).Misses
				if got > last && c > p.topk {
					t.Fatalf("seed %d: %s misses %d at capacity %d, %d at a smaller one", seed, name, got, c, last)
				}
				last = got
			}
		}
	}
}
