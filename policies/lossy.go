package policies

import (
	"math"
	"math/bits"
)

// Lossy is a policy (Traits.Lossy) that drops blocks for good: nothing is ever fetched
// again, and a demanded block that it no longer holds is lost. It looks after all blocks
// that are not pinned, demanded or not:
//
//	held ← (held ∪ Offered) \ victims
//
// Calls come in this order. Reset; Update for each prompt window that the run has
// (T < 0), when all of the prompt is still there and nothing can be dropped; Prompt, which
// hands over the prompt, and Evict; then for every counted step Update and Evict. Evict
// names members of held: at least n, as many as exceed the budget (Scope.Capacity, or the
// policy's share of a Divider's).
//
// Of a Step it is told T, Demand (the number), Offered (what left the local window) and,
// for NeedAttention or NeedCandidates, List: what of the step's list of M blocks is still
// there, held or pinned, best first. A method cannot see what it has dropped. For
// NeedAttention Scores is the attention that each block of List was given. Hit, Miss, Exit
// and Pass are empty.
type Lossy interface {
	Policy
	// Prompt hands over the prompt at its end: what is not pinned of it is held.
	Prompt(*Prompt)
}

// Prompt is a stream's prompt as its last query leaves it. Slices are valid until the call
// returns and read only.
type Prompt struct {
	Layer, Head int32 // Head: trace.NoHead where the layer shares its selection
	// Blocks is the number of blocks of the prompt. Those of [First, End) are held; those
	// before are sinks, those from End on are in the local window and come as births.
	Blocks, First, End int
	// Most is the number of blocks that are not pinned when the stream ends: what a budget
	// can hold at most.
	Most int
	// Mass is the attention mass that the last queries of the prompt gave each of its
	// blocks, all queries together; nil where the trace has none (NeedPromptMass).
	Mass []float32
	// Windows are the prompt windows of the run, oldest first. Filled for Survey only.
	Windows []Window
}

// Window is one of the last queries of the prompt.
type Window struct {
	Demand []int32 // the blocks that it selected, pinned ones left out, ascending
	Local  int32   // first block of its local window
}

// Divider is a Lossy policy whose budget is of a whole request: it divides what all
// streams of the request (that are replayed) may keep.
type Divider interface {
	Lossy
	// Survey appends to dst what Divide must know of a stream. It may be called on an
	// instance that was never Reset.
	Survey(p *Prompt, dst []float32) []float32
	// Divide returns the budget of each stream in blocks, at least one. They sum to what
	// the streams' capacities sum to, at most.
	Divide(streams []Surveyed) []int
}

// Surveyed is a stream of a request, by layer and head.
type Surveyed struct {
	Layer, Head int32
	Capacity    int // blocks that the run's capacity gives the stream
	Most        int // as Prompt.Most
	Values      []float32
}

// Shares divides total by weights, none of which is negative. Share i is at least least
// and at most most[i], and at least 1 whatever they say; what one cannot take goes to the
// others by their weights, and what rounding leaves goes to the first that have room. The
// shares sum to total where the bounds allow it: never to more, but for least, or 1 each,
// where total is below them.
func Shares(total, least int, weights []int64, most []int) []int {
	shares := make([]int, len(weights))
	rest := total
	for i := range shares {
		shares[i] = max(1, min(least, most[i]))
		rest -= shares[i]
	}
	for rest > 0 {
		var sum int64
		for i, w := range weights {
			if shares[i] < most[i] {
				sum += w
			}
		}
		given := 0
		for i, w := range weights {
			if room := most[i] - shares[i]; room > 0 && sum > 0 {
				part := min(room, int(mulDiv(int64(rest), w, sum)))
				shares[i] += part
				given += part
			}
		}
		if rest -= given; given == 0 {
			return Spread(shares, rest, most)
		}
	}
	return shares
}

// Spread adds rest to shares, one each in turn from the first on, to those below their
// most; what none has room for is left. It changes shares and returns them.
func Spread(shares []int, rest int, most []int) []int {
	for rest > 0 {
		before := rest
		for i := range shares {
			if rest > 0 && shares[i] < most[i] {
				shares[i]++
				rest--
			}
		}
		if rest == before {
			return shares // all are full
		}
	}
	return shares
}

// mulDiv is a·b÷c, rounded down, for numbers whose product may not fit.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}

// alphaParts is the precision of alpha.
const alphaParts = 1_000_000

// Safeguard is a head's part of its layer's memory by AdaKV (Feng et al. 2024,
// arXiv:2407.11550): (1−alpha)·own + alpha·mean, rounded down. The largest scores of all heads
// give it own, mean is the mean of the heads.
func Safeguard(own, mean int64, alpha float64) int64 {
	parts := int64(math.Round(alpha * alphaParts))
	return ((alphaParts-parts)*own + parts*mean) / alphaParts
}

// PyramidWeights are the shares of the layers by PyramidKV's law (Cai et al. 2024,
// arXiv:2406.02069). Layer i of m has the weight (2β−1)(m−1) − 2(β−1)·i, which is the
// law times β(m−1)/B with B the mean of the layers.
func PyramidWeights(layers int, beta int64) []int64 {
	weights := make([]int64, layers)
	for i := range weights {
		weights[i] = max(1, (2*beta-1)*int64(layers-1)-2*(beta-1)*int64(i))
	}
	return weights
}
