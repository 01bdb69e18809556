package policies

import (
	"math"
	"math/bits"
)

// Lossy is a policy (Traits.Lossy) that drops blocks for good. Nothing is ever fetched again, and a
// demanded block that was dropped is lost. The policy manages all blocks that are not pinned,
// demanded or not:
//
//	held ← (held ∪ Offered) \ victims
//
// Calls come in this order. First comes Reset. Update follows for each prompt window of the run (T
// < 0). All of the prompt is still held then and nothing can be dropped. The engine passes the
// prompt in Prompt, and Evict follows. Then every counted step calls Update and Evict. Evict names
// members of held: at least n, the number that exceeds the budget. The budget is Scope.Capacity, or
// the policy's share from Divide.
//
// The Step of a Lossy has T, Demand (the number) and Offered (the blocks that left the local
// window). For NeedAttention or NeedCandidates it also has List: the blocks of the step's list of M
// that are still held or pinned, best first. A method cannot see blocks that it has dropped. For
// NeedAttention, Scores is the attention that each block of List was given. Hit, Miss, Exit and
// Pass are empty.
type Lossy interface {
	Policy
	// Prompt passes the prompt to the policy when it ends. All blocks that are not pinned are held.
	Prompt(*Prompt)
}

// Prompt is a stream's prompt after its last query. Its slices are valid until the call returns and
// are read only.
type Prompt struct {
	Layer, Head int32 // Head: trace.NoHead if the layer shares its selection
	// Blocks is the number of blocks of the prompt. Those of [First, End) are held. The blocks before
	// First are sinks. Those from End on are in the local window and become births.
	Blocks, First, End int
	// Most is the number of blocks that are not pinned when the stream ends. No larger budget can be
	// filled.
	Most int
	// Mass is the attention mass that the last queries of the prompt gave each of its blocks, summed
	// over queries (NeedPromptMass). It is nil if the trace has none.
	Mass []float32
	// Windows are the prompt windows of the run, oldest first. Filled for Survey only.
	Windows []Window
}

// Window is one of the last queries of the prompt.
type Window struct {
	Demand []int32 // the blocks that the query selected, without pinned blocks, ascending
	Local  int32   // first block of its local window
}

// Divider is a Lossy policy whose budget covers a whole request. It divides the budget among the
// streams of the request that are replayed.
type Divider interface {
	Lossy
	// Survey appends to dst the values that Divide needs of a stream. It may be called on an instance
	// that was never Reset.
	Survey(p *Prompt, dst []float32) []float32
	// Divide returns the budget of each stream in blocks, at least one. Their sum is at most the sum
	// of the streams' capacities.
	Divide(streams []Surveyed) []int
}

// Surveyed is a stream of a request, by layer and head.
type Surveyed struct {
	Layer, Head int32
	Capacity    int // blocks that the run's capacity gives the stream
	Most        int // as Prompt.Most
	Values      []float32
}

// Shares divides total by weights, none of which is negative. Share i is between least and most[i],
// and at least 1. If a share is full, the others take the excess by their weights. The rest after
// rounding goes to the first shares with room. The shares sum to total if the bounds allow it, and
// to less if all are full. They sum to more only if the lower bounds do.
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

// Spread adds rest to the shares that are below their most, one each in turn from the first on. If
// all are full, the remainder is dropped. Spread changes shares and returns them.
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

// mulDiv returns ⌊a·b÷c⌋ even if a·b overflows.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}

// alphaParts is the precision of alpha.
const alphaParts = 1_000_000

// Safeguard returns a head's part of its layer's memory by AdaKV (Feng et al. 2024,
// arXiv:2407.11550): (1−alpha)·own + alpha·mean, rounded down. own is the head's part by the
// largest scores of all heads. mean is the mean of the heads.
func Safeguard(own, mean int64, alpha float64) int64 {
	parts := int64(math.Round(alpha * alphaParts))
	return ((alphaParts-parts)*own + parts*mean) / alphaParts
}

// PyramidWeights returns the shares of the layers by PyramidKV's law (Cai et al. 2024,
// arXiv:2406.02069). Layer i of m has the weight (2β−1)(m−1) − 2(β−1)·i. That is the law times
// β(m−1)/B with B the mean of the layers.
func PyramidWeights(layers int, beta int64) []int64 {
	weights := make([]int64, layers)
	for i := range weights {
		weights[i] = max(1, (2*beta-1)*int64(layers-1)-2*(beta-1)*int64(i))
	}
	return weights
}
