package run

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/window"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// sweeper compares sweeps with single runs. It reuses its memory for all streams.
type sweeper struct {
	delta   demand.Delta
	lru     *cache.Cell
	windows map[int]*cache.Cell
	all     cache.Sweep // capacities
	ages    cache.Sweep // windows
}

func newSweeper() *sweeper {
	return &sweeper{lru: cache.NewCell(new(lru.Policy)), windows: map[int]*cache.Cell{},
		all: *cache.NewSweep(new(lru.Policy)), ages: *cache.NewSweep(&window.Policy{Steps: 1})}
}

// check compares every count at all of sizes. It returns the number of cells that it compared.
func (w *sweeper) check(t *testing.T, what string, pass *cache.Sweep, sizes []int32, single func(size int) (*cache.Cell, cache.Start)) int {
	t.Helper()
	got, err := pass.Run(&w.delta, sizes, cache.Start{Unit: 3})
	fatal.If(t, err)
	for i, size := range sizes {
		c, st := single(int(size))
		want, err := c.Run(&w.delta, st, nil)
		fatal.If(t, err)
		if got[i] != want {
			t.Fatalf("%s at %d of sizes %v: sweep %+v, single run %+v", what, size, sizes, got[i], want)
		}
	}
	return len(sizes)
}

// stream compares the capacities without overflow, and the windows, of a stream. It takes about most
// of each. It returns the number of cells that it compared.
func (w *sweeper) stream(t *testing.T, r *rand.Rand, p *plan, s *trace.Stream, most int) int {
	t.Helper()
	o := demand.Options{K: p.topk, M: p.m, Pins: p.pins, Meta: p.meta, Windows: p.warmup.Replayed()}
	fatal.If(t, w.delta.Build(s, o, trace.NewChecker("test", p.meta)))
	n := w.check(t, "lru", &w.all, sizesBetween(r, max(1, w.delta.MaxDemand), w.delta.Blocks+3, most), func(size int) (*cache.Cell, cache.Start) {
		return w.lru, cache.Start{Capacity: size, Ranks: p.ranks, Unit: 3}
	})
	return n + w.check(t, "window", &w.ages, sizesBetween(r, 1, w.delta.Rows+3, most), func(size int) (*cache.Cell, cache.Start) {
		if w.windows[size] == nil {
			w.windows[size] = cache.NewCell(&window.Policy{Steps: size})
		}
		return w.windows[size], cache.Start{Capacity: policies.Unbounded, Ranks: p.ranks, Unit: 3}
	})
}

// sizesBetween returns all sizes from first to last. If they are more than most, it returns both ends
// and about most sizes in between.
func sizesBetween(r *rand.Rand, first, last, most int) (sizes []int32) {
	for n := first; n <= last; n++ {
		if last-first < most || n == first || n == last || r.IntN(last-first+1) < most {
			sizes = append(sizes, int32(n))
		}
	}
	return sizes
}

// A sweep gives the same counts as a single run at every capacity and every window. The streams have
// births, pins, blocks, gaps, short and empty demands, and prompt windows.
func TestSweepAgreesWithSingleRuns(t *testing.T) {
	w := newSweeper()
	cells, born := 0, int64(0)
	for seed := uint64(0); seed < draws(4000); seed++ {
		r := rand.New(rand.NewPCG(seed, 41))
		s, p := draw(r, replaytest.Medium(r))
		cells += w.stream(t, r, p, s, 1000)
		var c demand.Change
		for i := range w.delta.Rows {
			w.delta.Change(i, &c)
			for _, x := range c.Born {
				if _, at := slices.BinarySearch(c.Enter, x); at {
					born++
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if cells < int(draws(50000)) || born < int64(draws(100)) {
		t.Errorf("%d cells, %d blocks demanded at birth: the draw no longer covers what it should", cells, born)
	}
}

// Long streams over few blocks make the queue of LRU compact its memory often.
func TestSweepOfLongStreams(t *testing.T) {
	w := newSweeper()
	for seed := uint64(0); seed < 20; seed++ {
		r := rand.New(rand.NewPCG(seed, 42))
		const m, rows = 24, 600
		s := replaytest.Overlapping(seed, rows+100+r.IntN(200), m-r.IntN(8), m, rows, r.Float64())
		meta := &trace.Meta{Version: 1, Order: trace.OrderRank, TopK: 16, Candidates: m, BlockTokens: 1}
		w.stream(t, r, testPlan(meta, 16, m, setting.Warmup{Kind: setting.WarmupCold}), s, 40)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// bundled returns the paths of the real traces in the repository.
func bundled(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("../../datasets/bundled/*.parquet")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no bundled traces: %v", err)
	}
	return paths
}

// Rows of real traces are the same with and without sweeps, with every warm-up. Some capacities
// overflow, differ by stream, or are the peak of a window.
func TestRowsOfSweeps(t *testing.T) {
	grid, err := setting.ParseCapacities([]string{"sweep:24", "0.25x", "0.9x", "0.1ctx", "700", "8MiB", "64x"})
	fatal.If(t, err)
	paths := bundled(t)
	if testing.Short() {
		paths = paths[:1]
	}
	for n, path := range paths {
		f, err := trace.Open(path)
		fatal.If(t, err)
		defer f.Close()
		for k, warmup := range []string{"auto", "cold", "staging", "importance:8"} {
			if n > 0 && (n+k)%2 > 0 {
				continue // the first trace runs all cases, every other trace half of them
			}
			if warmup == "importance:8" && !f.HasScores() {
				continue
			}
			w, err := setting.ParseWarmup(warmup)
			fatal.If(t, err)
			o := Options{Policies: specs(t, "window:5", "lru", "fifo", "window:1", "window:2", "none", "window:3", "window:40"),
				Capacities: grid, Warmup: w, Per: PerStream, SkipUnable: true, Workers: 2}
			got, err := Run(context.Background(), f, o)
			fatal.If(t, err)
			o.oneByOne = true
			want, err := Run(context.Background(), f, o)
			fatal.If(t, err)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, warm-up %s: rows differ", path, warmup)
			}
		}
	}
}

// partial is a policy that embeds LRU.
type partial struct{ lru.Policy }

// A policy that embeds a Sweeper does not inherit its answers.
func TestSweepsAreNotInherited(t *testing.T) {
	if policies.SweepOf(new(partial)) != nil {
		t.Error("a policy that embeds lru sweeps, expected that it does not")
	}
	if policies.SweepOf(new(lru.Policy)) == nil || policies.SweepOf(&window.Policy{Steps: 2}) == nil {
		t.Error("lru and window do not sweep")
	}
}

// Groups hold the cells of one policy, or all windows. If a mechanism does not work with sweeps,
// every group is one cell.
func TestGroups(t *testing.T) {
	f, err := trace.Open(realTrace)
	fatal.If(t, err)
	defer f.Close()
	for _, c := range []struct {
		o    Options
		want []int // cells of each group
	}{
		{Options{}, []int{2, 1, 2 + 2, 1, 1}}, // windows, none, lru with their peaks, fifo
		{Options{Referee: true}, slices.Repeat([]int{1}, 2+1+2+2+2)},
	} {
		c.o.Policies, c.o.Capacities = specs(t, "lru", "window:2", "none", "fifo", "window:7"), capacities(t, "1x", "2x")
		p, err := newPlan(f, &c.o)
		fatal.If(t, err)
		w := newWorker(p)
		defer w.close()
		var got []int
		for _, g := range w.groups {
			got = append(got, len(g.cells))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("referee %v: groups of %v cells, want %v", c.o.Referee, got, c.want)
		}
	}
}
