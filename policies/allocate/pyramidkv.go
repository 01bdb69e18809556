package allocate

import (
	"fmt"

	"github.com/kvreplay/kvreplay/policies"
)

// pyramidKV lets memory fall linearly with depth. Every layer keeps its floor, as the
// paper's every layer keeps its last α tokens; of the rest, B a layer on average, the
// last of m layers gets B÷β, the first 2·B − B÷β, and those between lie on the line.
// β ≥ 1, 20 as in the paper: the larger, the steeper; 1 is uniform. Heads of a layer
// are alike. The law is of a lossy method, for which deep layers matter less; here
// only its division is taken. It looks at no curve.
var pyramidKV = Method{
	Name:    "pyramidkv",
	Summary: "memory falls linearly with depth, the more the larger beta; heads alike",
	Source:  "PyramidKV: Cai et al. 2024, arXiv:2406.02069, cache budget allocation",
	Usage:   "pyramidkv[:beta=20]",
	New: func(options string) (solver, string, error) {
		beta := 20
		canonical, err := policies.ParseOptions(options, policies.Int("beta", &beta, 1, 1000))
		if err != nil {
			return nil, "", fmt.Errorf("%w; usage: pyramidkv[:beta=20]", err)
		}
		return func(p *Problem, memory int64) *Result { return solvePyramid(p, memory, int64(beta)) }, canonical, nil
	},
}

// PyramidWeights weighs layer i of m by (2β−1)(m−1) − 2(β−1)·i, which is PyramidKV's law
// times β(m−1)/B: the last of m layers gets B÷β, the first 2·B − B÷β, B the mean.
func PyramidWeights(layers int, beta int64) []int64 {
	weights := make([]int64, layers)
	for i := range weights {
		weights[i] = max(1, (2*beta-1)*int64(layers-1)-2*(beta-1)*int64(i))
	}
	return weights
}

// solvePyramid gives the heads of a layer its weight each.
func solvePyramid(p *Problem, memory, beta int64) *Result {
	runs := p.layers()
	weights, total := make([]int64, 0, len(p.Curves)), int64(0)
	for i, w := range PyramidWeights(len(runs), beta) {
		for range runs[i][1] - runs[i][0] {
			weights = append(weights, w)
			total += w
		}
	}
	rest := memory - p.Least()
	return fitAll(p, func(i int) int64 { return p.Curves[i].Points[0].Cost + mulDiv(rest, weights[i], total) })
}
