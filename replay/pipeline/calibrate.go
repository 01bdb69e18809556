package pipeline

import (
	"math"

	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// choose makes the open choices of the schedule. By time, each of the six groups gets the least
// share that fits, and the group with the least time over some steps is chosen. By idle time it
// follows eLLM (section 4.3.2): the share with the largest groups, the groups with the least idle
// time, then the share again.
func (r *runner) choose(s *schedule.ELLM) error {
	e := *s
	r.Schedule, r.ellm = &e, &e
	open, chosen := math.IsNaN(e.Uncached), e.Swap < 0
	if chosen {
		e.Swap, e.Recompute = schedule.MostSwapped, schedule.MostRecomputed
	}
	if open {
		e.Uncached = r.leastUncached(&e)
	}
	if chosen && e.Uncached > 0 {
		if err := r.chooseGroup(&e, open); err != nil {
			return err
		}
		r.note("chosen: in each group of %d layers %d run again and %d are swapped in", e.Swap+e.Recompute, e.Recompute, e.Swap)
	}
	if open {
		e.Uncached = r.leastUncached(&e)
		if mem := r.memory(0); mem.GPU > mem.GPUHas {
			r.note("no share of uncached tokens fits: layers run again over these tokens, and the reserve holds their activations")
		} else {
			r.note("chosen: %.3g of each request's tokens stay uncached, the smallest share that fits", e.Uncached)
		}
	}
	return nil
}

// chooseGroup sets the group with the least idle time, or with the least time over the
// calibration's steps. For idle time it takes every layer to be like the first of a step. By time,
// each group gets its own share if that is open. Groups that fit are preferred. Among equals it
// takes the smaller.
func (r *runner) chooseGroup(e *schedule.ELLM, open bool) error {
	if e.ByIdle {
		err := r.priceStep(0)
		if err == nil {
			e.Swap, e.Recompute = schedule.LeastIdle(&r.step.Whole[0])
		}
		return err
	}
	var best schedule.ELLM
	least, fits := math.Inf(1), false
	for swap, recompute := range schedule.Configurations {
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

// uncachedSteps is the inverse of the step in which the share is chosen.
const uncachedSteps = 1e4

// leastUncached returns the smallest share that fits into the GPU's memory, at most 1. Memory falls
// linearly with the share and a step's time rises. So this share has the most tokens/s of all that
// fit.
func (r *runner) leastUncached(e *schedule.ELLM) float64 {
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

// calibrate sets SFC's number of micro-batches to the divisor of the batch with the least time over
// some steps (KVDrive, section 5.3).
func (r *runner) calibrate() error {
	best, least := 1, math.Inf(1)
	for n := 1; n <= r.Batch; n++ {
		if r.Batch%n != 0 {
			continue
		}
		sum, err := r.trial(&schedule.SFC{N: n}, least)
		if err != nil {
			return err
		}
		if sum < least {
			best, least = n, sum
		}
	}
	r.Schedule = &schedule.SFC{N: best}
	r.note("calibrated: %d micro-batches", best)
	return nil
}

// calibrationSteps is the number of evenly spread steps on which micro-batches and eLLM's groups
// are chosen.
const calibrationSteps = 8

// bounded is a schedule with a lower bound of a step's time.
type bounded interface {
	schedule.Schedule
	AtLeast(s *schedule.Step) float64
}

// trial returns the time of a schedule over the calibration's steps. It returns infinity once the
// time is known to be at least least.
func (r *runner) trial(s bounded, least float64) (sum float64, err error) {
	r.Schedule = s
	steps := min(calibrationSteps, r.batch.Steps)
	for i := range steps {
		if err := r.priceStep(i * r.batch.Steps / steps); err != nil {
			return 0, err
		}
		if sum+s.AtLeast(&r.step)*(1-1e-9) >= least {
			return math.Inf(1), nil
		}
		r.placePriced()
		sum += r.timeline.End()
	}
	return sum, nil
}
