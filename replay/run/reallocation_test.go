package run

import (
	"context"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/replay/referee/brute"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

func reallocation(t testing.TB, text string) allocate.Reallocation {
	t.Helper()
	r, err := allocate.ParseReallocation(text)
	fatal.If(t, err)
	if again, err := allocate.ParseReallocation(r.String()); err != nil || again.String() != r.String() {
		t.Fatalf("reallocation %q reads as %v, that as %v, %v", text, r, again, err)
	}
	return r
}

// uniformPlan gives 2 × K to every layer and head of the trace of manyStreams.
func uniformPlan(t testing.TB) *allocate.Plan {
	t.Helper()
	p := &allocate.Plan{Method: "uniform", Family: allocate.Capacities, Policy: "lru", Memory: "2x", Floor: 24, MemoryEntries: 8 * 48, UsedEntries: 8 * 48,
		Units: allocate.Units{TopK: 24, BlockTokens: 1, StepTokens: 1, SharedHeads: 1}}
	for layer := range int32(4) {
		for head := range int32(2) {
			p.Streams = append(p.Streams, allocate.Share{Key: allocate.Key{Layer: layer, Head: head}, Size: 48})
		}
	}
	return p
}

// The engine and the referee agree on budgets that change, with several policies, warm-ups and
// methods. The counts do not depend on the number of workers.
func TestReallocatedRunsAgreeWithReferee(t *testing.T) {
	f := manyStreams(t)
	for n, every := range []string{"4", "7:2d-exact", "16:layer"} {
		o := Options{Policies: specs(t, "lru", "lookahead", "opt", "opt-bypass")[n:], Allocation: uniformPlan(t), Reallocation: reallocation(t, every), Requests: []string{"a", "c"}[n/2:], Per: PerStream, Referee: true}
		o.Warmup = []setting.Warmup{{Kind: setting.WarmupRun, Windows: 8}, {Kind: setting.WarmupImportance, Windows: 3}, {Kind: setting.WarmupCold}}[n]
		want := mustRun(t, f, o)
		o.Referee, o.Workers = false, 3
		if got := mustRun(t, f, o); !reflect.DeepEqual(got, want) {
			t.Fatalf("every %s: three workers give other rows", every)
		}
		still := o
		still.Reallocation = allocate.Reallocation{}
		changed := false
		for i, row := range mustRun(t, f, still) {
			changed = changed || row.Misses != want[i].Misses
			if want[i].Reallocation != o.Reallocation.String() || *want[i].Capacity != "plan:uniform@2x/"+o.Reallocation.String() || want[i].CapacityEntries != nil && every == "4" && i < 8 {
				t.Fatalf("row %d: reallocation %q, capacity %s, %v entries", i, want[i].Reallocation, *want[i].Capacity, want[i].CapacityEntries)
			}
		}
		if !changed {
			t.Errorf("every %s: no count changes", every)
		}
	}
}

// Streams that are read again give the rows of streams that the request keeps, as recorded and in
// blocks of two tokens.
func TestStreamsReadAgain(t *testing.T) {
	defer func(most int) { keptIndices = most }(keptIndices)
	f, most := manyStreams(t), keptIndices
	one := f.Streams()[0].Rows * f.Meta().Candidates
	for _, tokens := range []int{1, 2} {
		o := Options{Policies: specs(t, "lru", "lookahead", "opt"), Allocation: uniformPlan(t), Reallocation: reallocation(t, "4"), Per: PerStream}
		if o.Shape.BlockTokens = tokens; tokens > 1 {
			o.Policies, o.Allocation.Units.BlockTokens = o.Policies[:1], tokens
		}
		keptIndices = most
		want := mustRun(t, f, o)
		for _, keptIndices = range []int{0, 3 * one} {
			if got := mustRun(t, f, o); !reflect.DeepEqual(got, want) {
				t.Errorf("blocks of %d tokens, %d indices kept: other rows", tokens, keptIndices)
			}
		}
	}
}

// A first interval after the last step changes nothing.
func TestReallocationAfterTheEnd(t *testing.T) {
	f := manyStreams(t)
	o := Options{Policies: specs(t, "lru", "opt"), Allocation: uniformPlan(t), Per: PerStream}
	still := mustRun(t, f, o)
	o.Reallocation = reallocation(t, "40")
	for i, row := range mustRun(t, f, o) {
		if row.Misses != still[i].Misses || row.Evictions != still[i].Evictions || *row.CapacityEntries != 48 {
			t.Errorf("row %d differs", i)
		}
	}
}

// The budgets of a request always add up to the same number of blocks. No budget is below the floor.
func TestMemoryStaysConstant(t *testing.T) {
	for seed := uint64(0); seed < 200; seed++ {
		r := rand.New(rand.NewPCG(seed, 131))
		unit, floor := 1+r.IntN(4), 0
		sizes := []int{}
		for size := unit * (1 + r.IntN(8)); len(sizes) < 2+r.IntN(6); size += unit * (1 + r.IntN(5)) {
			sizes = append(sizes, size)
		}
		floor = sizes[0]
		var streams []observed
		var initial []int
		memory := 0
		for layer := range int32(1 + r.IntN(5)) {
			s := observed{key: allocate.Key{Layer: layer, Head: trace.NoHead}, misses: map[int][]int64{}, last: 20}
			for interval := range 5 {
				if r.IntN(4) == 0 {
					continue
				}
				misses, n := make([]int64, len(sizes)), int64(100)
				for j := range misses {
					n = max(0, n-int64(r.IntN(40)))
					misses[j] = n
				}
				s.misses[interval] = misses
			}
			streams = append(streams, s)
			initial = append(initial, floor+unit*r.IntN(20))
			memory += initial[len(initial)-1]
		}
		later, err := reallocate(reallocation(t, "4"), streams, initial, sizes, unit)
		if err != nil {
			t.Fatal(seed, err)
		}
		for n := range later[0] {
			sum := 0
			for i := range later {
				if later[i][n].Step != later[0][n].Step || later[i][n].Capacity*unit < floor {
					t.Fatalf("seed %d: stream %d has %+v, the first %+v, floor %d", seed, i, later[i][n], later[0][n], floor)
				}
				sum += later[i][n].Capacity * unit
			}
			if sum > memory || sum <= memory-unit {
				t.Fatalf("seed %d: %d entries of %d at step %d", seed, sum, memory, later[0][n].Step)
			}
		}
	}
}

// changing draws a capacity and later capacities, larger or smaller.
func changing(r *rand.Rand, most, steps int) (capacity int, later []cache.CapacityAt, config []referee.Growth) {
	at := int32(0)
	for range 1 + r.IntN(4) {
		at += 1 + int32(r.IntN(1+steps/3))
		size := 1 + r.IntN(most)
		later, config = append(later, cache.CapacityAt{Step: at, Capacity: size}), append(config, referee.Growth{From: at, Capacity: size})
	}
	return 1 + r.IntN(most), later, config
}

// The engine and the referee agree on capacities that shrink and grow, with every policy and shape.
// OPT is optimal: exhaustive search finds no fewer misses.
func TestChangingCapacities(t *testing.T) {
	var b bench
	onShapes(t, draws(200), 132, func(r *rand.Rand, p *plan, streams []trace.Stream, name string) {
		var capacity int
		capacity, b.later, _ = changing(r, 3*p.topk, streams[0].Rows)
		b.runShared(t, p, streams, name, capacity)
	})
	for seed := uint64(0); seed < draws(800); seed++ {
		r := rand.New(rand.NewPCG(seed, 133))
		s, p := draw(r, replaytest.Small(r))
		p.warmup = setting.Warmup{Kind: setting.WarmupCold}
		var c referee.Config
		c.Capacity, b.later, c.Growth = changing(r, p.topk+3, s.Rows)
		for name, bypass := range map[string]bool{"opt": false, "opt-bypass": true} {
			got := b.run(t, p, s, name, c.Capacity)
			c.Policy, c.TopK, c.Candidates, c.Sink, c.Local, c.BlockTokens = name, p.topk, p.m, p.pins.Sink, p.pins.Local, p.pins.BlockTokens
			want, err := brute.MinMisses(s, p.ranks, c, bypass)
			fatal.If(t, err)
			if got.Misses != int64(want) {
				t.Fatalf("seed %d: %s misses %d, exhaustive search %d", seed, name, got.Misses, want)
			}
		}
	}
}

// The engine and the referee observe the same misses per interval, on every kind of stream.
func TestObservedAgreesWithReferee(t *testing.T) {
	w := cache.NewStackCounter()
	for seed := uint64(0); seed < draws(400); seed++ {
		r := rand.New(rand.NewPCG(seed, 134))
		s, p := draw(r, replaytest.Medium(r))
		if p.warmup.Kind != setting.WarmupRun {
			p.warmup = setting.Warmup{Kind: setting.WarmupCold}
		}
		var d demand.Delta
		fatal.If(t, d.Build(s, p.deltaOptions(nil), trace.NewChecker("test", p.meta)))
		sizes, every := []int{1, p.topk + 1, p.topk + 3, 2*p.topk + 5, 5*p.topk + 5}, 1+r.IntN(s.Rows)
		got, err := w.Misses(&d, every, inBlocks(sizes, 1))
		fatal.If(t, err)
		c := referee.Config{Policy: "lru", TopK: p.topk, Candidates: p.m, Capacity: 1, Sink: p.pins.Sink, Local: p.pins.Local, BlockTokens: p.pins.BlockTokens}
		if p.warmup.Kind == setting.WarmupRun {
			c.Warmup = referee.Warmup{Kind: referee.WarmRun, Windows: p.warmup.Windows}
		}
		want, err := referee.Observed([]*trace.Stream{s}, p.ranks, c, every, sizes)
		fatal.If(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: observed %v, the referee %v", seed, got, want)
		}
	}
}

// Invalid reallocations are errors.
func TestReallocationErrors(t *testing.T) {
	for text, want := range map[string]string{"0": "expected decode steps, at least 1", "x": "expected decode steps, at least 1", "-3": "expected decode steps", "8:2d-gredy": "did you mean 2d-greedy"} {
		if _, err := allocate.ParseReallocation(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
	f := manyStreams(t)
	windows := uniformPlan(t)
	windows.Family = allocate.Windows
	for want, o := range map[string]Options{
		"expected an initial plan":    {Policies: specs(t, "lru"), Capacities: capacities(t, "2x")},
		"sets windows, expected":      {Policies: specs(t, "window:1"), Allocation: windows},
		"built for one capacity":      {Policies: specs(t, "arc"), Allocation: uniformPlan(t)},
		"divides memory among layers": {Policies: specs(t, "lru"), Allocation: uniformPlan(t), Pool: setting.PoolRequest},
	} {
		o.Reallocation = reallocation(t, "8")
		if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}
