package run

import (
	"reflect"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// worked is a short history whose counts are worked out by hand. Blocks have a hundred tokens, so
// that no block is born. With tokens, blocks have one token, and block prompt+t-1 is born at step t.
type worked struct {
	topk   int
	lists  [][]int32
	layout demand.Layout
	tokens bool
	// windows are the lists that come before step 0. Outliers are chosen from them.
	windows  int
	outliers setting.Outliers
	clusters []int32 // cluster of each token, for a prompt of 100 tokens
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
	fatal.If(t, d.Build(stream, o, trace.NewChecker("worked", meta)))
	c := cache.NewCell(specs(t, "lru")[0].Make())
	list := tiers(t, below...)
	c.Lower = newTiers(list, inclusive)
	st.Ranks, st.Unit = true, 1
	var starts []cache.TierStart
	for _, tier := range list {
		blocks, err := tier.Capacity.Blocks(setting.Sizing{BlockTokens: 1})
		fatal.If(t, err)
		starts = append(starts, cache.TierStart{Start: cache.Start{Capacity: blocks, Ranks: true, Unit: 1}})
	}
	counts, err := c.Run(&d, st, nil, starts...)
	fatal.If(t, err)
	return c, counts
}

// Positions 0 and 1 demand 1, 2, 3. Positions 2 and 3 demand 1, 4, 5, 6. Each step has two births:
// 99, 100 and then 101, 102. At a capacity of four the first step evicts 99. In the second step 1
// hits, and 100, 2, 3, 101, 102 are evicted.
func TestWorkedMultiToken(t *testing.T) {
	h := worked{topk: 2, lists: [][]int32{{1, 2}, {2, 3}, {1, 4}, {5, 6}}, layout: demand.Layout{Factor: 1, Heads: 1, Positions: 2}, tokens: true}
	_, n := h.run(t, cache.Start{Capacity: 4}, false)
	if n.Steps != 2 || n.Demand != 7 || n.Misses != 6 || n.Births != 4 || n.Evictions != 6 || n.Positions != 4 {
		t.Errorf("%+v, worked out: 2 steps, demand 7, 6 misses, 4 births, 6 evictions, 4 positions", n)
	}
}

// K is 1, and the buffer holds one block. Step 1 demands the staged block 2. For step 2 block 1 is
// staged, and 4 has no room. Step 2 misses 4, which counts as late. No later step demands block 1, so
// it is useless.
func TestWorkedPrefetch(t *testing.T) {
	h := worked{topk: 1, lists: [][]int32{{1, 2, 3}, {2, 1, 4}, {4, 5, 6}}}
	_, n := h.run(t, cache.Start{Capacity: 1, Prefetch: setting.PrefetchCandidates, Staging: 1}, false)
	if n.Misses != 2 || n.Prefetched != 2 || n.PrefetchUseful != 1 || n.PrefetchLate != 1 || n.PrefetchUseless != 1 || n.Moved != 4 {
		t.Errorf("%+v, worked out: 2 misses; 2 prefetched, 1 useful, 1 late, 1 useless; 4 moved", n)
	}
}

// K is 1, and the buffer holds one block. For step 1 block 2 is staged. For step 2 the best
// candidate is 3, which replaces 2. Block 2 is still a candidate, so its miss at step 2 is late. Both
// prefetches are useless.
func TestWorkedPrefetchOfBetterRanks(t *testing.T) {
	h := worked{topk: 1, lists: [][]int32{{1, 2, 3}, {4, 3, 2}, {2, 5, 6}}}
	_, n := h.run(t, cache.Start{Capacity: 1, Prefetch: setting.PrefetchCandidates, Staging: 1}, false)
	if n.Misses != 3 || n.Prefetched != 2 || n.PrefetchUseful != 0 || n.PrefetchLate != 1 || n.PrefetchUseless != 2 || n.Moved != 5 {
		t.Errorf("%+v, worked out: 3 misses; 2 prefetched, none useful, 1 late, 2 useless; 5 moved", n)
	}
}

// K is 1, the capacity is 2, with one swap per step. Step 0 fetches 1. Block 2 is swapped into the
// free room, and step 1 demands it. LRU would then evict 1, but step 1 ranks 1 before 4. So 4 is not
// swapped in and is late at step 2, which evicts 1. Next, 5 replaces block 2, which is not listed.
// No step demands 5.
func TestWorkedSwap(t *testing.T) {
	h := worked{topk: 1, lists: [][]int32{{1, 2, 3}, {2, 1, 4}, {4, 5, 6}, {4, 7, 8}}}
	_, n := h.run(t, cache.Start{Capacity: 2, Prefetch: setting.PrefetchCandidates, Staging: 1, Swap: true}, false)
	if n.Misses != 2 || n.Prefetched != 2 || n.PrefetchUseful != 1 || n.PrefetchLate != 1 || n.PrefetchUseless != 1 || n.Evictions != 2 || n.Moved != 4 {
		t.Errorf("%+v, worked out: 2 misses; 2 swapped in, 1 useful, 1 late, 1 useless; 2 evictions; 4 moved", n)
	}
}

// The demand is 1, 2, 1, 3, 2, and each cache holds one block. The exclusive tier gets 1 at step 1,
// which hits at step 2. It then gets 2. At step 3 it gets 1 and evicts 2, so 2 misses again. The
// inclusive tier holds the same block as the cache above, so it never hits.
func TestWorkedTiers(t *testing.T) {
	h := worked{topk: 1, lists: [][]int32{{1}, {2}, {1}, {3}, {2}}}
	for inclusive, want := range map[bool]int64{false: 4, true: 5} {
		c, n := h.run(t, cache.Start{Capacity: 1}, inclusive, "dram=lru@1")
		if low := c.Lower.Cell.Counts()[0]; n.Misses != 5 || low.Demand != 5 || low.Misses != want {
			t.Errorf("inclusive %v: %d misses above; %d of %d below, worked out: 5; %d of 5", inclusive, n.Misses, low.Misses, low.Demand, want)
		}
	}
}

// Blocks 1 and 2 alternate. A cache of one block misses every step. From step 2 on the cache has two
// blocks and soon holds both.
func TestWorkedGrowth(t *testing.T) {
	h := worked{topk: 1, lists: [][]int32{{1}, {2}, {1}, {2}, {1}}}
	if _, n := h.run(t, cache.Start{Capacity: 1, Later: []cache.CapacityAt{{Step: 2, Capacity: 2}}}, false); n.Misses != 3 || n.Evictions != 1 {
		t.Errorf("%d misses and %d evictions, worked out: 3 and 1", n.Misses, n.Evictions)
	}
}

// Three windows demand 1 and 2, 1 and 3, 2 and 4. Two windows demand 1 and 2, so these are outliers.
// Without them, steps 0 … 2 demand 3, then 4, then 3 and 4. A cache of one block has three misses,
// and the last step overflows by one block. Three blocks are pinned: the outliers, and the last of
// 101 blocks, which holds the generated token.
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

// Clusters A, B and C have three, two and one tokens. The other tokens are one further cluster. The
// capacity is four entries. Step 0 demands A and B, five entries, and does not keep B, which has the
// worst rank. In step 1 A hits and C is fetched: four entries. Step 2 demands two tokens of B and
// fetches it. LRU evicts A, which frees three entries. In step 3 all hit. In step 4 B hits and A is
// fetched, again five entries. Step 4 does not keep B. It evicts C, although C would fit.
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

// pool returns a worker with a pool of histories, one per layer, without warm-up.
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
	return pooled(t, testPlan(meta, h.topk, h.topk, setting.Warmup{Kind: setting.WarmupCold}), members, 0, true)
}

// Layer 0 demands 1, 1, 1. Layer 1 demands 1, 2, 1. Rows alternate. With two blocks for both layers,
// block 2 of layer 1 replaces its block 1, which was used before the block of layer 0. Block 1 then
// replaces block 2. With three blocks, all fit.
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

// Blocks 1 and 2 alternate, and a capacity of two holds both. At step 2 the capacity falls to one, so
// step 2 evicts block 2, and step 3 misses it. From step 4 on the capacity is two. Step 4 misses
// block 1, and then both stay.
func TestWorkedShrinking(t *testing.T) {
	h := worked{topk: 1, lists: [][]int32{{1}, {2}, {1}, {2}, {1}, {2}}}
	if _, n := h.run(t, cache.Start{Capacity: 2, Later: []cache.CapacityAt{{Step: 2, Capacity: 1}, {Step: 4, Capacity: 2}}}, false); n.Misses != 4 || n.Evictions != 2 {
		t.Errorf("%d misses and %d evictions, worked out: 4 and 2", n.Misses, n.Evictions)
	}
}

// Two layers have two blocks each, and each layer needs at least one. In steps 0 and 1 layer 0 would
// have missed 4, 2, 0 with one, two, three blocks, and layer 1 always 3. Layer 0 then gets three
// blocks and layer 1 gets one. In steps 2 and 3 layer 0 has no miss with one block, and layer 1 none
// with two. The fourth block saves no miss and goes to layer 0.
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
