package referee

// pinned reports whether a sink or the local window holds a token of block b when the context has
// seqLen tokens (S2). Outliers are always pinned.
func (c Config) pinned(b int32, seqLen int) bool {
	if c.kept[b] {
		return true
	}
	if c.all != nil {
		return false // their pinned tokens are removed from the lists
	}
	b %= c.stride
	for token := int(b) * c.BlockTokens; token < (int(b)+1)*c.BlockTokens; token++ {
		if token < c.Sink || token >= seqLen-c.Local {
			return true
		}
	}
	return false
}

// demand returns D_t of a row: the first K of its list without pins, distinct, in list order (S4).
func (x *cell) demand(row int) []int32 {
	var demand []int32
	seen := map[int32]bool{}
	for _, e := range x.rows[row].list {
		if b := e.block; e.picked && !x.pinned(b, x.rows[row].seqLen) && !seen[b] {
			demand = append(demand, b)
			seen[b] = true
		}
	}
	return demand
}

// entriesOf returns the number of entries in blocks that a row demands.
func (x *cell) entriesOf(row int, blocks []int32) int {
	of := setOf(blocks)
	names := map[entryName]bool{}
	for _, e := range x.rows[row].list {
		if e.picked && of[e.block] {
			names[e.name] = true
		}
	}
	return len(names)
}

func setOf(blocks []int32) map[int32]bool {
	set := map[int32]bool{}
	for _, b := range blocks {
		set[b] = true
	}
	return set
}

// births returns the blocks whose last token left the local window since the previous step,
// ascending (S3). At a cell's first step, one token per position has left it.
func (x *cell) births(row int, first bool) []int32 {
	end := x.rows[row].seqLen - x.Local // tokens below end are outside the window
	begin := x.rows[row].first - 1 - x.Local
	if !first {
		begin = x.rows[row-x.width].seqLen - x.Local
	}
	var born []int32
	for token := max(begin, 0); token < end; token++ {
		if x.all != nil {
			if unit := x.unitOf(int32(token)); len(x.all[unit].tokens) == 1 && token >= x.Sink {
				born = append(born, unit)
			}
			continue
		}
		block := int32(row%x.width)*x.stride + int32(token/x.BlockTokens)
		last := (token+1)%x.BlockTokens == 0
		if last && !x.pinned(block, x.rows[row].seqLen) {
			born = append(born, block)
		}
	}
	return born
}
