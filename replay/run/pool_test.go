package run

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// drawPool draws streams of one request that share a cache, and a layout. A stream may have several
// heads.
func drawPool(r *rand.Rand, o replaytest.Options) ([]*member, *plan) {
	o.Gap = 0 // all streams have the same steps
	if r.IntN(3) > 0 {
		o.BlockTokens = 1
	}
	_, p := draw(r, o)
	if r.IntN(2) == 0 {
		p.layout = demand.Layout{Factor: 1 + r.IntN(3), Heads: 1 + r.IntN(2), Positions: 1 + r.IntN(3)}
		p.pins.BlockTokens *= p.layout.Factor
	}
	var members []*member
	for layer := range 2 + r.IntN(3) {
		m := &member{}
		for head := range p.layout.Heads {
			s := replaytest.Stream(r, o)
			s.Key = trace.Key{Request: "r", Layer: int32(layer), Head: int32(head)}
			m.recorded = append(m.recorded, *s)
		}
		if !p.layout.Plain() {
			m.joiner = &demand.Joiner{Layout: p.layout, K: p.topk, M: p.m, Ranks: p.ranks, Pins: p.pins}
		}
		members = append(members, m)
	}
	return members, p
}

// pooled returns a worker with a pool of the members. If followed, policies may follow each stream.
func pooled(t *testing.T, p *plan, members []*member, needs policies.Needs, followed bool) *worker {
	t.Helper()
	p.opt.Pool, p.needs = setting.PoolRequest, needs
	w := &worker{plan: p, check: trace.NewChecker("test", p.meta), cache: span{0, len(members)}, members: members}
	w.pool.Grow(len(members))
	for n, m := range members {
		stream := &m.recorded[0]
		if m.joiner != nil {
			var err error
			if stream, err = m.joiner.Join(m.recorded); err != nil {
				t.Fatal(err)
			}
		}
		o := p.deltaOptions(m.joiner)
		o.Followed = followed
		fatal.If(t, w.pool.Add(n, stream, o, w.check))
	}
	w.pool.Build()
	return w
}

// runPool replays a cell on a pool and compares every step of every stream with the referee. It
// returns the counts of each stream.
func (b *bench) runPool(t *testing.T, w *worker, name string, capacity int) []cache.Counts {
	t.Helper()
	p := w.plan
	spec, c := b.runner(t, name)
	later := b.later
	if spec.Entry.Traits.Windowed {
		capacity, later = policies.Unbounded, nil
	}
	st := cache.Start{Capacity: capacity, Later: later, Ranks: p.ranks, Unit: p.layout.Unit(p.pins), Placed: w.placed(capacity)}
	checks, err := newRefereeChecks(p, name, w.recorded(), w.request.importanceStreams(), st, nil)
	fatal.If(t, err)
	_, err = c.Run(&w.pool, st, checks[0].Observer(nil))
	if err == nil {
		err = checks[0].Verdict()
	}
	if err != nil {
		t.Fatalf("%s capacity %d warm-up %v K %d M %d pins %+v layout %+v %d streams: %v", name, capacity, p.warmup, p.topk, p.m, p.pins, p.layout, len(w.members), err)
	}
	return c.Counts()
}

// The engine and the referee agree on pools. The cases cover joined blocks, heads and positions,
// every warm-up, births, pins, overflow and growth.
func TestPoolsAgreeWithReferee(t *testing.T) {
	var b bench
	cells := 0
	for seed := uint64(0); seed < draws(150); seed++ {
		r := rand.New(rand.NewPCG(seed, 121))
		members, p := drawPool(r, replaytest.Medium(r))
		w := pooled(t, p, members, ^policies.Needs(0), seed%2 == 0)
		b.later = nil
		if seed%3 == 0 {
			_, b.later, _ = growing(r, 1+r.IntN(2*p.topk*len(members)), members[0].recorded[0].Rows)
		}
		for _, name := range exactNames {
			spec, _ := all.Table().Parse(name)
			if p.whyUnfit(spec, policies.NeedsOf(spec.Make())) != "" {
				continue
			}
			capacity := 1 + r.IntN(2*p.topk*len(members))
			if len(b.later) > 0 {
				capacity = max(1, b.later[0].Capacity-1)
			}
			b.runPool(t, w, name, capacity)
			if cells++; t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
	if cells < int(draws(800)) {
		t.Errorf("%d cells, expected thousands", cells)
	}
}

// A Follower reports the same steps whether it follows a pool or not. The cases cover joined blocks,
// heads and positions, every warm-up, births, pins and capacities that change.
func TestFollowedPools(t *testing.T) {
	followed := map[string]int{}
	for seed := uint64(0); seed < draws(400); seed++ {
		r := rand.New(rand.NewPCG(seed, 122))
		members, p := drawPool(r, replaytest.Medium(r))
		for _, name := range []string{"lru", "lookahead", "opt", "window:1", "window:2"} {
			if spec := specs(t, name)[0]; p.whyUnfit(spec, policies.NeedsOf(spec.Make())) != "" {
				continue
			}
			w := pooled(t, p, members, 0, false)
			latest := w.pool.Latest(policies.NeedsOf(specs(t, name)[0].Make()))
			st := cache.Start{Capacity: max(1, latest+r.IntN(20)-5), Ranks: p.ranks, Unit: p.layout.Unit(p.pins)}
			more := []cache.CapacityAt{{Step: 3, Capacity: st.Capacity + r.IntN(9)}, {Step: 9, Capacity: st.Capacity}}
			st.Later = more[:r.IntN(3)]
			if specs(t, name)[0].Entry.Traits.Windowed {
				st.Capacity, st.Later = policies.Unbounded, nil
			}
			st.Placed = w.placed(st.Capacity)
			want, _ := poolReports(t, w, name, st)
			got, scope := poolReports(t, pooled(t, p, members, 0, true), name, st)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("seed %d, %s at capacity %d, report %d: %s followed, %s whole", seed, name, st.Capacity, i, got[i], want[i])
				}
			}
			if scope.Followed {
				followed[name]++
			}
		}
	}
	for _, name := range []string{"lru", "lookahead", "opt", "window:1", "window:2"} {
		if followed[name] < int(draws(200)) {
			t.Errorf("%s followed %d pools, expected most", name, followed[name])
		}
	}
}

// A Tracker reports the same steps whether it tracks a pool or not, if the capacity lacks up to half of a
// demand. The cases are those of TestFollowedPools.
func TestTrackedPools(t *testing.T) {
	tracked := 0
	for seed := uint64(0); seed < draws(1000); seed++ {
		r := rand.New(rand.NewPCG(seed, 123))
		members, p := drawPool(r, replaytest.Medium(r))
		w := pooled(t, p, members, 0, false)
		half := w.pool.MaxDemand / 2
		st := cache.Start{Capacity: w.pool.Latest(0) - 1 - r.IntN(max(1, half)), Ranks: p.ranks, Unit: p.layout.Unit(p.pins)}
		if st.Capacity < max(1, w.pool.MaxDemand) {
			continue
		}
		more := []cache.CapacityAt{{Step: 3, Capacity: st.Capacity + r.IntN(9)}, {Step: 9, Capacity: st.Capacity}}
		st.Later = more[:r.IntN(3)]
		st.Placed = w.placed(st.Capacity)
		want, _ := poolReports(t, w, "lru", st)
		got, scope := poolReports(t, pooled(t, p, members, 0, true), "lru", st)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("seed %d, capacity %d, report %d: %s tracked, %s whole", seed, st.Capacity, i, got[i], want[i])
			}
		}
		if scope.Tracked {
			tracked++
		}
	}
	if tracked < int(draws(500)) {
		t.Errorf("tracked %d pools, expected most", tracked)
	}
}

// scoped is a policy that keeps its Scope.
type scoped struct {
	policies.Policy
	policies.Scope
}

func (s *scoped) Reset(sc *policies.Scope) error {
	s.Scope = *sc
	return s.Policy.Reset(sc)
}

func (s *scoped) Needs() policies.Needs        { return policies.NeedsOf(s.Policy) }
func (s *scoped) Follows(policies.Policy) bool { return policies.Follows(s.Policy) }
func (s *scoped) Tracks(policies.Policy) bool  { return policies.Tracks(s.Policy) }

// poolReports returns the reports of a policy on the pool of w, and at last its counts.
func poolReports(t *testing.T, w *worker, name string, st cache.Start) (reports []string, _ policies.Scope) {
	t.Helper()
	policy := &scoped{Policy: specs(t, name)[0].Make()}
	cell := cache.NewCell(policy)
	if _, err := cell.Run(&w.pool, st, func(s *cache.StepReport) { reports = append(reports, fmt.Sprintf("%+v", *s)) }); err != nil {
		t.Fatal(err)
	}
	return append(reports, fmt.Sprintf("%+v, peak %d", cell.Counts(), cell.Peak())), policy.Scope
}

// window:N keeps the same blocks in a pool as stream by stream, because its steps are decode steps.
func TestPooledWindowsAreTheStreamsWindows(t *testing.T) {
	f := manyStreams(t)
	o := Options{Policies: specs(t, "window:1", "window:3", "none"), Per: PerStream}
	alone := mustRun(t, f, o)
	o.Pool = setting.PoolRequest
	for i, row := range mustRun(t, f, o) {
		if row.Misses != alone[i].Misses || row.Demand != alone[i].Demand || row.Births != alone[i].Births {
			t.Errorf("%s on %v: %d misses of %d in the pool, %d of %d alone", row.Policy, *row.LayerID, row.Misses, row.Demand, alone[i].Misses, alone[i].Demand)
		}
	}
}

// The engine and the referee agree on runs with pools of requests and of layers. The runs have
// tiers, shapes, growth and every warm-up. Rows do not depend on the number of workers.
func TestRunOfPools(t *testing.T) {
	f := manyStreams(t)
	for n, pool := range []setting.Pool{setting.PoolRequest, setting.PoolLayer} {
		for _, w := range []string{"lru:8", "importance:4", "importance:3,scope=request", "staging"} {
			warmup, err := setting.ParseWarmup(w)
			fatal.If(t, err)
			o := Options{Policies: specs(t, "lru", "lookahead", "opt-bypass"), Capacities: capacities(t, "1x", "1x+2x@9")[n:], Warmup: warmup, Pool: pool,
				Layers: []int32{0, 3}, Requests: []string{"a"}, Per: PerStream, Referee: true}
			if testing.Short() {
				o.Policies = o.Policies[1:2]
			}
			switch {
			case w == "lru:8" && n == 0:
				o.Tiers = tiers(t, "dram=lru@1x", "cxl=fifo@1x")
			case w == "lru:8":
				o.Tiers, o.Inclusive = tiers(t, "dram=lookahead@2x"), true
			case w == "importance:4" && n == 0:
				o.Shape = setting.Shape{BlockTokens: 4, ShareHeads: true, StepTokens: 2}
			case w == "importance:4":
				o.Tiers = tiers(t, "dram=lfu@1x")
			}
			want := mustRun(t, f, o)
			o.Referee, o.Workers = false, 3
			if got := mustRun(t, f, o); !reflect.DeepEqual(got, want) {
				t.Fatalf("pool %s, warm-up %s: three workers give other rows", pool, w)
			}
			checkPooled(t, pool, want)
		}
	}
}

// checkPooled checks the pool, the capacity and the pinned entries that rows state.
func checkPooled(t *testing.T, pool setting.Pool, rows []result.Row) {
	t.Helper()
	for _, r := range rows {
		if r.Pool != string(pool) || r.Tier == 0 && *r.CapacityEntries != map[string]int64{"1x": 24, "1x+2x@9": 48}[*r.Capacity] || r.Tier > 0 && *r.CapacityEntries > 48 {
			t.Fatalf("%s: pool %q, %s is %d entries", r.Policy, r.Pool, *r.Capacity, *r.CapacityEntries)
		}
		if (r.Tier == 0) != (r.PinnedPeakEntries > 0) {
			t.Fatalf("%s, tier %d: %d entries are pinned, which only the GPU's caches have", r.Policy, r.Tier, r.PinnedPeakEntries)
		}
		if r.Tier == 0 && (r.Demand == 0 || r.Steps != 40/int64(r.StepTokens)) {
			t.Fatalf("%s: %d steps, demand %d", r.Policy, r.Steps, r.Demand)
		}
	}
}

// OPT on a pool misses no more than OPT on separate caches with the same total capacity. A pool that
// holds all blocks misses as much as the separate caches.
func TestPoolsBeatTheirParts(t *testing.T) {
	f := manyStreams(t)
	for _, capacity := range []string{"1x", "2x", "100x"} {
		o := Options{Policies: specs(t, "opt", "lru"), Capacities: capacities(t, capacity), Per: PerRequest}
		alone := mustRun(t, f, o)
		o.Pool = setting.PoolRequest
		for i, row := range mustRun(t, f, o) {
			if row.Policy == "opt" && row.Misses > alone[i].Misses || capacity == "100x" && row.Misses != alone[i].Misses || row.Demand != alone[i].Demand {
				t.Errorf("%s at %s: %d misses of %d, alone %d of %d", row.Policy, capacity, row.Misses, row.Demand, alone[i].Misses, alone[i].Demand)
			}
		}
	}
}

// The store returns finished cells of pools, and a profile has a row for every stream and step.
func TestPoolsAreKeptAndProfiled(t *testing.T) {
	f := manyStreams(t)
	store, err := OpenStore(t.TempDir())
	fatal.If(t, err)
	o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Pool: setting.PoolRequest, Per: PerStream, Store: store}
	want := mustRun(t, f, o)
	again, err := Run(context.Background(), f, o)
	if err != nil || again.FromStore != 1 || !reflect.DeepEqual(again.Rows, want) {
		t.Errorf("%d cells from the store, %v", again.FromStore, err)
	}
	o.Pool = setting.PoolNone
	if other, err := Run(context.Background(), f, o); err != nil || other.FromStore != 0 {
		t.Errorf("a pool's cell is taken for that of streams: %v", err)
	}
	o.Pool, o.Store = setting.PoolRequest, nil
	path := filepath.Join(t.TempDir(), "profile.parquet")
	if o.Profile, err = CreateProfile(path, true); err != nil {
		t.Fatal(err)
	}
	mustRun(t, f, o)
	fatal.If(t, o.Profile.Close())
	rows, err := parquet.ReadFile[ProfileRow](path)
	fatal.If(t, err)
	byStream := map[string]int64{}
	for _, r := range rows {
		byStream[fmt.Sprint(r.RequestID, r.LayerID, *r.Head)] += int64(r.Misses)
		for _, b := range r.MissedIndices {
			if b < 0 || b > r.SeqLen {
				t.Fatalf("%s layer %d misses block %d of %d", r.RequestID, r.LayerID, b, r.SeqLen)
			}
		}
	}
	for _, r := range want {
		if got := byStream[fmt.Sprint(*r.RequestID, *r.LayerID, *r.Head)]; got != r.Misses {
			t.Errorf("%s layer %d head %d: %d misses in the profile, %d in the row", *r.RequestID, *r.LayerID, *r.Head, got, r.Misses)
		}
	}
}

// Options in steps count decode steps in a pool. A half-life of H steps in a pool has the same
// effect as H × streams steps on one stream with the pool's rows.
func TestStepsOfAPoolAreDecodeSteps(t *testing.T) {
	const streams, rows, blocks = 3, 60, 40
	meta := &trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: 6, Candidates: 6, BlockTokens: 1000} // no births
	r := rand.New(rand.NewPCG(5, 141))
	var members []*member
	flat := trace.Stream{}
	flat.Reset(trace.StreamInfo{PromptLen: streams*blocks*1000 + 20})
	for range streams {
		s := trace.Stream{}
		s.Reset(trace.StreamInfo{PromptLen: blocks*1000 - rows})
		members = append(members, &member{recorded: []trace.Stream{s}})
	}
	for step := range int32(rows) {
		for n, m := range members {
			var list, raised []int32
			for _, b := range r.Perm(12 + int(step)/4)[:6] {
				list, raised = append(list, int32(b)), append(raised, int32(n*blocks+b))
			}
			m.recorded[0].Append(trace.Row{Step: step, Indices: list})
			flat.Append(trace.Row{Step: step*streams + int32(n), Indices: raised})
		}
	}
	p := testPlan(meta, 6, 6, setting.Warmup{Kind: setting.WarmupCold})
	w := pooled(t, p, members, 0, true)
	for _, c := range [][2]string{{"lfu-decay:half_life=4", "lfu-decay:half_life=12"}, {"window:2", "window:6"}, {"lru", "lru"}, {"arc", "arc"}, {"s3-fifo", "s3-fifo"}} {
		capacity := 30
		if c[0] == "window:2" {
			capacity = policies.Unbounded
		}
		cell := cache.NewCell(specs(t, c[0])[0].Make())
		if _, err := cell.Run(&w.pool, cache.Start{Capacity: capacity, Ranks: true, Unit: 1}, nil); err != nil {
			t.Fatal(err)
		}
		got := cache.Counts{}
		for i := range cell.Counts() {
			got.Add(&cell.Counts()[i])
		}
		var e Engine
		want, err := e.RunStream(&flat, meta, specs(t, c[1])[0].Make(), StreamOptions{Capacity: capacity})
		fatal.If(t, err)
		if got.Misses != want.Misses || got.Evictions != want.Evictions || got.Demand != want.Demand {
			t.Errorf("%s misses %d and evicts %d in a pool; %s misses %d and evicts %d on its rows", c[0], got.Misses, got.Evictions, c[1], want.Misses, want.Evictions)
		}
	}
}

// Invalid pools are errors.
func TestPoolErrors(t *testing.T) {
	if _, err := setting.ParsePool("requets"); err == nil || !strings.Contains(err.Error(), "did you mean request") {
		t.Error(err)
	}
	many := manyStreams(t)
	shared, err := trace.Open(realTrace)
	fatal.If(t, err)
	defer shared.Close()
	for want, c := range map[string]struct {
		f *trace.File
		o Options
	}{
		"only stream of its request": {shared, Options{Pool: setting.PoolRequest, Layers: []int32{0}}},
		"only stream of its layer":   {shared, Options{Pool: setting.PoolLayer}},
		"prefetcher serves one":      {many, Options{Pool: setting.PoolRequest, Prefetch: setting.Prefetch{Source: setting.PrefetchCandidates, Staging: capacities(t, "4")[0]}}},
	} {
		c.o.Policies, c.o.Capacities = specs(t, "lru"), capacities(t, "2x")
		if _, err := Run(context.Background(), c.f, c.o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	for _, text := range []string{"lru:4,scope=request", "importance:4,scope=layer", "importance:0,scope=request", "staging,scope=request"} {
		if _, err := setting.ParseWarmup(text); err == nil {
			t.Errorf("warm-up %q is read", text)
		}
	}
}

// Every policy that a trace with scores can serve runs on a pool. The engine checks each victim. No
// policy that keeps the demand misses less than OPT.
func TestEveryPolicyOnAPool(t *testing.T) {
	f := manyStreams(t)
	o := Options{Capacities: capacities(t, "1.5x"), Pool: setting.PoolRequest, SkipUnable: true, Requests: []string{"b"}, Layers: []int32{1, 2}}
	for _, e := range all.Table() {
		o.Policies = append(o.Policies, specs(t, strings.TrimSuffix(e.Name+":"+e.Example, ":"))...)
	}
	rows, least := mustRun(t, f, o), int64(0)
	for _, r := range rows {
		if r.Policy == "opt" && *r.Capacity == "1.5x" {
			least = r.Misses
		}
	}
	for _, r := range rows {
		if r.Lossy {
			t.Errorf("%s is lossy, a pool has none", r.Policy)
		}
		if !r.Bypasses && r.Capacity != nil && *r.Capacity == "1.5x" && r.Misses < least {
			t.Errorf("%s misses %d, opt %d", r.Policy, r.Misses, least)
		}
	}
	if len(rows) < 15 {
		t.Errorf("%d rows, expected most policies", len(rows))
	}
}
