package replay

import (
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// drawPool draws streams of one request that share a cache, each perhaps of several heads,
// and how their rows are joined.
func drawPool(r *rand.Rand, o replaytest.Options) ([]*member, *plan) {
	o.Gap = 0 // recorded at the same steps
	if r.IntN(3) > 0 {
		o.BlockTokens = 1
	}
	_, p := draw(r, o)
	if r.IntN(2) == 0 {
		p.layout = layout{factor: 1 + r.IntN(3), heads: 1 + r.IntN(2), mtp: 1 + r.IntN(3)}
		p.pins.BlockTokens *= p.layout.factor
	}
	var members []*member
	for layer := range 2 + r.IntN(3) {
		m := &member{}
		for head := range p.layout.heads {
			s := replaytest.Stream(r, o)
			s.Key = trace.Key{Request: "r", Layer: int32(layer), Head: int32(head)}
			m.recorded = append(m.recorded, *s)
		}
		if !p.layout.plain() {
			m.joiner = &joiner{layout: p.layout, k: p.topk, m: p.m, ranks: p.ranks}
		}
		members = append(members, m)
	}
	return members, p
}

// pooled is a worker whose pool are the members.
func pooled(t *testing.T, p *plan, members []*member, needs policies.Needs) *worker {
	t.Helper()
	p.opt.Pool, p.needs = PoolRequest, needs
	w := &worker{plan: p, check: trace.NewChecker("test", p.meta), cache: cache{0, len(members)}, pool: pool{members: members}}
	for _, m := range members {
		stream := &m.recorded[0]
		if m.joiner != nil {
			if err := m.joiner.join(m.recorded, p.pins.BlockTokens); err != nil {
				t.Fatal(err)
			}
			stream = &m.joiner.out
		}
		if err := w.buildMember(m, stream); err != nil {
			t.Fatal(err)
		}
	}
	w.delta.buildPool(&w.pool, p.deltaOptions(nil))
	return w
}

// runPool replays a cell on a pool and holds every step of every stream against the
// referee; the counts are the streams'.
func (b *bench) runPool(t *testing.T, w *worker, name string, capacity int) []Counts {
	t.Helper()
	p := w.plan
	spec, err := all.Table().Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	if b.runners == nil {
		b.runners = map[string]*cell{}
	}
	if b.runners[name] == nil {
		b.runners[name] = newCell(spec.Make())
	}
	later := b.later
	if spec.Entry.Traits.Windowed {
		capacity, later = policies.Unbounded, nil
	}
	st := start{capacity: capacity, later: later, ranks: p.ranks, unit: p.layout.unit(p.pins), placed: w.placed(capacity)}
	judges, err := newRefereeChecks(p, name, w.recorded(), w.ahead.over(), st, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := b.runners[name]
	_, err = c.run(&w.delta, st, judges[0].watch(nil))
	if err == nil {
		err = judges[0].verdict()
	}
	if err != nil {
		t.Fatalf("%s capacity %d warm-up %v K %d M %d pins %+v layout %+v %d streams: %v", name, capacity, p.warmup, p.topk, p.m, p.pins, p.layout, len(w.pool.members), err)
	}
	return c.shares.counts
}

// Pools of streams, joined to blocks, over heads and positions or not, with every warm-up,
// births, pins, overflow and growth, are replayed as the referee replays them.
func TestPoolsAgreeWithReferee(t *testing.T) {
	var b bench
	cells := 0
	for seed := uint64(0); seed < draws(600); seed++ {
		r := rand.New(rand.NewPCG(seed, 121))
		members, p := drawPool(r, replaytest.Medium(r))
		w := pooled(t, p, members, ^policies.Needs(0))
		b.later = nil
		if seed%3 == 0 {
			_, b.later, _ = growing(r, 1+r.IntN(2*p.topk*len(members)), members[0].recorded[0].Rows)
		}
		for _, name := range names {
			spec, _ := all.Table().Parse(name)
			if p.unable(spec, policies.NeedsOf(spec.Make())) != "" {
				continue
			}
			capacity := 1 + r.IntN(2*p.topk*len(members))
			if len(b.later) > 0 {
				capacity = max(1, b.later[0].blocks-1)
			}
			b.runPool(t, w, name, capacity)
			if cells++; t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
	if cells < int(draws(3500)) {
		t.Errorf("%d cells, expected thousands", cells)
	}
}

// A window keeps in a pool what it keeps stream by stream: its steps are decode steps.
func TestPooledWindowsAreTheStreamsWindows(t *testing.T) {
	f := manyStreams(t)
	o := Options{Policies: specs(t, "window:1", "window:3", "none"), Per: PerStream}
	alone := mustRun(t, f, o)
	o.Pool = PoolRequest
	for i, row := range mustRun(t, f, o) {
		if row.Misses != alone[i].Misses || row.Demand != alone[i].Demand || row.Births != alone[i].Births {
			t.Errorf("%s on %v: %d misses of %d in the pool, %d of %d alone", row.Policy, *row.LayerID, row.Misses, row.Demand, alone[i].Misses, alone[i].Demand)
		}
	}
}
