// Package adakv is SnapKV with the budget of a layer divided among its heads by where the
// attention of the prompt's end is widest.
//
// Source: Ada-KV (Feng et al. 2024, "Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget
// Allocation for Efficient LLM Inference", arXiv:2407.11550, Algorithm 1 and the safeguard).
//
// Rule: every head keeps its observation window. Of the rest the layer may keep N blocks:
// as many of the largest scores of all heads together are marked (ties to the first head),
// and a head that has B* of them gets (1−alpha)·B* + alpha·N÷heads. What rounding leaves
// goes to the first heads. A head then keeps what package snapkv keeps with its budget.
//
// Options: window=32, kernel=7, pooling=max, as in the authors' code; alpha=0.2, the
// safeguard of NVIDIA's kvpress (alpha_safeguard), floor_alpha in the authors' code.
//
// State: that of snapkv, and the scores of a whole request while its budgets are worked
// out. Cost: O(1) a step. Memory: 12 B a block of the prompt. Lossy, online, needs
// prompt_mass; the budgets of a layer sum to what its capacity gives them. Departs from
// the paper as snapkv does. Where the heads of a layer share one selection there is
// nothing to divide: it is SnapKV.
//
// It loses where one head's scores are large and flat and another's few entries matter.
package adakv

import (
	"cmp"
	_ "embed" // the package comment is the policy's documentation
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/snapkv"
)

//go:embed adakv.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "adakv",
	Summary: "SnapKV with a layer's budget divided by the scores of its heads",
	Source:  "Ada-KV (Feng et al. 2024, arXiv:2407.11550)",
	Usage:   snapkv.Usage("adakv", 32, ",alpha=0.2"),
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Lossy: true, Sized: true, Memory: "12 B", Cost: "O(1) a step"},
	New: snapkv.Parser(Policy{Policy: snapkv.New(32), Alpha: 0.2}, func(p *Policy) (*snapkv.Policy, []policies.Option) {
		return &p.Policy, []policies.Option{policies.Float("alpha", &p.Alpha, 0, 1)}
	}),
}

// Policy is AdaKV over one stream.
type Policy struct {
	snapkv.Policy
	Alpha float64 // share of a layer's budget that its heads divide alike
}

var _ policies.Divider = (*Policy)(nil)

// Survey tells how many blocks of the observation window are not pinned, then the scores
// of those in front of it, largest first.
func (p *Policy) Survey(pr *policies.Prompt, dst []float32) []float32 {
	dst = append(dst, float32(p.Observed(pr)))
	at := len(dst)
	dst = p.Scores(pr, pr.End, dst)
	slices.SortFunc(dst[at:], func(a, b float32) int { return cmp.Compare(b, a) })
	return dst
}

// Divide divides layer by layer.
func (p *Policy) Divide(streams []policies.Surveyed) []int {
	var budgets []int
	for from := 0; from < len(streams); {
		to := from + 1
		for to < len(streams) && streams[to].Layer == streams[from].Layer {
			to++
		}
		budgets = append(budgets, p.layer(streams[from:to])...)
		from = to
	}
	return budgets
}

// layer divides what the heads of a layer may keep.
func (p *Policy) layer(heads []policies.Surveyed) []int {
	total, window := 0, 0
	most := make([]int, len(heads))
	for i, h := range heads {
		total += h.Capacity
		window = max(window, int(h.Values[0]))
		most[i] = h.Most
	}
	window = max(1, min(window, total/len(heads)))
	rest := total - window*len(heads)
	budgets := make([]int, len(heads))
	given := 0
	for i, own := range marked(heads, rest) {
		budgets[i] = max(1, min(most[i], window+int(policies.Safeguard(int64(own), int64(rest/len(heads)), p.Alpha))))
		given += budgets[i]
	}
	return policies.Spread(budgets, total-given, most) // what rounding leaves, and heads that are full
}

// marked counts how many of the n largest scores of all heads each head has.
func marked(heads []policies.Surveyed, n int) []int {
	own := make([]int, len(heads))
	for range n {
		best := -1
		for i, h := range heads {
			if at := 1 + own[i]; at < len(h.Values) && (best < 0 || h.Values[at] > heads[best].Values[1+own[best]]) {
				best = i
			}
		}
		if best < 0 {
			break // no more scores than that
		}
		own[best]++
	}
	return own
}
