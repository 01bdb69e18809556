// Package adakv is SnapKV with the budget of a layer divided among its heads. A head gets more if
// the attention at the prompt's end is wider there.
//
// Source: Ada-KV (Feng et al. 2024, "Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget
// Allocation for Efficient LLM Inference", arXiv:2407.11550, Algorithm 1 and the safeguard).
//
// Rule: every head keeps its observation window. The layer may keep N further blocks. The N largest
// scores of all its heads are marked, ties to the first head. A head with B* marked scores gets
// (1−alpha)·B* + alpha·N÷heads blocks. Blocks that rounding leaves over go to the first heads. Each
// head then keeps the blocks that package snapkv keeps with that budget.
//
// Options: window=32, kernel=7 and pooling=max, as in the authors' code. alpha=0.2 is the safeguard
// of NVIDIA's kvpress (alpha_safeguard). The authors' code calls it floor_alpha.
//
// State: that of snapkv. The scores of a whole request are kept while its budgets are computed.
// Cost: O(1) per step. Memory: 12 B per block of the prompt. Lossy, online, needs prompt_mass. The
// budgets of a layer sum to the capacity of the layer. It departs from the paper as snapkv does. If
// the heads of a layer share one selection, there is nothing to divide and it is SnapKV.
//
// It loses if one head's scores are large and flat and another head's few entries matter.
package adakv

import (
	"cmp"
	_ "embed" // the package comment is the policy's documentation
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
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

// Survey appends the number of observation window blocks that are not pinned. It then appends the
// scores of the blocks in front of the window, largest first.
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
	for _, heads := range slice.Runs(streams, func(a, b policies.Surveyed) bool { return a.Layer == b.Layer }) {
		budgets = append(budgets, p.layer(heads)...)
	}
	return budgets
}

// layer divides the budget of a layer among its heads.
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
	return policies.Spread(budgets, total-given, most) // the rest after rounding and after heads that are full
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
			break // no more scores are marked
		}
		own[best]++
	}
	return own
}
