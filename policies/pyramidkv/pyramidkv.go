// Package pyramidkv is SnapKV with budgets that fall linearly with depth.
//
// Source: PyramidKV (Cai et al. 2024, "PyramidKV: Dynamic KV Cache Compression based on
// Pyramidal Information Funneling", arXiv:2406.02069, section 4, cache budget allocation).
//
// Rule: every stream keeps its observation window. Of the rest, B blocks a layer on average,
// the last of m layers gets B÷β, the first 2·B − B÷β, and those between lie on the line;
// heads of a layer are alike. What a short prompt has no use for goes to the other layers
// by the same law. A stream then keeps what package snapkv keeps with its budget.
//
// Options: window=8, kernel=7, pooling=max, those of the authors' LongBench
// experiments; beta=20 as in their code, the larger, the steeper; 1 is SnapKV with this
// window.
//
// State: that of snapkv. Cost: O(1) a step. Memory: 12 B a block of the prompt. Lossy,
// online, needs prompt_mass, and the budgets of a request's streams sum to what its
// capacity gives them. Departs from the paper as snapkv does. Layers are those that the
// trace has and the run replays: the first of them counts as the model's first.
//
// It loses where deep layers attend as widely as shallow ones.
package pyramidkv

import (
	_ "embed" // the package comment is the policy's documentation

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/snapkv"
)

//go:embed pyramidkv.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "pyramidkv",
	Summary: "SnapKV with budgets that fall linearly with depth",
	Source:  "PyramidKV (Cai et al. 2024, arXiv:2406.02069)",
	Usage:   snapkv.Usage("pyramidkv", 8, ",beta=20"),
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Lossy: true, Sized: true, Memory: "12 B", Cost: "O(1) a step"},
	New: snapkv.Parser(Policy{Policy: snapkv.New(8), Beta: 20}, func(p *Policy) (*snapkv.Policy, []policies.Option) {
		return &p.Policy, []policies.Option{policies.Int("beta", &p.Beta, 1, 1000)}
	}),
}

// Policy is PyramidKV over one stream.
type Policy struct {
	snapkv.Policy
	Beta int // how much less than the mean the last layer gets
}

var _ policies.Divider = (*Policy)(nil)

// Survey tells how many blocks of the observation window are not pinned.
func (p *Policy) Survey(pr *policies.Prompt, dst []float32) []float32 {
	return append(dst, float32(p.Observed(pr)))
}

// Divide gives every stream its observation window and the rest by depth.
func (p *Policy) Divide(streams []policies.Surveyed) []int {
	var layers []int32
	total, window := 0, 1
	for i, s := range streams {
		if i == 0 || s.Layer != streams[i-1].Layer {
			layers = append(layers, s.Layer)
		}
		total += s.Capacity
		window = max(window, int(s.Values[0]))
	}
	byDepth := policies.PyramidWeights(len(layers), int64(p.Beta))
	weights, most := make([]int64, len(streams)), make([]int, len(streams))
	layer := 0
	for i, s := range streams {
		if s.Layer != layers[layer] {
			layer++
		}
		weights[i], most[i] = byDepth[layer], s.Most
	}
	return policies.Shares(total, min(window, total/len(streams)), weights, most)
}
