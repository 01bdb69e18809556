package locality

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/trace"
)

func stream(prompt int, first int32, lists ...[]int32) *trace.Stream {
	s := &trace.Stream{}
	s.Reset(trace.StreamInfo{PromptLen: int32(prompt)})
	for i, list := range lists {
		s.Append(trace.Row{Step: first + int32(i), Indices: list})
	}
	return s
}

// Even in the longest context the memory depends only on the lists.
func TestLongestContext(t *testing.T) {
	m := trace.Meta{BlockTokens: 1}
	s := stream(1<<31-100, 0, []int32{1<<31 - 101, 3}, []int32{3, 50})
	if got := New(&m, 2).Stream(s); got.Distinct != 3 || got.Common != 1 || got.Pinned != 0 {
		t.Errorf("%+v", got)
	}
}

// Worked by hand. K = 2 of lists of 3. The row of step -1 is a window and does not count.
//
//	step  list    D_t   D_t∩D_t−1  first seen  re-entries
//	-1    5 6 7
//	 0    1 2 9   1 2
//	 1    2 3 9   2 3   2          3
//	 2    3 4 9   3 4   3          4
//	 3    1 4 9   1 4   4                      1: gap 3, blocks 2, 3, 4 since: distance 3
//	 4    1 2 9   1 2   1                      2: gap 3, blocks 3, 4, 1 since: distance 3
//
// The demand is 10, of which 8 after the first step. Common is 4. Unions are 3+3+3+3 = 12. Working
// sets of 1 step always have 2 blocks. Those of 4 steps are {1 2 3 4} at steps 3 and 4. No working
// set has 16 steps. The sink of 2 (blocks 0 and 1) holds block 1 at steps 0, 3 and 4. The local
// window of 1 is the current token, 11 and up. So 3 of 10 are pinned.
func TestHandWorked(t *testing.T) {
	sink := 2
	m := trace.Meta{BlockTokens: 1, Sink: &sink}
	s := stream(11, -1, []int32{5, 6, 7}, []int32{1, 2, 9}, []int32{2, 3, 9}, []int32{3, 4, 9}, []int32{1, 4, 9}, []int32{1, 2, 9})
	got := New(&m, 2).Stream(s)
	want := &Counts{Streams: 1, Steps: 5, Demand: 10, After: 8, Common: 4, Union: 12, FirstSeen: 2, Pinned: 3, Distinct: 4,
		WorkingSet: [4]int64{10, 8, 0, 0}, WorkingSteps: [4]int64{5, 2, 0, 0},
		Gaps: Histogram{0, 0, 0, 2}, Distances: Histogram{0, 0, 0, 2}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	var twice Counts // the same stream again doubles every count
	twice.Add(got)
	twice.Add(got)
	if want := (Counts{Streams: 2, Steps: 10, Demand: 20, After: 16, Common: 8, Union: 24, FirstSeen: 4, Pinned: 6, Distinct: 8,
		WorkingSet: [4]int64{20, 16, 0, 0}, WorkingSteps: [4]int64{10, 4, 0, 0},
		Gaps: Histogram{0, 0, 0, 4}, Distances: Histogram{0, 0, 0, 4}}); !reflect.DeepEqual(twice, want) {
		t.Errorf("twice: got  %+v\nwant %+v", twice, want)
	}
	sum := got.Summary()
	for name, c := range map[string]struct {
		got  *float64
		want float64
	}{
		"overlap": {sum.Overlap, 0.5}, "jaccard": {sum.Jaccard, 4.0 / 12}, "first seen": {sum.FirstSeenShare, 0.25},
		"of entries": {sum.FirstSeenOfEntries, 0.5}, "pinned": {sum.PinnedShare, 0.3}, "distinct": {sum.DistinctMean, 4},
		"working set": {sum.WorkingSet[1].Mean, 4}, "gap": {sum.Gap.P50, 3},
		"reuse p50": {sum.Reuse.P50, 0}, "reuse p90": {sum.Reuse.P90, 3}, "reuse mean": {sum.Reuse.Mean, 1}, // 0 0 0 0 3 3
	} {
		if c.got == nil || *c.got != c.want {
			t.Errorf("%s: %v, expected %v", name, c.got, c.want)
		}
	}
	if w := sum.WorkingSet; w[0].Steps != 1 || w[1].Steps != 4 || w[2].Steps != 16 || w[3].Steps != 64 || w[2].Mean != nil {
		t.Errorf("working sets %+v, expected of 1, 4, 16 and 64 steps, over 16 of 5 steps none", w)
	}
}

// The same demand at every step gives only distance 0 and no gap.
func TestConstantDemand(t *testing.T) {
	sum := New(&trace.Meta{BlockTokens: 1}, 2).Stream(stream(9, 0, []int32{1, 2}, []int32{1, 2}, []int32{1, 2})).Summary()
	if r := sum.Reuse; r.Count != 4 || r.P99 == nil || *r.P99 != 0 || *r.Mean != 0 {
		t.Errorf("reuse %+v, expected 4 of distance 0", r)
	}
	if sum.Gap.Count != 0 || sum.Gap.P50 != nil || sum.Gap.Mean != nil {
		t.Errorf("gaps %+v, expected none", sum.Gap)
	}
}

// Blocks of 4 tokens, a context of 10 to 11 tokens, sink 1, local 2. Block 0 holds the sink. Tokens
// 8, 9 (step 0) and 9, 10 (step 1) are local, all in block 2. Block 1 is not pinned. So 2 of 3
// demanded blocks at step 0 and 1 of 1 at step 1 are pinned.
func TestPinnedBlocks(t *testing.T) {
	sink, local := 1, 2
	m := trace.Meta{BlockTokens: 4, Sink: &sink, Local: &local}
	got := New(&m, 3).Stream(stream(9, 0, []int32{0, 1, 2}, []int32{2}))
	if got.Pinned != 3 || got.Demand != 4 {
		t.Errorf("%d of %d pinned, expected 3 of 4", got.Pinned, got.Demand)
	}
}

// brute computes the same counts from sets.
func brute(m *trace.Meta, topK int, s *trace.Stream) *Counts {
	c := &Counts{Streams: 1}
	var demands [][]int32
	for i, step := range s.Steps {
		if step >= 0 {
			list := s.List(i)
			demands = append(demands, list[:min(topK, len(list))])
		}
	}
	distinct := func(from, to int) map[int32]bool {
		set := map[int32]bool{}
		for _, d := range demands[from:to] {
			for _, x := range d {
				set[x] = true
			}
		}
		return set
	}
	for t, d := range demands {
		c.Steps++
		c.Demand += int64(len(d))
		if t > 0 {
			c.After += int64(len(d))
			c.Union += int64(len(distinct(t-1, t+1)))
		}
		for w, length := range Windows {
			if t+1 >= length {
				c.WorkingSet[w] += int64(len(distinct(t+1-length, t+1)))
				c.WorkingSteps[w]++
			}
		}
		for _, x := range d {
			from := t - 1
			for from >= 0 && !slices.Contains(demands[from], x) {
				from--
			}
			switch {
			case t == 0:
			case from < 0:
				c.FirstSeen++
			case from == t-1:
				c.Common++
			default:
				c.Gaps.Add(t-from, 1)
				between := distinct(from+1, t)
				delete(between, x)
				c.Distances.Add(len(between), 1)
			}
		}
	}
	c.Distinct = int64(len(distinct(0, len(demands))))
	return c
}

// The analyzer agrees with brute on random streams, reused and pooled. Some have contexts far
// longer than their lists.
func TestBrute(t *testing.T) {
	old := denseBlocks
	denseBlocks = 1000
	defer func() { denseBlocks = old }()
	for seed := uint64(0); seed < 200; seed++ {
		r := rand.New(rand.NewPCG(seed, 8))
		m := trace.Meta{BlockTokens: 1 + r.IntN(3)}
		topK := 1 + r.IntN(8)
		a := New(&m, topK)
		var sum, want Counts
		for range 3 {
			var lists [][]int32
			for range r.IntN(90) {
				var list []int32
				for _, x := range r.Perm(4 + r.IntN(12))[:1+r.IntN(4)] {
					list = append(list, int32(x))
				}
				lists = append(lists, list)
			}
			s := stream([]int{60, 60, 9000}[r.IntN(3)], int32(-r.IntN(4)), lists...)
			got, twin := a.Stream(s), brute(&m, topK, s)
			twin.Pinned = got.Pinned // another test checks it
			sum.Add(got)
			want.Add(twin)
			if !reflect.DeepEqual(normal(*got), normal(*twin)) {
				t.Fatalf("seed %d:\ngot  %+v\nwant %+v", seed, got, twin)
			}
		}
		if !reflect.DeepEqual(normal(sum), normal(want)) {
			t.Fatalf("seed %d pooled:\ngot  %+v\nwant %+v", seed, sum, want)
		}
	}
}

// normal makes empty histograms equal.
func normal(c Counts) Counts {
	c.Gaps, c.Distances = append(Histogram{}, c.Gaps...), append(Histogram{}, c.Distances...)
	return c
}

func BenchmarkStream(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var lists [][]int32
	list := make([]int32, 1024)
	for i, x := range r.Perm(32 << 10)[:len(list)] {
		list[i] = int32(x)
	}
	for range 256 {
		for range len(list) / 10 {
			if x := int32(r.IntN(32 << 10)); !slices.Contains(list, x) {
				list[r.IntN(len(list))] = x
			}
		}
		lists = append(lists, slices.Clone(list))
	}
	s := stream(32<<10, 0, lists...)
	a := New(&trace.Meta{BlockTokens: 1}, len(list))
	for b.Loop() {
		a.Stream(s)
	}
	b.ReportMetric(float64(b.N*len(s.Indices))/b.Elapsed().Seconds()/1e6, "Mindices/s")
}
