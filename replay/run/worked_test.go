package run

import (
	"reflect"
	"testing"

	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// worked is a short history that a person worked out. Blocks have a hundred tokens, so
// that none is born, unless tokens are asked for: then prompt+t-1 is born at step t.
type worked struct {
	topk   int
	lists  [][]int32
	layout demand.Layout
	tokens bool
	// windows are the lists that come before step 0. Outliers are chosen from them.
	windows  int
	outliers setting.Outliers
	clusters []int32 // of each token, of a prompt of 100
}

// run replays the history cold with LRU.
func (h worked) run(t *testing.T, st cache.Start, inclusive bool, below ...string) (*cache.Cell, cache.Counts) {
	t.Helper()
	longest := 0
	for _, list := range h.lists {
		longest = max(longest, len(list))
	}
	meta := &trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: h.topk, Candidates: longest, BlockTokens: 100}
	prompt := int32(100*100 + 20)
	if h.tokens || h.clusters != nil {
		meta.BlockTokens, prompt = 1, 100
	}
	s := trace.Stream{}
	s.Reset(trace.StreamInfo{PromptLen: prompt})
	for step, list := range h.lists {
		s.Append(trace.Row{Step: int32(step - h.windows), Indices: list})
	}
	p := testPlan(meta, h.topk, longest, setting.Warmup{Kind: setting.WarmupCold})
	stream, o := &s, demand.Options{K: h.topk, M: longest, Pins: p.pins, Meta: meta, Outliers: h.outliers}
	if h.layout.Positions > 1 || h.clusters != nil {
		j := &demand.Joiner{Layout: h.layout, K: h.topk, M: longest, Ranks: true, Pins: p.pins}
		if h.clusters != nil {
			j.Group(demand.NewClusters(map[trace.Key][]int32{s.Key: h.clusters}, 1), &s, longest)
		}
		var err error
		if stream, err = j.Join([]trace.Stream{s}); err != nil {
			t.Fatal(err)
		}
		o.Joined = j
	}
	var d demand.Delta
	if err := d.Build(stream, o, trace.NewChecker("worked", meta)); err != nil {
		t.Fatal(err)
	}
	c := cache.NewCell(specs(t, "lru")[0].Make())
	list := tiers(t, below...)
	c.Lower = newTiers(list, inclusive)
	st.Ranks, st.Unit = true, 1
	var starts []cache.TierStart
	for _, tier := range list {
		blocks, err := tier.Capacity.Blocks(setting.Sizing{BlockTokens: 1})
		if err != nil {
			t.Fatal(err)
		}
		starts = append(starts, cache.TierStart{Start: cache.Start{Capacity: blocks, Ranks: true, Unit: 1}})
	}
	counts, err := c.Run(&d, st, nil, starts...)
	if err != nil {
		t.Fatal(err)
	}
	return c, counts
}

// Positions 0 and 1 demand 1, 2, 3. Positions 2 and 3 demand 1, 4, 5, 6. Two tokens are
// born a step: 99, 100 and 101, 102. At a capacity of four the first step evicts 99. The
// second finds 1 and evicts 100, 2, 3, 101, 102.
func TestWorkedMultiToken(t *testing.T) {
	h := worked{topk: 2, lists: [][]int32{{1, 2}, {2, 3}, {1, 4}, {5, 6}}, layout: demand.Layout{Factor: 1, Heads: 1, Positions: 2}, tokens: true}
	_, n := h.run(t, cache.Start{Capacity: 4}, false)
	if n.Steps != 2 || n.Demand != 7 || n.Misses != 6 || n.Births != 4 || n.Evictions != 6 || n.Positions != 4 {
		t.Errorf("%+v, worked out: 2 steps, demand 7, 6 misses, 4 births, 6 evictions, 4 positions", n)
	}
}

// K = 1, a buffer of one. Step 1 finds 2 staged. For step 2 block 1 is staged, 4 finds no
// room: it is missed, late; 1 is never demanded again, useless.
func TestWorkedPrefetch(t *testing.T) {
	h := worked{topk: 1, lists: [][]int32{{1, 2, 3}, {2, 1, 4}, {4, 5, 6}}}
	_, n := h.run(t, cache.Start{Capacity: 1, Prefetch: setting.PrefetchCandidates, Staging: 1}, false)
	if n.Misses != 2 || n.Prefetched != 2 || n.PrefetchUseful != 1 || n.PrefetchLate != 1 || n.PrefetchUseless != 1 || n.Moved != 4 {
		t.Errorf("%+v, worked out: 2 misses; 2 prefetched, 1 useful, 1 late, 1 useless; 4 moved", n)
	}
}

// K = 1, a buffer of one. For step 1 block 2 is staged. For step 2 the best candidate is 3:
// it takes the place of 2, which is still a candidate, is demanded and missed, late. Both
// prefetches are useless.
func TestWorkedPrefetchOfBetterRanks(t *testing.T) {
	h := worked{topk: 1, lists: [][]int32{{1, 2, 3}, {4, 3, 2}, {2, 5, 6}}}
	_, n := h.run(t, cache.Start{Capacity: 1, Prefetch: setting.PrefetchCandidates, Staging: 1}, false)
	if n.Misses != 3 || n.Prefetched != 2 || n.PrefetchUseful != 0 || n.PrefetchLate != 1 || n.PrefetchUseless != 2 || n.Moved != 5 {
		t.Errorf("%+v, worked out: 3 misses; 2 prefetched, none useful, 1 late, 2 useless; 5 moved", n)
	}
}

// K = 1, room for two, one swap a step. Step 0 fetches 1; 2 takes the free room and is found
// at step 1. Then LRU would evict 1, which step 1 ranks second, before 4: 4 is late at step
// 2, which evicts 1. Of 5 and 6, 5 takes the place of 2, unlisted. No step demands it.
func TestWorkedSwap(t *testing.T) {
	h := worked{topk: 1, lists: [][]int32{{1, 2, 3}, {2, 1, 4}, {4, 5, 6}, {4, 7, 8}}}
	_, n := h.run(t, cache.Start{Capacity: 2, Prefetch: setting.PrefetchCandidates, Staging: 1, Swap: true}, false)
	if n.Misses != 2 || n.Prefetched != 2 || n.PrefetchUseful != 1 || n.PrefetchLate != 1 || n.PrefetchUseless != 1 || n.Evictions != 2 || n.Moved != 4 {
		t.Errorf("%+v, worked out: 2 misses; 2 swapped in, 1 useful, 1 late, 1 useless; 2 evictions; 4 moved", n)
	}
}

// The demand is 1, 2, 1, 3, 2, each cache holds one block. Exclusive: below are nothing,
// then 1 (found at step 2), 2, 1 (when 3 comes, 1 follows 2, which goes), so 2 is missed
// again. Inclusive: below is what is above, and nothing is ever found.
func TestWorkedTiers(t *testing.T) {
	h := worked{topk: 1, lists: [][]int32{{1}, {2}, {1}, {3}, {2}}}
	for inclusive, want := range map[bool]int64{false: 4, true: 5} {
		c, n := h.run(t, cache.Start{Capacity: 1}, inclusive, "dram=lru@1")
		if low := c.Lower.Cell.Counts()[0]; n.Misses != 5 || low.Demand != 5 || low.Misses != want {
			t.Errorf("inclusive %v: %d misses above; %d of %d below, worked out: 5; %d of 5", inclusive, n.Misses, low.Misses, low.Demand, want)
		}
	}
}

// 1 and 2 alternate: one block is missed every time, two blocks hold both from step 2 on.
func TestWorkedGrowth(t *testing.T) {
	h := worked{topk: 1, lists: [][]int32{{1}, {2}, {1}, {2}, {1}}}
	if _, n := h.run(t, cache.Start{Capacity: 1, Later: []cache.CapacityAt{{Step: 2, Capacity: 2}}}, false); n.Misses != 3 || n.Evictions != 1 {
		t.Errorf("%d misses and %d evictions, worked out: 3 and 1", n.Misses, n.Evictions)
	}
}

// Three windows demand 1 and 2, 1 and 3, 2 and 4: 1 and 2 are demanded twice and stay for
// good. What is left of steps 0 … 2 is 3, then 4, then 3 and 4: three misses in a cache of
// one block, and an overflow of one at the end. Pinned are two outliers and
// the last of 101 blocks, which holds the token that is generated.
func TestWorkedOutliers(t *testing.T) {
	h := worked{topk: 2, lists: [][]int32{{1, 2}, {1, 3}, {2, 4}, {1, 3}, {2, 4}, {3, 4}}, windows: 3, outliers: setting.Outliers{Source: setting.OutliersWindows, Count: 2}}
	_, n := h.run(t, cache.Start{Capacity: 1}, false)
	if n.Steps != 3 || n.Demand != 4 || n.Misses != 3 || n.Overflow != 1 || n.PinnedPeak != 3 {
		t.Errorf("%+v, worked out: 3 steps, demand 4, 3 misses, overflow 1, 3 pinned", n)
	}
	h.outliers = setting.Outliers{Source: setting.OutliersUnlisted, Count: 7}
	if _, n := h.run(t, cache.Start{Capacity: 2}, false); n.Demand != 6 || n.PinnedPeak != 8 {
		t.Errorf("%+v, worked out: demand 6, 8 pinned", n)
	}
}

// Clusters of three, two and one tokens, and one of all others, at a capacity of four
// entries. Step 0 demands the first two, five entries: the second, worst rank, is not kept.
// Step 1 finds the first and fetches the third: four. Step 2 fetches the second for two of
// its tokens. The first goes, three entries at once, as step 1 used both that are left.
// Step 3 finds all. Step 4 finds the second and fetches the first: again five, the second is
// not kept, and the third goes, though there would be room for it.
func TestWorkedClusters(t *testing.T) {
	h := worked{topk: 2, lists: [][]int32{{0, 3}, {0, 5}, {3, 4}, {5, 4}, {1, 4}}, clusters: []int32{7, 7, 7, 4, 4, 0}, layout: demand.Layout{Factor: 1, Heads: 1, Positions: 1, Clustered: true}}
	for len(h.clusters) < 110 {
		h.clusters = append(h.clusters, 9)
	}
	_, n := h.run(t, cache.Start{Capacity: 4}, false)
	want := cache.Counts{Streams: 1, Steps: 5, Demand: 9, Misses: 5, Evictions: 2, Overflow: 2, ResidentSum: 3 + 4 + 3 + 3 + 3, ResidentPeak: 4,
		Positions: 5, Picked: 10, Missed: 6, Moved: 5 + 1 + 2 + 3, StagingPeak: 2, PinnedPeak: 1}
	if n != want {
		t.Errorf("%+v, worked out: %+v", n, want)
	}
}

// pool is a pool of histories of the same length, a layer each, cold.
func (h worked) pool(t *testing.T, others ...worked) *worker {
	t.Helper()
	meta := &trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: h.topk, Candidates: h.topk, BlockTokens: 100}
	var members []*member
	for layer, one := range append([]worked{h}, others...) {
		s := trace.Stream{}
		s.Reset(trace.StreamInfo{Key: trace.Key{Layer: int32(layer), Head: trace.NoHead}, PromptLen: 100*100 + 20})
		for step, list := range one.lists {
			s.Append(trace.Row{Step: int32(step), Indices: list})
		}
		members = append(members, &member{recorded: []trace.Stream{s}})
	}
	return pooled(t, testPlan(meta, h.topk, h.topk, setting.Warmup{Kind: setting.WarmupCold}), members, 0)
}

// Layer 0 demands 1, 1, 1. Layer 1 demands 1, 2, 1. Rows alternate. With two blocks for both,
// layer 1's block 2 takes the place of its block 1, last used before layer 0's. Block 1 then
// takes its place again. With three, layer 0 leaves the third to layer 1.
func TestWorkedPool(t *testing.T) {
	w := worked{topk: 1, lists: [][]int32{{1}, {1}, {1}}}.pool(t, worked{lists: [][]int32{{1}, {2}, {1}}})
	for capacity, want := range map[int][4]int64{2: {1, 3, 0, 2}, 3: {1, 2, 0, 0}} {
		c := cache.NewCell(specs(t, "lru")[0].Make())
		if _, err := c.Run(&w.pool, cache.Start{Capacity: capacity, Ranks: true, Unit: 1}, nil); err != nil {
			t.Fatal(err)
		}
		a, b := c.Counts()[0], c.Counts()[1]
		if got := [4]int64{a.Misses, b.Misses, a.Evictions, b.Evictions}; got != want || a.Demand != 3 || b.Steps != 3 || c.Peak() != int64(capacity) {
			t.Errorf("capacity %d: misses and evictions by layer %v of demand %d, %d blocks at most; worked out: %v of 3, %d", capacity, got, a.Demand, c.Peak(), want, capacity)
		}
	}
}

// 1 and 2 alternate: two blocks hold both. Cut to one at step 2, block 2 goes and is missed,
// then block 1. With two again both stay.
func TestWorkedShrinking(t *testing.T) {
	h := worked{topk: 1, lists: [][]int32{{1}, {2}, {1}, {2}, {1}, {2}}}
	if _, n := h.run(t, cache.Start{Capacity: 2, Later: []cache.CapacityAt{{Step: 2, Capacity: 1}, {Step: 4, Capacity: 2}}}, false); n.Misses != 4 || n.Evictions != 2 {
		t.Errorf("%d misses and %d evictions, worked out: 4 and 2", n.Misses, n.Evictions)
	}
}

// Two layers with two blocks each, at least one. In steps 0 and 1 layer 0 would have missed
// 4, 2, 0 with one, two, three blocks, layer 1 always 3: three go to layer 0, one to layer 1.
// In steps 2 and 3 layer 0 misses nothing with one, layer 1 nothing with two: three blocks
// are asked for, the fourth goes to the first.
func TestWorkedReallocation(t *testing.T) {
	key := func(layer int32) allocate.Key { return allocate.Key{Layer: layer, Head: trace.NoHead} }
	streams := []observed{
		{key: key(0), misses: map[int][]int64{0: {4, 2, 0}, 1: {0, 0, 0}}, last: 5},
		{key: key(1), misses: map[int][]int64{0: {3, 3, 3}, 1: {2, 0, 0}}, last: 5},
	}
	got, err := reallocate(reallocation(t, "2"), streams, []int{2, 2}, []int{1, 2, 3}, 1)
	if want := [][]cache.CapacityAt{{{Step: 2, Capacity: 3}, {Step: 4, Capacity: 2}}, {{Step: 2, Capacity: 1}, {Step: 4, Capacity: 2}}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("budgets %v, %v, worked out: %v", got, err, want)
	}
}
