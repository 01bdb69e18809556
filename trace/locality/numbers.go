package locality

// denseBlocks is the number of blocks up to which a context has a place in memory for each.
// Tests make it smaller.
var denseBlocks = 1 << 20

// numbers gives blocks numbers from 0 in the order in which they come, where a context has
// far more blocks than its lists hold; else a block is its own number.
type numbers struct {
	known map[int32]int32 // nil where blocks are their own numbers
	buf   []int32
}

// reset forgets all numbers. It returns sparse, which says that blocks are to get some.
func (n *numbers) reset(sparse bool) bool {
	n.known = nil
	if sparse {
		n.known = map[int32]int32{}
	}
	return sparse
}

// of are the numbers of blocks, valid until the next call.
func (n *numbers) of(blocks []int32) []int32 {
	if n.known == nil {
		return blocks
	}
	n.buf = n.buf[:0]
	for _, b := range blocks {
		number, seen := n.known[b]
		if !seen {
			number = int32(len(n.known))
			n.known[b] = number
		}
		n.buf = append(n.buf, number)
	}
	return n.buf
}
