package demand

// Pins are the tokens that are always resident: the first Sink and the last Local tokens
// (SEMANTICS S2). BlockTokens is the number of tokens in a block of the stream.
type Pins struct {
	Sink, Local, BlockTokens int
}

// firstFree returns the first block that no sink pins.
func (p Pins) firstFree() int { return (p.Sink + p.BlockTokens - 1) / p.BlockTokens }

// firstLocal returns the first block that the local window pins in a context of seqLen tokens.
func (p Pins) firstLocal(seqLen int) int { return max(0, seqLen-p.Local) / p.BlockTokens }

// appendBirths appends the blocks whose last token left the local window when the context grew
// from before tokens to seqLen tokens.
func (p Pins) appendBirths(dst []int32, before, seqLen int) []int32 {
	for b := max(p.firstLocal(before), p.firstFree()); b < p.firstLocal(seqLen); b++ {
		dst = append(dst, int32(b))
	}
	return dst
}

// Blocks returns the number of blocks in a context of seqLen tokens.
func (p Pins) Blocks(seqLen int) int { return (seqLen + p.BlockTokens - 1) / p.BlockTokens }
