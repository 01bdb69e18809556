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

// settle fixes what the schedule leaves open, as eLLM does (section 4.3.2): the share with
// the largest groups, the groups of least idle time, the share again.
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
		whole, err := r.wholeLayers(0)
		if err != nil {
			return err
		}
		e.Swap, e.Recompute = chooseGroup(&whole[0])
		r.notes = append(r.notes, fmt.Sprintf("chosen: of each %d layers %d are run again, %d are swapped in", e.Swap+e.Recompute, e.Recompute, e.Swap))
	}
	if open {
		e.Uncached = r.leastUncached(&e)
		r.notes = append(r.notes, fmt.Sprintf("chosen: %.3g of each request's tokens stay uncached, the least that fits", e.Uncached))
	}
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

// settled is the schedule with the groups that suit a layer, where they are to be chosen.
func (e *ELLM) settled(l *Layer) *ELLM {
	if e.Swap >= 0 {
		return e
	}
	c := *e
	c.Swap, c.Recompute = chooseGroup(l)
	return &c
}

// Idle is how long one of link and SMs waits for the other in a group of swap layers that
// move and recompute layers that are run again, each like l: what eLLM's choice among its
// six configurations is by (section 4.3.1).
func (l *Layer) Idle(swap, recompute int) float64 {
	return math.Abs(float64(swap)*l.Dense.Uncached.Seconds - float64(recompute)*l.Dense.Again)
}

// chooseGroup is the configuration that leaves least idle; of equals the smaller.
func chooseGroup(l *Layer) (swap, recompute int) {
	least := math.Inf(1)
	for r := 1; r <= mostRecomputed; r++ {
		for s := 1; s <= mostSwapped; s++ {
			if idle := l.Idle(s, r); idle < least {
				swap, recompute, least = s, r, idle
			}
		}
	}
	return swap, recompute
}
