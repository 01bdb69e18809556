package referee

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// Placed returns the blocks that an importance or staging warm-up places before
// the first counted step, ascending; nothing for the other kinds (S8).
func Placed(s *trace.Stream, c Config) ([]int32, error) {
	return c.placed(c.rows([]*trace.Stream{s}, true), s)
}

func (c Config) placed(rows []row, s *trace.Stream) ([]int32, error) {
	var best []int32
	switch c.Warmup.Kind {
	case WarmImportance:
		if c.Warmup.Windows < 1 || c.Warmup.Windows > windows(s) {
			return nil, fmt.Errorf("referee: importance over %d windows, the stream has %d", c.Warmup.Windows, windows(s))
		}
		if len(s.Scores) == 0 {
			return nil, fmt.Errorf("referee: importance needs scores")
		}
		best = c.important(rows[:windows(s)], int(s.PromptLen))
	case WarmStaging:
		best = c.lowest(int(s.PromptLen))
	}
	best = best[:min(c.capacity(), len(best))]
	slices.Sort(best)
	return best, nil
}

// important returns the blocks that the last windows list, unpinned at step -1,
// highest summed score first, then lowest index. At a step a block has the score of
// the best of its entries.
func (c Config) important(windows []row, promptLen int) []int32 {
	sum := map[int32]float64{}
	for _, w := range windows[len(windows)-c.Warmup.Windows:] {
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
	var best []int32
	for b := range sum {
		if !c.pinned(b, promptLen) { // seq_len at step -1 is prompt_len
			best = append(best, b)
		}
	}
	slices.SortFunc(best, func(a, b int32) int {
		return cmp.Or(-cmp.Compare(sum[a], sum[b]), cmp.Compare(a, b))
	})
	return best
}

// lowest returns the blocks that are not pinned at step -1, ascending.
func (c Config) lowest(promptLen int) []int32 {
	var low []int32
	for b := int32(0); int(b)*c.BlockTokens < promptLen; b++ {
		if !c.pinned(b, promptLen) {
			low = append(low, b)
		}
	}
	return low
}
