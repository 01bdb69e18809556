package locality

import (
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/kvreplay/kvreplay/internal/text"
)

// Counts are the counts of a stream, or sums over many streams.
type Counts struct {
	Streams   int64
	Steps     int64 // counted steps
	Demand    int64 // Σ|D_t|
	After     int64 // Σ|D_t| over steps after a stream's first
	Common    int64 // Σ|D_t ∩ D_t−1|
	Union     int64 // Σ|D_t ∪ D_t−1|
	FirstSeen int64 // part of After that no earlier step demanded
	Pinned    int64 // part of Demand in the sink or the local window
	Distinct  int64 // distinct blocks that a stream demands, summed over streams
	// WorkingSet[i] is the sum of distinct blocks in the last Windows[i] steps, over
	// WorkingSteps[i] steps.
	WorkingSet, WorkingSteps [len(Windows)]int64
	// Gaps are the re-entry gaps in steps, all 2 or more.
	Gaps Histogram
	// Distances are the reuse distances of re-entries. The reuses in Common have distance 0.
	Distances Histogram
}

// Add adds the counts of other streams.
func (c *Counts) Add(o *Counts) {
	c.Streams += o.Streams
	c.Steps += o.Steps
	c.Demand += o.Demand
	c.After += o.After
	c.Common += o.Common
	c.Union += o.Union
	c.FirstSeen += o.FirstSeen
	c.Pinned += o.Pinned
	c.Distinct += o.Distinct
	for w := range Windows {
		c.WorkingSet[w] += o.WorkingSet[w]
		c.WorkingSteps[w] += o.WorkingSteps[w]
	}
	c.Gaps.Merge(o.Gaps)
	c.Distances.Merge(o.Distances)
}

// Summary holds the ratios and quantiles of counts, as `kvreplay inspect --format json` prints
// them. README.md explains the fields. A ratio with denominator 0 is null.
type Summary struct {
	Streams            int64        `json:"streams"`
	Steps              int64        `json:"steps"`
	DemandMean         *float64     `json:"demand_mean"`
	Overlap            *float64     `json:"overlap"`
	Jaccard            *float64     `json:"jaccard"`
	FirstSeenShare     *float64     `json:"first_seen_share"`
	FirstSeenOfEntries *float64     `json:"first_seen_of_entries"`
	PinnedShare        *float64     `json:"pinned_share"`
	DistinctMean       *float64     `json:"distinct_mean"`
	WorkingSet         []WorkingSet `json:"working_set"`
	Reuse              Quantiles    `json:"reuse_distance"`
	Reentry            Quantiles    `json:"reentry_distance"`
	Gap                Quantiles    `json:"reentry_gap"`
}

// WorkingSet is the mean number of distinct blocks in a number of consecutive steps.
type WorkingSet struct {
	Steps int      `json:"steps"`
	Mean  *float64 `json:"mean"`
}

// Summary computes ratios and quantiles.
func (c *Counts) Summary() Summary {
	s := Summary{
		Streams: c.Streams, Steps: c.Steps,
		DemandMean: text.Share(c.Demand, c.Steps), Overlap: text.Share(c.Common, c.After), Jaccard: text.Share(c.Common, c.Union),
		FirstSeenShare: text.Share(c.FirstSeen, c.After), FirstSeenOfEntries: text.Share(c.FirstSeen, c.After-c.Common),
		PinnedShare: text.Share(c.Pinned, c.Demand), DistinctMean: text.Share(c.Distinct, c.Streams),
		Reuse: c.Distances.quantiles(c.Common), Reentry: c.Distances.quantiles(0), Gap: c.Gaps.quantiles(0),
	}
	for w, steps := range Windows {
		s.WorkingSet = append(s.WorkingSet, WorkingSet{steps, text.Share(c.WorkingSet[w], c.WorkingSteps[w])})
	}
	return s
}

// Histogram counts small non-negative integers: Histogram[v] values are v.
type Histogram []int64

// Add adds value n times.
func (h *Histogram) Add(value int, n int64) {
	if value >= len(*h) {
		*h = append(*h, make([]int64, value+1-len(*h))...)
	}
	(*h)[value] += n
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(o Histogram) {
	if len(o) > 0 {
		h.Add(len(o)-1, 0)
	}
	for v, n := range o {
		(*h)[v] += n
	}
}

// Quantiles describe a distribution of integers. The p-quantile is the smallest value that at least
// the share p of all values does not exceed. They are null if there are no values.
type Quantiles struct {
	Count int64    `json:"count"`
	P50   *float64 `json:"p50"`
	P90   *float64 `json:"p90"`
	P99   *float64 `json:"p99"`
	Mean  *float64 `json:"mean"`
}

// quantiles returns the quantiles of the histogram with additional zeros.
func (h Histogram) quantiles(zeros int64) Quantiles {
	var values, weights []float64
	var q Quantiles
	for v, n := range h {
		if v == 0 {
			n += zeros
		}
		if n > 0 {
			q.Count += n
			values, weights = append(values, float64(v)), append(weights, float64(n))
		}
	}
	if len(h) == 0 && zeros > 0 {
		q.Count, values, weights = zeros, []float64{0}, []float64{float64(zeros)}
	}
	if q.Count == 0 {
		return q
	}
	at := func(p float64) *float64 {
		v := stat.Quantile(p, stat.Empirical, values, weights)
		return &v
	}
	mean := stat.Mean(values, weights)
	q.P50, q.P90, q.P99, q.Mean = at(0.5), at(0.9), at(0.99), &mean
	return q
}

// fenwick counts blocks by the step of their last demand. It sums over ranges of steps in
// logarithmic time.
type fenwick struct {
	count []int32 // by step
	tree  []int32
}

func (f *fenwick) reset(n int) {
	f.count, f.tree = slices.Grow(f.count[:0], n)[:n], slices.Grow(f.tree[:0], n+1)[:n+1]
	clear(f.count)
	clear(f.tree)
}

func (f *fenwick) at(i int) int { return int(f.count[i]) }

func (f *fenwick) add(i, n int) {
	f.count[i] += int32(n)
	for i++; i < len(f.tree); i += i & -i {
		f.tree[i] += int32(n)
	}
}

// sum returns the sum over the steps before i.
func (f *fenwick) sum(i int) (n int) {
	for ; i > 0; i -= i & -i {
		n += int(f.tree[i])
	}
	return n
}
