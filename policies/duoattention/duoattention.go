// Package duoattention keeps all blocks of some heads. It keeps only the first and the most recent
// blocks of the others.
//
// Source: DuoAttention (Xiao et al. 2024, "DuoAttention: Efficient Long-Context LLM Inference with
// Retrieval and Streaming Heads", arXiv:2410.10819, sections 2.2 and 2.3).
//
// Rule: a head is a stream of the request. Its measure is a share of the blocks that the prompt's
// last queries demanded of it: the blocks that a streaming head would lack. They lie behind the
// first sink blocks and more than recent blocks in front of the local window. The heads with the
// largest share are retrieval heads and keep everything, ties to the first. The others are
// streaming heads. With a budget of b blocks, a streaming head keeps the first
// ⌊b·sink÷(sink+recent)⌋ blocks, at most sink, and the most recent ones. Its lowest index behind
// the sinks leaves first.
//
// Number of retrieval heads: streaming heads get the share stream of their capacity. The request's
// remaining memory decides how many heads can be whole, at most the share full of all heads. The
// streaming heads divide the memory that is left.
//
// Options: full=0.5 is the share that the paper gives models with grouped queries (0.25 for those
// without). stream=0.5. sink=64 and recent=256 are those of the authors' LongBench runs
// (scripts/longbench.sh). They count blocks of the trace, which are tokens if a block is one token.
//
// State: the oldest block that is no sink. Cost: O(1) per step. Memory: none. Lossy, online, needs
// prompt windows. If there is prompt_mass, it measures the same share of that mass. The budgets of
// a request's streams sum to the capacity of the request.
//
// Differences from the paper: there a gate for each head is trained once per model on passkey
// retrieval, and the memory follows from the classes. Here the prompt of each request decides the
// classes, and the budget decides how many heads can be whole. Below sink + recent blocks per head,
// streaming windows shrink with the budget too.
//
// It loses at small budgets, which are worth few whole heads. It also loses if the attention that
// matters is spread evenly over heads.
package duoattention

import (
	"cmp"
	_ "embed" // the package comment is the policy's documentation
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

//go:embed duoattention.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "duoattention",
	Summary: "keeps retrieval heads whole, others only their first and most recent blocks",
	Source:  "DuoAttention (Xiao et al. 2024, arXiv:2410.10819)",
	Usage:   "duoattention[:full=0.5,stream=0.5,sink=64,recent=256], full a share of heads, stream of a head's budget, sink and recent in blocks",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Lossy: true, Sized: true, Memory: "0 B", Cost: "O(1) a step"},
	New: policies.WithOptions(Policy{Full: 0.5, Stream: 0.5, Sink: 64, Recent: 256}, func(p *Policy) []policies.Option {
		return []policies.Option{policies.Float("full", &p.Full, 0, 1), policies.Float("stream", &p.Stream, 0, 1),
			policies.Int("sink", &p.Sink, 0, 1<<20), policies.Int("recent", &p.Recent, 1, 1<<20)}
	}),
}

// Policy is DuoAttention over one stream.
type Policy struct {
	Full         float64 // largest share of retrieval heads
	Stream       float64 // least share of its capacity that a streaming head gets
	Sink, Recent int     // blocks

	capacity int
	oldest   int32 // block that is no sink
}

var _ policies.Divider = (*Policy)(nil)

// Needs returns the need for prompt windows.
func (p *Policy) Needs() policies.Needs { return policies.NeedWindows }

// Survey appends the share of the prompt's last demands that a streaming head would lack.
func (p *Policy) Survey(pr *policies.Prompt, dst []float32) []float32 {
	if len(pr.Windows) > 0 {
		return append(dst, p.demandedFar(pr.Windows))
	}
	return append(dst, p.massFar(pr))
}

func (p *Policy) demandedFar(windows []policies.Window) float32 {
	far, all := 0, 0
	for _, w := range windows {
		for _, x := range w.Demand {
			all++
			if p.far(x, w.Local) {
				far++
			}
		}
	}
	return float32(far) / float32(max(1, all))
}

func (p *Policy) massFar(pr *policies.Prompt) float32 {
	var far, all float64
	for x := pr.First; x < min(pr.End, len(pr.Mass)); x++ {
		all += float64(pr.Mass[x])
		if p.far(int32(x), int32(pr.End)) {
			far += float64(pr.Mass[x])
		}
	}
	if all == 0 {
		return 0
	}
	return float32(far / all)
}

// far reports whether a streaming head lacks x when its local window begins at local.
func (p *Policy) far(x, local int32) bool {
	return int(x) >= p.Sink && int(local)-int(x) > p.Recent
}

// Divide chooses the retrieval heads.
func (p *Policy) Divide(streams []policies.Surveyed) []int {
	order := make([]int, len(streams))
	total := 0
	for i, s := range streams {
		order[i] = i
		total += s.Capacity
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(streams[b].Values[0], streams[a].Values[0]) })
	budgets, rest := make([]int, len(streams)), total
	for i, s := range streams {
		budgets[i] = p.least(s)
		rest -= budgets[i]
	}
	whole := policies.Part(p.Full, len(streams))
	for _, i := range order[:whole] {
		if more := max(0, streams[i].Most-budgets[i]); more <= rest {
			budgets[i] += more
			rest -= more
			continue
		}
		break
	}
	return fill(budgets, rest, streams)
}

// least returns the blocks that a streaming head gets in any case.
func (p *Policy) least(s policies.Surveyed) int {
	return max(1, min(s.Most, policies.Part(p.Stream, s.Capacity)))
}

// fill divides the rest among the heads that are not whole.
func fill(budgets []int, rest int, streams []policies.Surveyed) []int {
	most, weights := make([]int, len(streams)), make([]int64, len(streams))
	for i, s := range streams {
		most[i], weights[i] = max(0, s.Most-budgets[i])+1, 1
	}
	for i, more := range policies.Shares(rest+len(streams), 1, weights, most) {
		budgets[i] += more - 1
	}
	return budgets
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.capacity = sc.Capacity
	return nil
}

// Prompt receives the prompt. A head that is kept whole has room for all blocks and never evicts.
func (p *Policy) Prompt(pr *policies.Prompt) {
	sinks := min(p.Sink, p.capacity*p.Sink/(p.Sink+p.Recent))
	p.oldest = int32(pr.First + max(0, min(sinks-pr.First, p.capacity-1)))
}

// Update does nothing: births follow the blocks that are held.
func (p *Policy) Update(*policies.Step) {}

// Evict appends the oldest blocks that are no sinks.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	for range n {
		dst = append(dst, p.oldest)
		p.oldest++
	}
	return dst
}
