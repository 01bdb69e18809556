// Package pyramidkv is SnapKV with budgets that fall linearly with depth.
//
// Source: PyramidKV (Cai et al. 2024, "PyramidKV: Dynamic KV Cache Compression based on Pyramidal
// Information Funneling", arXiv:2406.02069, section 4, cache budget allocation).
//
// Rule: every stream keeps its observation window. The rest is B blocks per layer on average. The
// last of m layers gets B÷β, the first 2·B − B÷β, and those between lie on the line. The heads of a
// layer are alike. Blocks that a short prompt cannot fill go to the other layers by the same law. A
// stream then keeps the blocks that package snapkv keeps with its budget.
//
// Options: window=8, kernel=7 and pooling=max are those of the authors' LongBench experiments.
// beta=20 is as in their code. A larger beta is steeper, and 1 is SnapKV with this window.
//
// State: that of snapkv. Cost: O(1) per step. Memory: 12 B per block of the prompt. Lossy, online,
// needs prompt_mass. The budgets of a request's streams sum to the capacity of the request. It
// departs from the paper as snapkv does. Layers are those that the trace has and the run replays:
// the first of them counts as the model's first.
//
// It loses if deep layers attend as widely as shallow ones.
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
	Beta int // the mean layer's share divided by the last layer's
}

var _ policies.Divider = (*Policy)(nil)

// Survey appends the number of observation window blocks that are not pinned.
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
