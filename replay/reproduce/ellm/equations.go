package ellm

import (
	"math"
)

// shape is a model in the equations' terms: L, h and V.
type shape struct{ layers, hidden, vocabulary float64 }

// batch holds sums over requests: their number, tokens, tokens².
type batch struct{ requests, tokens, squares float64 }

func (b batch) and(tokens float64) batch {
	return batch{b.requests + 1, b.tokens + tokens, b.squares + tokens*tokens}
}

// equal returns a batch of n requests of s tokens.
func equal(n int, s float64) batch { return batch{float64(n), float64(n) * s, float64(n) * s * s} }

// recomputation is Eq. 2 in FLOP: the requests of a batch, whose first share r is uncached, in all
// layers. Corrected, attention is causal (half of the pairs), and recomputed tokens have no logits.
func (m shape) recomputation(b batch, r float64, corrected bool) (flop float64) {
	L, h, V := m.layers, m.hidden, m.vocabulary
	if corrected {
		return 24*h*h*L*b.tokens*r + 2*h*L*b.squares*r*r
	}
	return 24*h*h*L*b.tokens*r + 4*h*L*b.squares*r*r + 2*h*V*b.tokens*r
}

// decoding is Eq. 3 in FLOP: one new token of each request. Corrected, the multiplication with the
// vocabulary happens once instead of once per cached token.
func (m shape) decoding(b batch, corrected bool) (flop float64) {
	L, h, V := m.layers, m.hidden, m.vocabulary
	logits := b.tokens
	if corrected {
		logits = b.requests
	}
	return 24*h*h*L*b.requests + 4*h*L*(b.tokens+b.requests) + 2*h*V*logits
}

// gpu is the accelerator in the equations' constraints.
type gpu struct {
	flops     float64 // FLOP/s
	bandwidth float64 // bytes/s, or 0 if reading takes no time as in the equations
	memory    float64 // bytes for weights, KV and M_o
	weights   float64 // bytes, M_W
}

// latency is Eq. 4 in s. Corrected, it is at least the time to read the weights and the cached KV,
// which section 6.6 leaves out.
func (m shape) latency(g gpu, b batch, r float64, corrected bool) float64 {
	t := (m.recomputation(b, r, corrected) + m.decoding(b, corrected)) / g.flops
	if corrected && g.bandwidth > 0 {
		t = math.Max(t, (g.weights+m.cached(b, r))/g.bandwidth)
	}
	return t
}

// cached returns the KV that stays on the GPU, in bytes: 4·L·h per token (Eq. 1).
func (m shape) cached(b batch, r float64) (bytes float64) {
	return 4 * m.layers * m.hidden * b.tokens * (1 - r)
}

// reading is an interpretation of Eqs. 7 to 9, which are about single layers.
type reading int

const (
	asPrinted    reading = iota
	noVocabulary         // l2 layers without the vocabulary, which belongs to no layer
	causal               // also half of the pairs, as in the corrected Eqs. 2 and 3
)

// layerAgain returns the FLOP of one layer for the uncached tokens, without the vocabulary.
func (m shape) layerAgain(b batch, r float64, as reading) float64 {
	h, pairs := m.hidden, 4.0
	if as == causal {
		pairs = 2
	}
	return 24*h*h*b.tokens*r + pairs*h*b.squares*r*r
}

// layersAgain is Eq. 7 in s: l2 layers over the uncached tokens. As printed, the equation takes a
// share l2/L of one layer's arithmetic and the whole vocabulary.
func (m shape) layersAgain(g gpu, b batch, r, l2 float64, as reading) float64 {
	if as == asPrinted {
		return (m.layerAgain(b, r, as)*l2/m.layers + 2*b.tokens*r*m.hidden*m.vocabulary) / g.flops
	}
	return l2 * m.layerAgain(b, r, as) / g.flops
}

// swap is Eq. 6 in s without its constant term: l1 layers of the uncached tokens over the link.
// link is its rate in bytes/s.
func (m shape) swap(b batch, r, l1, link float64) float64 {
	return m.cached(b, 1-r) / m.layers * l1 / link
}

// threads divides the threads of a block between recomputation (K1) and decoding (K2) by Eqs. 8 and
// 9. K1 is a multiple of 32 between 32 and total − 32.
func (m shape) threads(b batch, r, l1, l2 float64, total int, as reading) (k1 int, ratio float64) {
	h, V := m.hidden, m.vocabulary
	if as != asPrinted {
		V = 0
	}
	v1 := l2*m.layerAgain(b, r, as) + 2*h*V*b.tokens*r
	v2 := 24*h*h*(l1+l2)*b.requests + 4*h*(l1+l2)*(b.tokens+b.requests) + 2*h*V*b.tokens
	const warp = 32
	share := v1 / (v1 + v2)
	k1 = warp * int(math.Round(float64(total)*share/warp))
	return min(max(k1, warp), total-warp), v1 / v2
}

// overhead returns M_o in bytes: 8·h·b·s·r·(l1 + l2) of section 4.3.2.
func (m shape) overhead(b batch, r, l1, l2 float64) float64 {
	return 2 * m.cached(b, 1-r) / m.layers * (l1 + l2)
}

// blocks is the size of eLLM's memory blocks (section 3.2): tokens × layers.
type blocks struct{ tokens, layers int }

// count returns the number of blocks that requests need for some tokens and layers each.
func (b blocks) count(requests, tokens, layers int) int {
	return requests * ceil(tokens, b.tokens) * ceil(layers, b.layers)
}

// wasted returns the empty share of those blocks.
func (b blocks) wasted(tokens, layers int) float64 {
	return 1 - float64(tokens*layers)/float64(ceil(tokens, b.tokens)*b.tokens*ceil(layers, b.layers)*b.layers)
}

func ceil(n, size int) int { return (n + size - 1) / size }
