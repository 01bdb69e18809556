package ellm

// blocks are memory blocks of eLLM (section 3.2): tokens × layers of them.
type blocks struct{ tokens, layers int }

// of counts the blocks that requests need for some tokens and layers each.
func (b blocks) of(requests, tokens, layers int) int {
	return requests * ceil(tokens, b.tokens) * ceil(layers, b.layers)
}

// wasted is the share of those blocks that nothing lies in.
func (b blocks) wasted(tokens, layers int) float64 {
	return 1 - float64(tokens*layers)/float64(ceil(tokens, b.tokens)*b.tokens*ceil(layers, b.layers)*b.layers)
}

func ceil(n, of int) int { return (n + of - 1) / of }
