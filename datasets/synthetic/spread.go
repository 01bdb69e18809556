package synthetic

import (
	"math"
	"math/rand/v2"
)

// spread returns the dials of a stream: those of its layer and head, the churn spread
// over layers, then over the heads of a layer.
func (d *Dials) spread(layer, head int) Locality {
	l := d.at(layer, head)
	if d.LayerSpread > 0 {
		l.spread(d.LayerSpread, source(d.Seed, ofLayer, uint64(layer), 0, 0), d.TopK)
	}
	if d.HeadSpread > 0 {
		l.spread(d.HeadSpread, source(d.Seed, ofHead, uint64(layer), uint64(head), 0), d.TopK)
	}
	return l
}

// mostSpread is the factor by which a spread changes churn at most.
const mostSpread = 4

// spread draws a churn: log-normal with that deviation of its logarithm, cut at a factor
// of mostSpread each way and as far as the other dials allow. Its mean is the churn
// before.
func (l *Locality) spread(deviation float64, r *random, topK int) {
	k := float64(topK)
	churn := churnOf(l, k)
	least, most := max(1, churn/mostSpread), min(churn*mostSpread, restDemand(l, k)+1)
	z := rand.New(r).NormFloat64()
	l.Overlap = 1 - max(least, min(most, math.Exp(centre(churn, deviation, least, most)+deviation*z)))/k
}

// centre is the mean logarithm of log-normal values that have that mean once those below
// least and above most are set to these.
func centre(mean, deviation, least, most float64) float64 {
	lo, hi := math.Log(least)-8*deviation, math.Log(most)+8*deviation
	for range 50 {
		if mid := (lo + hi) / 2; cutMean(mid, deviation, least, most) < mean {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// cutMean is the mean of log-normal values, those below least and above most set to these.
func cutMean(mu, sigma, least, most float64) float64 {
	below := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) } // normal distribution
	a, b := (math.Log(least)-mu)/sigma, (math.Log(most)-mu)/sigma
	return least*below(a) + math.Exp(mu+sigma*sigma/2)*(below(b-sigma)-below(a-sigma)) + most*below(-b)
}
