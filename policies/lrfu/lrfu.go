// Package lrfu evicts the block with the lowest decayed demand rate. The decay sets its place
// between LRU and LFU.
//
// Source: Lee, Choi, Kim, Noh, Min, Cho and Kim, "LRFU: a spectrum of policies that subsumes the
// least recently used and least frequently used policies", IEEE Transactions on Computers 50(12),
// 2001: the CRF value of section 2, with the weighing function F(x) = γ^x and γ = (1/2)^λ.
//
// Step semantics: a step is one reference to each block of D_t, however its tokens were selected,
// at time t. The rate of a block at step t is Σ γ^(t-s) over the steps s ≤ t that demanded it,
// warm-up windows included. A birth, or a block that a warm-up placed, has no reference and rate 0.
// With history=keep an eviction keeps the rate. With history=forget it drops the rate, and a fetch
// begins at 1. A step counts even if it demands a block that does not stay, because |D_t| > C.
//
// Rule: the first victim is the block with the lowest rate. Ties go to the least recently used,
// then to the lowest block index. Rates fall by the same factor at every step, so the order of two
// idle blocks never changes. The order is that of S = ln f - (t-1) ln γ, with f the rate at the
// last demanded step t-1. It is fixed when a block leaves the demand.
//
// State (rates.go): f and its step. A stay of n steps that ends before step t makes the rate f·γ^g
// + (1-γⁿ)/(1-γ), with g the steps since. That is one product and one sum of float64, the same on
// every machine. S is not computed. f·γ^-(t-1) has the same order, as a mantissa and an exponent of
// any size, without a logarithm and with one rounding. Rates that differ by less than the last
// place of a float64 may tie or swap. Blocks with the same history tie exactly. The outside set is
// a bucket.Queue by octave and leading bits. A bucket is sorted if only some of its blocks are
// evicted. Blocks that leave the demand with rates below the whole queue are the next victims and
// are mostly evicted without being queued (bucket.Front).
//
// Options: gamma=G is the decay per step, 0.1 to 0.99999. The default of 0.95 is a half-life of
// 13.5 steps, chosen by hand. history=keep or forget, keep by default. Below γ = .5 it is LRU with
// the older history as tie-break, except that births have no reference and are evicted first.
//
// Cost: O(1) per change of the demand. Memory: 20 B per block of the context and 4 B per change.
// Exact, online, no stack property. Differences from the paper: there, rates of evicted blocks are
// forgotten for lack of memory, and a heap orders the rest. Here the context is known, and 20 B per
// token are little next to its entry. history=forget is the paper's. It misses 3 % more in the
// geometric mean of the README's board. It loses to LRU right after the topic moves. It also loses
// if blocks are demanded for some steps in a row and never again: their rates outlive those of
// blocks that come back for one step.
package lrfu

import (
	_ "embed" // the package comment is the policy's documentation

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

//go:embed lrfu.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "lrfu",
	Summary: "evicts the block with the lowest decayed demand rate",
	Source:  "Lee et al., IEEE ToC 2001",
	Usage:   "lrfu:gamma=G,history=H, G from 0.1 to 0.99999, default 0.95, and H keep (default) or forget",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Memory: "20 B", Cost: "O(1)"},
	New:     parse,
}

func parse(text string) (func() policies.Policy, string, error) {
	gamma, history := 0.95, "keep"
	canonical, err := policies.ParseOptions(text, policies.Float("gamma", &gamma, MinGamma, MaxGamma), policies.Word("history", &history, "keep", "forget"))
	return func() policies.Policy { return &Policy{Gamma: gamma, Forget: history == "forget"} }, canonical, err
}

// The range of γ. Below it one step outweighs all earlier steps, which is LRU. Above it a stream is
// too short for decay.
const (
	MinGamma = 0.1
	MaxGamma = 0.99999
)

// Policy is LRFU over one stream.
type Policy struct {
	Gamma  float64 // decay per step
	Forget bool    // an eviction forgets the block's rate

	queue bucket.Queue
	rates Rates
	ones  []float64 // factors of 1
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.queue.Reset(sc.Blocks, p.rates.Reset(sc, p.Gamma, 0))
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	p.rates.Update(&p.queue, s, p.Forget)
}

// Evict appends the n blocks with the lowest rates.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	end := len(dst) + n
	dst = p.rates.PopFront(&p.queue, n, dst)
	return p.queue.PopLowestBy(p, end-len(dst), dst)
}

// Mixed reports whether blocks of a bucket may differ in their rates.
func (p *Policy) Mixed(b int32) bool { return b != 0 }

// Sort puts blocks of a bucket in the order of their rates.
func (p *Policy) Sort(blocks []int32) {
	for len(p.ones) < len(blocks) {
		p.ones = append(p.ones, 1)
	}
	p.rates.Sort(blocks, p.ones)
}
