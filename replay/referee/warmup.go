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
	var best []int32
	switch c.Warmup.Kind {
	case WarmImportance:
		if c.Warmup.Windows < 1 || c.Warmup.Windows > windows(s) {
			return nil, fmt.Errorf("referee: importance over %d windows, the stream has %d", c.Warmup.Windows, windows(s))
		}
		if len(s.Scores) == 0 {
			return nil, fmt.Errorf("referee: importance needs scores")
		}
		best = c.important(s)
	case WarmStaging:
		best = c.lowest(int(s.PromptLen))
	}
	best = best[:min(c.capacity(), len(best))]
	slices.Sort(best)
	return best, nil
}

// important returns the blocks that the last windows list, unpinned at step -1,
// highest summed score first, then lowest index.
func (c Config) important(s *trace.Stream) []int32 {
	sum := map[int32]float64{}
	for row := windows(s) - c.Warmup.Windows; row < windows(s); row++ {
		list, scores := s.List(row), s.ScoreList(row)
		for i := range min(c.Candidates, len(list)) {
			sum[list[i]] += float64(scores[i])
		}
	}
	var best []int32
	for b := range sum {
		if !c.pinned(b, int(s.PromptLen)) { // seq_len at step -1 is prompt_len
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
