package referee

import (
	"cmp"
	"maps"
	"slices"
)

// outliers returns the n blocks of each stream that the most windows demand. No sink pins them, and
// they have left the local window when the prompt ends. Ties go to the lowest index.
func (x *cell) outliers(n, promptLen int) map[int32]bool {
	all := map[int32]bool{}
	for stream := range x.width {
		for _, b := range x.outliersOf(stream, n, promptLen) {
			all[b] = true
		}
	}
	return all
}

func (x *cell) outliersOf(stream, n, promptLen int) []int32 {
	demanding := map[int32]int{}
	for row := stream; row < x.windows; row += x.width {
		for _, b := range x.demand(row) {
			if !x.pinned(b, promptLen) {
				demanding[b]++
			}
		}
	}
	blocks := slices.SortedFunc(maps.Keys(demanding), func(a, b int32) int {
		return cmp.Or(cmp.Compare(demanding[b], demanding[a]), cmp.Compare(a, b))
	})
	return blocks[:min(n, len(blocks))]
}

func (x *cell) pinnedBlocks(row int) (n int) {
	if x.all != nil {
		for token := range int32(x.rows[row].seqLen) {
			if x.tokenPinned(token, x.rows[row].seqLen) {
				n++
			}
		}
		return n
	}
	for b := int32(0); int(b)*x.BlockTokens < x.rows[row].seqLen; b++ {
		if x.pinned(int32(row%x.width)*x.stride+b, x.rows[row].seqLen) {
			n++
		}
	}
	return n + x.Unlisted
}
