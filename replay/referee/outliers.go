package referee

import (
	"cmp"
	"slices"
)

// outliers are the n blocks that the most windows demand, of those that no sink pins and
// that have left the local window when the prompt ends; ties go to the lowest index.
func (x *cell) outliers(n, promptLen int) map[int32]bool {
	demanding := map[int32]int{}
	for row := range x.windows {
		for _, b := range x.demand(row) {
			if !x.pinned(b, promptLen) {
				demanding[b]++
			}
		}
	}
	var blocks []int32
	for b := range demanding {
		blocks = append(blocks, b)
	}
	slices.SortFunc(blocks, func(a, b int32) int {
		return cmp.Or(cmp.Compare(demanding[b], demanding[a]), cmp.Compare(a, b))
	})
	return setOf(blocks[:min(n, len(blocks))])
}

// pinnedBlocks counts the blocks that are pinned at a row.
func (x *cell) pinnedBlocks(row int) (n int) {
	for b := int32(0); int(b)*x.BlockTokens < x.rows[row].seqLen; b++ {
		if x.pinned(b, x.rows[row].seqLen) {
			n++
		}
	}
	return n + x.Unlisted
}
