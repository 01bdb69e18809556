package referee

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// Placed returns the blocks that an importance or staging warm-up places before the first counted
// step, ascending. For other kinds it returns nothing (S8).
func Placed(s *trace.Stream, c Config) ([]int32, error) {
	c.Policy = cmp.Or(c.Policy, "lru") // any policy with a capacity
	_, placed, err := newCell([][]*trace.Stream{{s}}, true, c)
	return placed, err
}

// placed returns the blocks that the warm-up places for the streams. s is the first stream.
func (x *cell) placed(s *trace.Stream) ([]int32, error) {
	var best []int32
	switch x.Warmup.Kind {
	case WarmImportance:
		if x.Warmup.Windows < 1 || x.Warmup.Windows > windows(s) {
			return nil, fmt.Errorf("referee: importance over %d windows, the stream has %d", x.Warmup.Windows, windows(s))
		}
		if len(s.Scores) == 0 {
			return nil, fmt.Errorf("referee: importance needs scores")
		}
		best = x.important(int(s.PromptLen))
	case WarmStaging:
		best = x.lowest(int(s.PromptLen))
	}
	best = best[:min(x.capacity(), len(best))]
	slices.Sort(best)
	return best, nil
}

// important returns the blocks in the lists of the last windows that are not pinned at step -1. The
// order is highest summed score, then lowest position, then first stream.
func (x *cell) important(promptLen int) []int32 {
	sum := map[int32]float64{}
	if x.Warmup.Over == nil {
		x.addScores(sum, x.rows[x.windows-x.Warmup.Windows*x.width:x.windows])
	} else {
		position := map[int32]float64{}
		for _, heads := range x.Warmup.Over {
			x.addScores(position, x.Config.rows(heads, x.hasRanks)[windows(heads[0])-x.Warmup.Windows:windows(heads[0])])
		}
		for b, score := range position {
			for stream := range x.width {
				sum[int32(stream)*x.stride+b] = score
			}
		}
	}
	var best []int32
	for b := range sum {
		if !x.pinned(b, promptLen) { // seq_len at step -1 is prompt_len
			best = append(best, b)
		}
	}
	slices.SortFunc(best, func(a, b int32) int {
		return cmp.Or(-cmp.Compare(sum[a], sum[b]), cmp.Compare(a%x.stride, b%x.stride), cmp.Compare(a, b))
	})
	return best
}

// addScores sums the scores of windows. At a step a block has the score of its best entry.
func (x *cell) addScores(sum map[int32]float64, windows []row) {
	for _, w := range windows {
		best := map[int32]float32{}
		for _, e := range w.list {
			if score, known := best[e.block]; !known || e.score > score {
				best[e.block] = e.score
			}
		}
		for b, score := range best {
			sum[b] += float64(score)
		}
	}
}

// lowest returns the blocks that are not pinned at step -1, lowest position first, then first
// stream.
func (x *cell) lowest(promptLen int) []int32 {
	var low []int32
	for b := int32(0); int(b)*x.BlockTokens < promptLen; b++ {
		for stream := range x.width {
			if id := int32(stream)*x.stride + b; !x.pinned(id, promptLen) {
				low = append(low, id)
			}
		}
	}
	return low
}
