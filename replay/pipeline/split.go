package pipeline

import "math"

// RecomputeTime is KVPR's Eq. 10: the time of a layer's KV where the first l positions are
// recomputed from activations and the others move meanwhile,
//
//	t(l) = l·x + max(l·g, fixed + (S − l)·y)
//
// with x, g and y the times of one position's activations over the link, of recomputing
// it, and of its KV over the link. Nothing moves at l = S.
func (d *Dense) RecomputeTime(l int) float64 {
	return float64(l)*d.Activations + max(float64(l)*d.Recompute, d.rest(l))
}

// rest is the time of the KV that is not recomputed.
func (d *Dense) rest(l int) float64 {
	if d.Positions == 0 {
		return 0
	}
	return d.KV.Part(float64(d.Positions-l) / float64(d.Positions))
}

// SplitPoint is the l of 0 … min(prompt, S) with the least RecomputeTime. Between its ends
// the function is piecewise linear with one bend, where both sides of the max are equal:
// the ends and the two integers beside the bend are all that can be least. The smallest
// of equals is taken.
func (d *Dense) SplitPoint() int {
	limit := min(d.Prompt, d.Positions)
	if limit <= 0 {
		return 0
	}
	y := (d.KV.Seconds - d.KV.Fixed) / float64(d.Positions)
	bend := math.Floor(d.KV.Seconds / (d.Recompute + y))
	best, least := 0, d.RecomputeTime(0)
	for _, at := range []float64{bend, bend + 1, float64(limit)} {
		l := int(min(max(at, 0), float64(limit)))
		if t := d.RecomputeTime(l); t < least {
			best, least = l, t
		}
	}
	return best
}

// recomputed is the mean split of a placed step's layers.
func (r *runner) recomputed() float64 {
	d, ok := r.schedule.(denser)
	if !ok {
		return 0
	}
	sum, layers := 0, 0
	for _, part := range r.step.parts() {
		for i := range part {
			sum += d.dense().split(&part[i].Dense)
		}
		layers += len(part)
	}
	return float64(sum) / float64(layers)
}
