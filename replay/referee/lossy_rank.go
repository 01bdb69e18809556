package referee

import (
	"maps"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// drop removes the blocks that exceed the budget: the least by rank, and the lowest index among
// equals.
func (x *lossyCell) drop() []int32 {
	order := slices.Sorted(maps.Keys(x.held))
	rank := map[int32][2]float64{}
	for newer := range order {
		b := order[len(order)-1-newer]
		rank[b] = x.rank(b, newer)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		p, q := rank[a], rank[b]
		return slices.Compare(p[:], q[:])
	})
	dropped := order[:max(0, len(order)-x.budget)]
	for _, b := range dropped {
		delete(x.held, b)
	}
	slices.Sort(dropped)
	return dropped
}

// rank returns the order in which a block is dropped: first its class, then its score in the class.
// newer is the number of newer blocks that are held.
func (x *lossyCell) rank(b int32, newer int) [2]float64 {
	switch x.method {
	case "streamingllm":
		return x.streaming(b, int(x.option("sink")))
	case "duoattention":
		sink, recent := int(x.option("sink")), int(x.option("recent"))
		return x.streaming(b, min(sink, x.budget*sink/(sink+recent)))
	case "h2o":
		if newer < x.part("recent", x.budget) {
			return [2]float64{1, 0} // recent
		}
		return [2]float64{0, x.given[b]}
	}
	if int(b) < x.promptBlocks(x.stream)-int(x.option("window")) {
		return [2]float64{0, x.pooled(x.stream, b)}
	}
	return [2]float64{1, 0}
}

// streaming keeps the first blocks, at most one less than the budget.
func (x *lossyCell) streaming(b int32, sink int) [2]float64 {
	if int(b) < min(sink, x.firstOpen()+x.budget-1) {
		return [2]float64{1, 0}
	}
	return [2]float64{0, 0}
}

// pooled returns a block's score in SnapKV.
func (c *LossyConfig) pooled(s *trace.Stream, b int32) float64 {
	half, front := int32(c.option("kernel"))/2, int32(c.promptBlocks(s)-int(c.option("window")))
	most, sum := 0.0, 0.0
	for j := b - half; j <= b+half; j++ {
		if j >= 0 && j < front {
			most = max(most, float64(s.PromptMass[j]))
			sum += float64(s.PromptMass[j])
		}
	}
	if c.word("pooling") == "max" {
		return most
	}
	return float64(float32(sum / c.option("kernel")))
}
