package referee

// pinned reports whether a sink or the local window holds a token of block b when
// the context has seqLen tokens (S2).
func (c Config) pinned(b int32, seqLen int) bool {
	for token := int(b) * c.BlockTokens; token < (int(b)+1)*c.BlockTokens; token++ {
		if token < c.Sink || token >= seqLen-c.Local {
			return true
		}
	}
	return false
}

// demand is D_t of a row: the first K of its list, less pins, distinct, in list
// order (S4).
func (x *cell) demand(row int) []int32 {
	list := x.stream.List(row)
	var demand []int32
	seen := map[int32]bool{}
	for _, b := range list[:min(x.TopK, len(list))] {
		if !x.pinned(b, x.stream.SeqLen(row)) && !seen[b] {
			demand = append(demand, b)
			seen[b] = true
		}
	}
	return demand
}

func setOf(blocks []int32) map[int32]bool {
	set := map[int32]bool{}
	for _, b := range blocks {
		set[b] = true
	}
	return set
}

// births are the blocks whose last token left the local window since the step
// before, ascending (S3). At a cell's first step one token left it.
func (x *cell) births(row int, first bool) []int32 {
	end := x.stream.SeqLen(row) - x.Local // tokens below end are outside the window
	begin := end - 1
	if !first {
		begin = x.stream.SeqLen(row-1) - x.Local
	}
	var born []int32
	for token := max(begin, 0); token < end; token++ {
		block := int32(token / x.BlockTokens)
		last := (token+1)%x.BlockTokens == 0
		if last && !x.pinned(block, x.stream.SeqLen(row)) {
			born = append(born, block)
		}
	}
	return born
}
