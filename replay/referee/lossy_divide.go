package referee

import (
	"cmp"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
)

func (c *LossyConfig) total() (sum int) {
	return slice.Sum(c.Capacities, func(n int) int { return n })
}

// most returns the largest number of blocks that a stream can hold.
func (c *LossyConfig) most(s *trace.Stream) int { return len(c.open(s.MaxSeqLen())) }

// observed returns the number of blocks of the observation window that are not pinned at the
// prompt's end.
func (c *LossyConfig) observed(s *trace.Stream) int {
	first := c.promptBlocks(s) - int(c.option("window"))
	return slice.Count(c.open(before(s)), func(b int32) bool { return int(b) >= first })
}

// topUp gives one block to each of the first streams with room, repeatedly.
func (c *LossyConfig) topUp(budgets []int, streams []*trace.Stream, left int) []int {
	for gave := true; gave && left > 0; {
		gave = false
		for i, s := range streams {
			if left > 0 && budgets[i] < c.most(s) {
				budgets[i]++
				left--
				gave = true
			}
		}
	}
	return budgets
}

// pyramid divides like PyramidKV. Each stream gets the observation window. The rest is divided by
// the law, again while rounding and full streams leave something. The last blocks go to the first
// streams with room.
func (c *LossyConfig) pyramid(streams []*trace.Stream) []int {
	beta, n := c.option("beta"), len(streams)
	depth := map[int32]int{}
	for _, s := range streams {
		if _, known := depth[s.Layer]; !known {
			depth[s.Layer] = len(depth)
		}
	}
	window := 1
	for _, s := range streams {
		window = max(window, c.observed(s))
	}
	window = min(window, c.total()/n)
	budgets, left := make([]int, n), c.total()
	for i, s := range streams {
		budgets[i] = max(1, min(window, c.most(s)))
		left -= budgets[i]
	}
	weight := func(i int) float64 { // B=1: from 2−1/β in the first layer to 1/β in the last
		m := float64(len(depth))
		return max(1, (2*beta-1)*(m-1)-2*(beta-1)*float64(depth[streams[i].Layer]))
	}
	for left > 0 {
		sum := 0.0
		for i, s := range streams {
			if budgets[i] < c.most(s) {
				sum += weight(i)
			}
		}
		given := 0
		for i, s := range streams {
			if room := c.most(s) - budgets[i]; room > 0 {
				part := min(room, int(math.Floor(float64(left)*weight(i)/sum)))
				budgets[i] += part
				given += part
			}
		}
		if left -= given; given == 0 {
			break
		}
	}
	return c.topUp(budgets, streams, left)
}

func (c *LossyConfig) ada(streams []*trace.Stream) []int {
	var budgets []int
	for _, heads := range slice.Runs(streams, func(a, b *trace.Stream) bool { return a.Layer == b.Layer }) {
		layer := *c
		layer.Capacities = c.Capacities[len(budgets) : len(budgets)+len(heads)]
		budgets = append(budgets, layer.adaLayer(heads)...)
	}
	return budgets
}

func (c *LossyConfig) adaLayer(heads []*trace.Stream) []int {
	type scored struct {
		score float64
		head  int
	}
	var all []scored
	window := 0
	for h, s := range heads {
		window = max(window, c.observed(s))
		for _, b := range c.open(before(s)) {
			if int(b) < c.promptBlocks(s)-int(c.option("window")) {
				all = append(all, scored{c.pooled(s, b), h})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), a.head-b.head) })
	window = max(1, min(window, c.total()/len(heads)))
	rest := c.total() - window*len(heads)
	own := make([]int, len(heads))
	for _, one := range all[:min(rest, len(all))] {
		own[one.head]++
	}
	budgets, left := make([]int, len(heads)), c.total()
	alpha := math.Round(c.option("alpha") * 1e6)
	for h, s := range heads {
		share := math.Floor(((1e6-alpha)*float64(own[h]) + alpha*float64(rest/len(heads))) / 1e6)
		budgets[h] = max(1, min(c.most(s), window+int(share)))
		left -= budgets[h]
	}
	return c.topUp(budgets, heads, left)
}

func (c *LossyConfig) duo(streams []*trace.Stream) []int {
	far := make([]float64, len(streams))
	order := make([]int, len(streams))
	budgets, left := make([]int, len(streams)), c.total()
	for i, s := range streams {
		far[i], order[i] = c.far(s), i
		budgets[i] = max(1, min(c.most(s), c.part("stream", c.Capacities[i])))
		left -= budgets[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(far[b], far[a]) })
	for _, i := range order[:c.part("full", len(streams))] {
		more := max(0, c.most(streams[i])-budgets[i])
		if more > left {
			break
		}
		budgets[i] += more
		left -= more
	}
	for left > 0 { // an equal amount for each head that is not whole
		open := slice.Count(slice.Indices(len(streams)), func(i int) bool { return budgets[i] < c.most(streams[i]) })
		if open == 0 || left < open {
			break
		}
		each, given := left/open, 0
		for i, s := range streams {
			if room := c.most(s) - budgets[i]; room > 0 {
				part := min(room, each)
				budgets[i] += part
				given += part
			}
		}
		left -= given
	}
	return c.topUp(budgets, streams, left)
}

// far returns the share of the windows' demand on a stream that a streaming head would not hold.
// Without windows it is the share of the prompt's mass.
func (c *LossyConfig) far(s *trace.Stream) float64 {
	outside := func(b int32, seqLen int) bool {
		local := max(0, seqLen-c.Local) / c.BlockTokens
		return int(b) >= int(c.option("sink")) && local-int(b) > int(c.option("recent"))
	}
	all, beyond := 0.0, 0.0
	for row := windows(s) - c.Windows; row < windows(s); row++ {
		list := s.List(row)
		for _, b := range list[:min(len(list), c.TopK)] {
			if c.pinned(b, s.SeqLen(row)) {
				continue
			}
			all++
			if outside(b, s.SeqLen(row)) {
				beyond++
			}
		}
	}
	if c.Windows > 0 {
		return float64(float32(beyond) / float32(max(1, all)))
	}
	for _, b := range c.open(before(s)) {
		if int(b) < len(s.PromptMass) {
			all += float64(s.PromptMass[b])
			if outside(b, before(s)) {
				beyond += float64(s.PromptMass[b])
			}
		}
	}
	if all == 0 {
		return 0
	}
	return float64(float32(beyond / all))
}
