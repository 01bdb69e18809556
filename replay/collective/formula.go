package collective

import (
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// Method is the program that reduces.
type Method uint8

// The methods. NCCL is NVIDIA's library, over NVLink as over PCIe. Kernels are the one-shot and
// two-shot kernels of a serving engine, over NVLink.
const (
	NCCL Method = iota
	Kernels
	methods
)

var methodNames = [methods]string{"nccl", "kernels"}

func (m Method) String() string { return methodNames[m] }

// Constants are the constants of the formulas.
type Constants struct {
	Call  float64 // start and end of a call on the GPU, s
	Hop   float64 // one step over NVLink: of a tree, or a barrier between two phases, s
	Share float64 // share of the link's rate that the bytes reach
}

// link is the link of a GPU to the others of its host.
type link struct {
	rate float64 // in each direction, bytes/s
	pcie bool
}

// overPCIe is the time of a hop over PCIe divided by that over NVLink: 1.0 us by 0.6 us in NCCL's own
// model (hwLat of src/graph/tuning.cc, quoted in https://github.com/NVIDIA/nccl/issues/1334).
const overPCIe = 1.0 / 0.6

// hop returns the seconds of a step over a link.
func (c *Constants) hop(l link) float64 {
	if l.pcie {
		return c.Hop * overPCIe
	}
	return c.Hop
}

// protocol is a way in which NCCL sends bytes. Its figures are relative to the constants.
type protocol struct{ call, hop, share float64 }

// nvlink are LL and Simple of NCCL. LL sends a flag of 4 bytes with each 4 bytes, so half of the rate is left.
// Simple waits for barriers. Its ratios of call and hop are those of NCCL's own model for rings over NVLink:
// baseLat and hwLat, quoted in https://github.com/NVIDIA/nccl/issues/1334. Measured times over PCIe are those
// of one protocol.
var (
	nvlink = []protocol{{1, 1, 1. / 2}, {8.4 / 6.6, 3.4 / 0.6, 1}}
	pcie   = []protocol{{1, 1, 1}}
)

// allReduce returns the seconds of an all-reduce of some bytes on each of n GPUs. NCCL takes the faster
// of its protocols, and sends the bytes of a ring:
//
//	call + 2·log2(n)·hop + 2·(n−1)/n·bytes / (share·link)
//
// NCCL's own model has 2·(n−1) hops in a host. Measured times grow less.
//
// A one-shot kernel reads the buffers of all other GPUs. A two-shot kernel reads a part of each, and
// after a barrier the sums of the others. Engines choose the faster one:
//
//	call + min((n−1)·bytes, hop·share·link + 2·(n−1)/n·bytes) / (share·link)
func (c *Constants) allReduce(by Method, l link, n, bytes float64) float64 {
	rate := c.Share * l.rate
	ring := 2 * (n - 1) / n * bytes / rate
	if by == NCCL {
		protocols := nvlink
		if l.pcie {
			protocols = pcie
		}
		return slices.Min(slice.Map(protocols, func(p protocol) float64 {
			return p.call*c.Call + 2*math.Log2(n)*p.hop*c.hop(l) + ring/p.share
		}))
	}
	return c.Call + min((n-1)*bytes/rate, c.hop(l)+ring)
}

// point is a measured all-reduce on a link.
type point struct {
	*Measurement
	link
	seconds float64
}

func (p *point) guess(c *Constants) float64 {
	return c.allReduce(p.Method, p.link, float64(p.Workers), float64(p.Bytes))
}

// Constants of the fit. An error below bend counts squared, a larger one linearly. The prior pulls
// constants to their start: the factor e^spread weighs as much as one error of bend.
const (
	bend   = 0.1
	spread = 1.
	finest = 1e-3 // last step of the search, in logs
)

// The first constants of a fit: all, or the share alone.
const (
	everything = 0
	shareAlone = 2
)

// assumed is where fits start: call and hop of NCCL's own model for few bytes over NVLink (baseLat and
// hwLat, the same page). The share is assumed.
var assumed = Constants{Call: 6.8e-6, Hop: 0.6e-6, Share: 0.7}

// fit returns the constants with the least soft errors of log times. Those before first are kept. It
// tries steps along the log of each, and halves them if none is better. It is deterministic.
func fit(points []point, start Constants, first int) Constants {
	var x [3]float64
	best := loss(points, start, x)
	for step := 0.5; step > finest; {
		improved := false
		for i := first; i < len(x); i++ {
			for _, sign := range []float64{1, -1} {
				next := x
				next[i] += sign * step
				if l := loss(points, start, next); l < best {
					x, best, improved = next, l, true
					break
				}
			}
		}
		if !improved {
			step /= 2
		}
	}
	return start.at(x)
}

// at returns the constants at logs relative to c.
func (c Constants) at(x [3]float64) Constants {
	return Constants{c.Call * math.Exp(x[0]), c.Hop * math.Exp(x[1]), min(1, c.Share*math.Exp(x[2]))}
}

// loss is the sum of soft errors, 2·(√(1+r²) − 1), of the points and of the prior.
func loss(points []point, start Constants, x [3]float64) (sum float64) {
	c := start.at(x)
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
		if p.Workers != workers {
			continue
		}
		octaves := math.Log2(bytes / float64(p.Bytes))
		if math.Abs(octaves) > 3*reach {
			continue
		}
		w := math.Exp(-octaves * octaves / (2 * reach * reach))
		sum += w * math.Log(p.seconds/p.guess(c))
		weight += w
	}
	return sum / weight
}
