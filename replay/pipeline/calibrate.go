package pipeline

import (
	"fmt"
	"math"
)

// calibrationSteps are the steps that micro-batches and eLLM's groups are chosen on,
// evenly spread.
const calibrationSteps = 8

// calibrate chooses SFC's number of micro-batches: the divisor of the batch with the
// least time over some steps (KVDrive, section 5.3).
func (r *runner) calibrate() error {
	best, least := 1, math.Inf(1)
	for _, n := range divisors(r.options.Batch) {
		sum, err := r.trial(&SFC{N: n}, least)
		if err != nil {
			return err
		}
		if sum < least {
			best, least = n, sum
		}
	}
	r.schedule = &SFC{N: best}
	r.notes = append(r.notes, fmt.Sprintf("calibrated: %d micro-batches", best))
	return nil
}

// bounded is a schedule with a lower bound of a step's time.
type bounded interface {
	Schedule
	atLeast(s *Step) float64
}

// trial is the time of a schedule over the calibration's steps, infinite as soon as it is
// known to be least or more. With a table, whose edges are errors, all steps are priced.
func (r *runner) trial(s bounded, least float64) (sum float64, err error) {
	r.schedule = s
	steps := min(calibrationSteps, r.batch.Steps)
	for i := range steps {
		if err := r.priceStep(i * r.batch.Steps / steps); err != nil {
			return 0, err
		}
		if r.options.Table == nil && sum+s.atLeast(&r.step)*(1-1e-9) >= least {
			return math.Inf(1), nil
		}
		r.lay()
		sum += r.timeline.End()
	}
	return sum, nil
}

// divisors are the micro-batch counts that calibration tries.
func divisors(batch int) (ns []int) {
	for n := 1; n <= batch; n++ {
		if batch%n == 0 {
			ns = append(ns, n)
		}
	}
	return ns
}

// atLeast is a lower bound of the step's time with micro-batches: what the busiest
// resource does.
func (c *SFC) atLeast(s *Step) float64 {
	var sms, link, host, drive float64
	for i := range s.Whole {
		l := &s.Whole[i]
		sms += l.Project + l.Pre + l.Attend + l.Post
		host += l.Update
	}
	for _, part := range s.parts() {
		for i := range part {
			l := &part[i]
			sms += l.Select
			link += l.Fetch.Seconds + l.Hop.Seconds
			host += l.LookupCPU
			drive += l.Read
		}
	}
	return max(sms, link, host, drive)
}
