// Package streamingllm keeps the first blocks of the context and the most recent ones, whatever the
// queries attend to.
//
// Source: StreamingLLM (Xiao et al. 2024, "Efficient Streaming Language Models with Attention
// Sinks", arXiv:2309.17453, section 3.2: attention sinks and a rolling cache).
//
// Rule: the first sink blocks of the context stay. The lowest index of the others leaves first.
// Pinned blocks are kept anyway and outside the budget. Pinned sinks count as sink blocks, and the
// recent blocks are those behind the local window. If the budget is no larger than the sinks, one
// block of it stays recent.
//
// Options: sink=4, the paper's four initial tokens (section 3.1, Table 2), in blocks of the trace,
// which are tokens if a block is one token.
//
// State: the oldest block that is no sink. Cost: O(1) per step. Memory: none. Lossy, online, needs
// no optional column of a trace. It departs from the paper only in positions: the paper re-indexes
// them within the cache, and a replay has none.
//
// It is the baseline of every other lossy method. It loses if attention goes to the middle of the
// context.
package streamingllm

import (
	_ "embed" // the package comment is the policy's documentation

	"github.com/kvreplay/kvreplay/policies"
)

//go:embed streamingllm.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "streamingllm",
	Summary: "drops all but the first and the most recent blocks",
	Source:  "StreamingLLM (Xiao et al. 2024, arXiv:2309.17453)",
	Usage:   "streamingllm[:sink=4], sink in blocks",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Lossy: true, Sized: true, Memory: "0 B", Cost: "O(1) a step"},
	New: policies.WithOptions(Policy{Sink: 4}, func(p *Policy) []policies.Option {
		return []policies.Option{policies.Int("sink", &p.Sink, 0, 1<<20)}
	}),
}

// Policy is StreamingLLM over one stream.
type Policy struct {
	Sink     int // first blocks of the context that stay
	capacity int
	oldest   int32 // oldest held block that is no sink
}

var _ policies.Lossy = (*Policy)(nil)

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.capacity = sc.Capacity
	return nil
}

// Prompt receives the prompt.
func (p *Policy) Prompt(pr *policies.Prompt) {
	sinks := max(0, min(p.Sink-pr.First, p.capacity-1))
	p.oldest = int32(pr.First + sinks)
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
