package allocate

import (
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/policies"
)

// adaKV divides the memory of a layer among its heads by the mass that their top
// entries hold: the heaviest entries of all heads together are kept, as many as the
// layer may keep, and a head gets as many as are its own, B*. A safeguard then takes
// (1−α)·B* + α·B, with B the heads' mean. Layers are alike.
//
// The mixture is that of the authors' code (floor_alpha), α = 0.2 that of NVIDIA's
// kvpress (alpha_safeguard). The mass is in attention weights, which rows do not carry.
// Here the mass of a head's entries is the transfers that keeping them saves on the
// profile: its c most valuable entries hold what a capacity of c saves over its floor,
// and the heaviest entries of all heads are found by climbing the concave envelopes,
// which is `head`. So adakv is `head` with the safeguard.
var adaKV = Method{
	Name:    "adakv",
	Summary: "layers alike, heads by the mass of their top entries, with a uniform share alpha",
	Source:  "AdaKV: Feng et al. 2024, arXiv:2407.11550, budget allocation and safeguard",
	Usage:   "adakv[:alpha=0.2]",
	New: func(options string) (solver, string, error) {
		alpha := 0.2
		canonical, err := policies.ParseOptions(options, policies.Float("alpha", &alpha, 0, 1))
		if err != nil {
			return nil, "", fmt.Errorf("%w; usage: adakv[:alpha=0.2]", err)
		}
		return func(p *Problem, memory int64) *Result { return solveAda(p, memory, alpha) }, canonical, nil
	},
}

// alphaParts is the precision of α.
const alphaParts = 1_000_000

// Safeguard is what a head gets of a layer's memory: (1−α)·own + α·mean, rounded down,
// with own what the largest scores of all heads give it and mean the heads' mean.
func Safeguard(own, mean int64, alpha float64) int64 {
	parts := int64(math.Round(alpha * alphaParts))
	return ((alphaParts-parts)*own + parts*mean) / alphaParts
}

func solveAda(p *Problem, memory int64, alpha float64) *Result {
	rest := memory - p.Least()
	runs := p.layers()
	var sizes []int
	for _, run := range runs {
		layer := p.part(run)
		extra := rest / int64(len(runs))
		mass := solveGreedy(layer, layer.Least()+extra).Sizes
		mean := extra / int64(len(layer.Curves))
		sizes = append(sizes, fitAll(layer, func(i int) int64 {
			c := &layer.Curves[i]
			own, _ := c.At(p.Family, mass[i]) // it is one of the curve's points
			floor := c.Points[0].Cost
			return floor + Safeguard(own.Cost-floor, mean, alpha)
		}).Sizes...)
	}
	return &Result{Sizes: sizes}
}
