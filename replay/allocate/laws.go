package allocate

import (
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
)

// uniform gives every layer and head the same size. It is a capacity of memory ÷ streams, or the
// largest window whose summed cost fits (KVDrive, section 5.1).
var uniform = Method{
	Name:    "uniform",
	Summary: "every layer and head the same",
	Usage:   "uniform",
	solve:   solveUniform,
}

func solveUniform(p *Problem, memory int64) *Result {
	if p.Family == Windows {
		size := p.Curves[0].Points[0].Size
		for _, pt := range merge(p.Curves).Points {
			if pt.Cost <= memory {
				size = pt.Size
			}
		}
		return &Result{Sizes: slices.Repeat([]int{size}, len(p.Curves))}
	}
	return fitAll(p, func(int) int64 { return memory / int64(len(p.Curves)) })
}

// fitAll gives each curve the largest size that fits its share of the memory.
func fitAll(p *Problem, share func(curve int) int64) *Result {
	return &Result{Sizes: slice.Map(slice.Indices(len(p.Curves)), func(i int) int { return p.Curves[i].fit(p, share(i)) })}
}

// perLayer chooses like 2d-greedy, with equal sizes for the heads of a layer: KVDrive's section 5.2
// without its head dimension.
var perLayer = Method{
	Name:    "layer",
	Summary: "2d-greedy with the heads of a layer alike",
	Usage:   "layer",
	solve:   solveLayer,
}

func solveLayer(p *Problem, memory int64) *Result {
	runs := p.layers()
	merged := &Problem{p.Family, p.Unit, slice.Map(runs, func(run [2]int) Curve { return merge(p.Curves[run[0]:run[1]]) })}
	var sizes []int
	for i, size := range solveGreedy(merged, memory).Sizes {
		sizes = append(sizes, slices.Repeat([]int{size}, runs[i][1]-runs[i][0])...)
	}
	return &Result{Sizes: sizes}
}

// perHead gives every layer the same memory above its floors. It divides this among the layer's
// heads like 2d-greedy: KVDrive's section 5.2 without its layer dimension. With one head per layer it
// equals uniform.
var perHead = Method{
	Name:    "head",
	Summary: "2d-greedy within each layer, layers alike",
	Usage:   "head",
	solve: func(p *Problem, memory int64) *Result {
		if len(p.layers()) == len(p.Curves) {
			return solveUniform(p, memory)
		}
		return byLayer(p, memory, func(_ *Problem, sizes []int, _ int64) []int { return sizes })
	},
}

// byLayer divides the memory of each layer among its heads like 2d-greedy. Each layer has extra entries above
// its floors. choose makes the sizes of a layer from those of 2d-greedy.
func byLayer(p *Problem, memory int64, choose func(layer *Problem, greedy []int, extra int64) []int) *Result {
	r, runs := new(Result), p.layers()
	extra := (memory - p.Least()) / int64(len(runs))
	for _, run := range runs {
		layer := p.part(run)
		greedy := solveGreedy(layer, layer.Least()+extra).Sizes
		r.Sizes = append(r.Sizes, choose(layer, greedy, extra)...)
	}
	return r
}

// pyramidKV lets memory fall linearly with depth (Cai et al. 2024, arXiv:2406.02069). Every layer
// keeps its floor, as every layer keeps its last α tokens in the paper. The rest is B per layer on
// average. The last of m layers gets B÷β, the first 2·B − B÷β, and the others lie on the line
// between them. β ≥ 1 is 20 as in the paper. Larger values are steeper, and 1 is uniform. Heads of
// a layer are equal. The law belongs to a lossy method, for which deep layers matter less. Here
// only its division is used. It ignores the curves.
var pyramidKV = Method{
	Name:    "pyramidkv",
	Summary: "memory falls linearly with depth, faster with a larger beta, heads alike",
	Usage:   "pyramidkv[:beta=20]",
	parse: func(options string) (solver, string, error) {
		beta := 20
		canonical, err := policies.ParseOptions(options, policies.Int("beta", &beta, 1, 1000))
		return func(p *Problem, memory int64) *Result { return solvePyramid(p, memory, int64(beta)) }, canonical, err
	},
}

// solvePyramid gives the heads of a layer its weight.
func solvePyramid(p *Problem, memory, beta int64) *Result {
	runs := p.layers()
	weights, total := make([]int64, 0, len(p.Curves)), int64(0)
	for i, w := range policies.PyramidWeights(len(runs), beta) {
		for range runs[i][1] - runs[i][0] {
			weights = append(weights, w)
			total += w
		}
	}
	rest := memory - p.Least()
	return fitAll(p, func(i int) int64 { return p.Curves[i].Points[0].Cost + mulAddDiv(rest, weights[i], 0, total) })
}

// adaKV divides the memory of a layer among its heads by the mass of their top entries (Feng et al.
// 2024, arXiv:2407.11550). It keeps the heaviest entries of all heads together, up to the layer's
// memory. B* is the number of a head's own entries among them. A safeguard then takes (1−α)·B* +
// α·B, with B the heads' mean. Layers are equal.
//
// The mixture follows the authors' code (floor_alpha). α = 0.2 is that of NVIDIA's kvpress
// (alpha_safeguard). The mass is in attention weights, which rows lack. Here it is the transfers
// that keeping a head's entries saves on the profile. A head's c most valuable entries have the
// saving of capacity c over its floor. The heaviest entries of all heads follow from climbing the
// concave envelopes, which is `head`. So adakv is `head` with the safeguard.
var adaKV = Method{
	Name:    "adakv",
	Summary: "layers alike, heads by the mass of their top entries, with a uniform share alpha",
	Usage:   "adakv[:alpha=0.2]",
	parse: func(options string) (solver, string, error) {
		alpha := 0.2
		canonical, err := policies.ParseOptions(options, policies.Float("alpha", &alpha, 0, 1))
		return func(p *Problem, memory int64) *Result { return solveAda(p, memory, alpha) }, canonical, err
	},
}

func solveAda(p *Problem, memory int64, alpha float64) *Result {
	return byLayer(p, memory, func(layer *Problem, mass []int, extra int64) []int {
		mean := extra / int64(len(layer.Curves))
		return fitAll(layer, func(i int) int64 {
			c := &layer.Curves[i]
			own, _ := c.At(p.Family, mass[i]) // the size is one of the curve's points
			floor := c.Points[0].Cost
			return floor + policies.Safeguard(own.Cost-floor, mean, alpha)
		}).Sizes
	})
}
