package pipeline

import "math"

// RecomputeTime is KVPR's Eq. 10: the time of a layer's KV if the first l positions are
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

// most is the largest number of positions that can be recomputed. Activations are kept of
// the prompt alone (KVPR, section 3.2).
func (d *Dense) most() int { return max(0, min(d.Prompt, d.Positions)) }

// SplitPoint is KVPR's Eq. 11: the l of 0 … min(prompt, S) with the least RecomputeTime.
// Between its ends the function is piecewise linear with one bend, where both sides of the
// max are equal. So only the ends and the two integers next to the bend can be least. Of
// equals it takes the smallest.
func (d *Dense) SplitPoint() int {
	limit := d.most()
	if limit == 0 {
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

// recomputed is how many positions of a layer are recomputed, n being the step's split.
func (k *KVPR) recomputed(d *Dense, n int) int {
	switch k.Recompute {
	case RecomputePaper:
		return d.SplitPoint()
	case RecomputeNone:
		return 0
	}
	return min(n, d.most())
}

// split is the step's split: the known one, or the fastest.
func (k *KVPR) split(s *Step) int {
	if s.split != nil {
		return *s.split
	}
	return k.fastest(s, NewTimeline())
}

// splitPrecision is the share of a step's time by which one split must be faster than
// another. Processors round differently, and equal times must give equal splits on all.
const splitPrecision = 1e-12

// fastest is the split with which the step takes least time on the timeline, which is used
// for trials. Of equals it takes the smallest.
//
// With n positions recomputed, every operation takes a time that is linear in n. The step
// is the longest of the paths through its operations, so its time is convex in n. Three
// cases are exceptions. With n = 0 no computation waits for activations, and if n is the
// whole context no KV moves: both are tried apart. If requests have different lengths, or
// both directions of the link slow each other, the time is only nearly convex. The result
// is then no slower than n = 0, but another n can be slightly faster.
func (k *KVPR) fastest(s *Step, t *Timeline) int {
	if k.Recompute != RecomputeFastest {
		return 0
	}
	seconds := func(n int) float64 {
		t.Reset()
		k.place(t, s, n)
		t.Contend(s)
		return t.End()
	}
	limit, whole := 0, false
	for _, part := range s.parts() {
		for i := range part {
			d := &part[i].Dense
			limit, whole = max(limit, d.most()), whole || d.most() == d.Positions
		}
	}
	if limit == 0 {
		return 0
	}
	best, least := 0, seconds(0)
	precision := splitPrecision * least
	try := func(n int) {
		if v := seconds(n); v < least-precision {
			best, least = n, v
		}
	}
	last := limit
	if whole {
		last = max(1, limit-1)
	}
	near := s.parts()[0][0].Dense.SplitPoint()
	try(bottom(1, last, near, func(n int) bool { return seconds(n+1) < seconds(n)-precision }))
	if whole {
		try(limit)
	}
	return best
}

// bottom is the first number of low … high after which a convex function falls no more.
// falls says whether it falls from n to n + 1. The search begins at near, and moves away
// from it in growing steps.
func bottom(low, high, near int, falls func(n int) bool) int {
	at, stride := near, 1
	for low < high {
		if at < low || at >= high {
			at = low + (high-low)/2
		}
		if falls(at) {
			low = at + 1
			at += stride
		} else {
			high = at
			at -= stride
		}
		stride *= 2
	}
	return low
}

// moved are the bytes that a step moves to the GPU for its layers' KV, weights not counted.
func (k *KVPR) moved(s *Step) (bytes float64) {
	split := k.split(s)
	for _, part := range s.parts() {
		for i := range part {
			d := &part[i].Dense
			if d.Positions == 0 {
				continue
			}
			n := float64(k.recomputed(d, split))
			bytes += d.Bytes*(1-n/float64(d.Positions)) + n*d.ActivationBytes
		}
	}
	return bytes
}

// chooseSplit sets the split of the priced step.
func (r *runner) chooseSplit() {
	d, ok := r.schedule.(denser)
	if !ok {
		return
	}
	k := d.dense()
	r.split = k.fastest(&r.step, r.timeline)
	r.step.split = &r.split
	for _, part := range r.step.parts() {
		for i := range part {
			r.pricer.recomputed = max(r.pricer.recomputed, float64(k.recomputed(&part[i].Dense, r.split)))
		}
	}
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
			sum += d.dense().recomputed(&part[i].Dense, r.split)
		}
		layers += len(part)
	}
	return float64(sum) / float64(layers)
}
