package pipeline

import (
	"fmt"
	"math"
)

// The layers of a group that eLLM chooses among (section 4.3.1).
const (
	mostSwapped    = 3
	mostRecomputed = 2
)

// settle fixes what the schedule leaves open. By time, each of the six groups takes the
// least share that fits with it, and that of the least time over some steps is chosen; by
// idle time it is as in eLLM (section 4.3.2): the share with the largest groups, the
// groups of least idle time, the share again.
func (r *runner) settle(s *ELLM) error {
	e := *s
	r.schedule, r.pricer.Partial = &e, &e
	open, chosen := math.IsNaN(e.Uncached), e.Swap < 0
	if chosen {
		e.Swap, e.Recompute = mostSwapped, mostRecomputed
	}
	if open {
		e.Uncached = r.leastUncached(&e)
	}
	if chosen && e.Uncached > 0 {
		choose := r.fastestGroup
		if e.ByIdle {
			choose = r.leastIdle
		}
		if err := choose(&e, open); err != nil {
			return err
		}
		r.notes = append(r.notes, fmt.Sprintf("chosen: of each %d layers %d are run again, %d are swapped in", e.Swap+e.Recompute, e.Recompute, e.Swap))
	}
	if open {
		e.Uncached = r.leastUncached(&e)
		r.notes = append(r.notes, fmt.Sprintf("chosen: %.3g of each request's tokens stay uncached, the least that fits", e.Uncached))
	}
	return nil
}

// leastIdle sets the group of least idle time, each layer like the first of a step.
func (r *runner) leastIdle(e *ELLM, _ bool) error {
	whole, err := r.wholeLayers(0)
	if err == nil {
		e.Swap, e.Recompute = chooseGroup(&whole[0])
	}
	return err
}

// fastestGroup sets the group of least time over the calibration's steps, each with its
// own share where that is open, among those that fit if one does; of equals the smaller.
func (r *runner) fastestGroup(e *ELLM, open bool) error {
	var best ELLM
	least, fits := math.Inf(1), false
	for swap, recompute := range configurations {
		if e.Swap, e.Recompute = swap, recompute; open {
			e.Uncached = r.leastUncached(e)
		}
		fit := r.memory(0).Verdict == ""
		switch {
		case fits && !fit:
			continue
		case fit && !fits:
			least, fits = math.Inf(1), true
		}
		seconds, err := r.trial(e, least)
		if err != nil {
			return err
		}
		if seconds < least {
			best, least = *e, seconds
		}
	}
	*e = best
	return nil
}

// uncachedSteps is one over the step in which the share is chosen.
const uncachedSteps = 1e4

// leastUncached is the smallest share with which the GPU's memory suffices, at most 1.
// Memory falls linearly with it and a step's time rises, so that of all shares that fit it
// serves most tokens/s.
func (r *runner) leastUncached(e *ELLM) float64 {
	at := func(share float64) float64 {
		e.Uncached = share
		mem := r.memory(0)
		return mem.GPU - mem.GPUHas
	}
	none, all := at(0), at(1)
	switch {
	case none <= 0:
		return 0
	case all >= 0:
		return 1
	}
	share := math.Ceil(none/(none-all)*uncachedSteps) / uncachedSteps
	return min(1, share)
}

// settled is the schedule with the groups that suit a step, where they are to be chosen.
func (e *ELLM) settled(s *Step) *ELLM {
	if e.Swap >= 0 {
		return e
	}
	best, least := *e, math.Inf(1)
	if e.ByIdle {
		best.Swap, best.Recompute = chooseGroup(&s.Whole[0])
		return &best
	}
	for swap, recompute := range configurations {
		c := *e
		c.Swap, c.Recompute = swap, recompute
		if seconds := c.Closed(s); seconds < least {
			best, least = c, seconds
		}
	}
	return &best
}

// atLeast is the closed form: kernels that fetch take time of the SMs beside.
func (e *ELLM) atLeast(s *Step) float64 { return e.Closed(s) }

// Idle is how long one of link and SMs waits for the other in a group of swap layers that
// move and recompute layers that are run again, each like l: what eLLM's choice among its
// six configurations is by (section 4.3.1). It leaves out that the link moves while layers
// decode as well, and compares groups of different sizes, so that the group of least idle
// time need not be the fastest.
func (l *Layer) Idle(swap, recompute int) float64 {
	return math.Abs(float64(swap)*l.Dense.Uncached.Seconds - float64(recompute)*l.Dense.Again)
}

// configurations yields the six groups, smaller ones first.
func configurations(yield func(swap, recompute int) bool) {
	for recompute := 1; recompute <= mostRecomputed; recompute++ {
		for swap := 1; swap <= mostSwapped; swap++ {
			if !yield(swap, recompute) {
				return
			}
		}
	}
}

// chooseGroup is the configuration that leaves least idle; of equals the smaller.
func chooseGroup(l *Layer) (swap, recompute int) {
	least := math.Inf(1)
	for s, r := range configurations {
		if idle := l.Idle(s, r); idle < least {
			swap, recompute, least = s, r, idle
		}
	}
	return swap, recompute
}
