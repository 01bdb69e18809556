package collective

import (
	"math"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// Constants are the constants of the formula.
type Constants struct {
	Call  float64 // start and end of a call, s
	Hop   float64 // one step between two GPUs, s
	Share float64 // share of the link's rate that the rings reach
}

// allReduce returns the seconds of an all-reduce of some bytes on each of n GPUs:
//
//	call + 2·log2(n)·hop + 2·(n−1)/n·bytes / (share·link)
//
// The hops are those of a tree, up and down. The bytes are those that a GPU sends in a ring. NCCL
// has both, and uses trees for few bytes. link is the rate of a GPU's link in each direction.
func (c *Constants) allReduce(link, n, bytes float64) float64 {
	return c.Call + 2*math.Log2(n)*c.Hop + 2*(n-1)/n*bytes/(c.Share*link)
}

// point is a measured all-reduce on a link.
type point struct {
	*Measurement
	link    float64 // bytes/s
	pcie    bool    // the link is PCIe
	seconds float64
}

func (p *point) guess(c *Constants) float64 {
	return c.allReduce(p.link, float64(p.Workers), float64(p.Bytes))
}

// Constants of the fit. An error below bend counts squared, a larger one linearly. The prior pulls
// constants to their start: the factor e^spread weighs as much as one error of bend.
const (
	bend   = 0.1
	spread = 1.
	finest = 1e-3 // last step of the search, in logs
)

// start is where the fit starts. The constants are assumed.
var start = Constants{Call: 30e-6, Hop: 2e-6, Share: 0.7}

// fit returns the constants with the least soft errors of log times. It tries steps along the log
// of each constant, and halves them if none is better. It is deterministic.
func fit(points []point) Constants {
	var x [3]float64
	best := loss(points, x)
	for step := 0.5; step > finest; {
		improved := false
		for i := range x {
			for _, sign := range []float64{1, -1} {
				next := x
				next[i] += sign * step
				if l := loss(points, next); l < best {
					x, best, improved = next, l, true
					break
				}
			}
		}
		if !improved {
			step /= 2
		}
	}
	return at(x)
}

// at returns the constants at logs relative to the start.
func at(x [3]float64) Constants {
	return Constants{start.Call * math.Exp(x[0]), start.Hop * math.Exp(x[1]), min(1, start.Share*math.Exp(x[2]))}
}

// loss is the sum of soft errors, 2·(√(1+r²) − 1), of the points and of the prior.
func loss(points []point, x [3]float64) (sum float64) {
	c := at(x)
	soft := func(r float64) float64 { return 2 * (math.Sqrt(1+r*r) - 1) }
	sum = slice.Sum(points, func(x point) float64 { return soft(math.Log(x.guess(&c)/x.seconds) / bend) })
	for _, v := range x {
		sum += soft(v / spread)
	}
	return sum
}

// reach is the distance in octaves at which a measured size counts e^-½ of one at the same size.
// shrink is the weight of no correction.
const (
	reach  = 0.5
	shrink = 0.5
)

// correction returns the mean log error of the measured sizes near some bytes, for the same number
// of GPUs.
func correction(points []point, c *Constants, workers int, bytes float64) float64 {
	sum, weight := 0., shrink
	for i := range points {
		p := &points[i]
		octaves := math.Log2(bytes / float64(p.Bytes))
		if p.Workers != workers || math.Abs(octaves) > 3*reach {
			continue
		}
		w := math.Exp(-octaves * octaves / (2 * reach * reach))
		sum += w * math.Log(p.seconds/p.guess(c))
		weight += w
	}
	return sum / weight
}
