package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// search is that for the batch of one cell and schedule.
type search struct {
	ctx     context.Context
	profile *Profile
	slo     float64 // s, of TPOT; 0: none
	most    int     // batch
	options Options
	best    *Candidate
	good    int   // the largest feasible batch, 0: none yet
	tried   []int // batches, feasible or not
}

func newSearch(ctx context.Context, p *Profile, s Schedule, o *PlanOptions) (*search, error) {
	x := &search{ctx: ctx, profile: p, slo: o.SLO, most: o.MaxBatch, options: o.Options}
	x.options.Schedule, x.options.mosts, x.options.timeline = s, mosts(p), NewTimeline()
	x.options.bases = map[[resources]bool]basis{}
	var err error
	x.options.Scaling, err = NewScaling(p, o.Model, o.LayerMap, o.TopK)
	return x, err
}

// run doubles the batch while it is feasible, then halves the gap to the first that is
// not, which limit refuses. Where a smaller batch than the largest has the most tokens/s,
// the gaps beside it are halved as well.
func (x *search) run() (limit refusal, err error) {
	limit = refusal{binding: BindsBatch}
	bad := 0 // the smallest batch that is not feasible, 0: none yet
	for batch := x.options.Schedule.Parts(); bad == 0 && batch <= x.most; batch = min(2*batch, max(x.most, batch+1)) {
		why, err := x.try(batch)
		if err != nil {
			return limit, err
		}
		if why.why != "" {
			bad, limit = batch, why
		}
	}
	for x.good > 0 && bad-x.good > 1 {
		middle := (x.good + bad) / 2
		why, err := x.try(middle)
		if err != nil {
			return limit, err
		}
		if why.why != "" {
			bad, limit = middle, why
		}
	}
	if x.best == nil {
		return limit, nil
	}
	return limit, x.refine()
}

// refine halves the wider of the gaps between the best batch and those tried beside it,
// until both neighbours were tried: the best of all where tokens/s rise and then fall.
// Where the largest feasible batch is better than the one below it, nothing is to be done.
func (x *search) refine() error {
	if x.best.Batch == x.good && x.good > x.options.Schedule.Parts() {
		if err := x.once(x.good - 1); err != nil {
			return err
		}
	}
	for {
		below, above := x.beside()
		batch := x.best.Batch
		switch {
		case batch == x.good:
			return nil
		case above-batch > 1 && above-batch >= batch-below:
			batch = (batch + above) / 2
		case batch-below > 1:
			batch = (batch + below) / 2
		default:
			return nil
		}
		if err := x.once(batch); err != nil {
			return err
		}
	}
}

// beside are the batches nearest to the best, below and above it, that need not be tried.
func (x *search) beside() (below, above int) {
	below, above = x.options.Schedule.Parts()-1, x.good+1
	for _, batch := range x.tried {
		if batch < x.best.Batch {
			below = max(below, batch)
		}
		if batch > x.best.Batch {
			above = min(above, batch)
		}
	}
	return below, above
}

// once tries a batch, feasible or not, unless it was tried.
func (x *search) once(batch int) error {
	if slices.Contains(x.tried, batch) {
		return nil
	}
	_, err := x.try(batch)
	return err
}

// try prices a batch and keeps it if it is the best yet; the refusal says why it is not
// feasible.
func (x *search) try(batch int) (refusal, error) {
	x.tried, x.options.Batch = append(x.tried, batch), batch
	if x.options.enough = 0; x.best != nil { // what is too slow need not be known then
		x.options.enough = x.slo
	}
	r, why, err := x.price()
	if err != nil || why.why != "" {
		return why, err
	}
	x.good = max(x.good, batch)
	if x.best == nil || r.Tokens > x.best.Tokens {
		x.best = &Candidate{Result: r}
	}
	return why, nil
}

// price prices one batch, unless it is known to be too large. What eLLM needs follows from
// prices.
func (x *search) price() (*Result, refusal, error) {
	if m, _ := MovesOf(x.options.Schedule); m != MovesUncached {
		need, err := Need(x.ctx, x.profile, x.options)
		if err != nil || need.Verdict != "" {
			return nil, need.refusal(), err
		}
	}
	r, err := Price(x.ctx, x.profile, x.options)
	switch {
	case errors.Is(err, ErrBeyond):
		return nil, refusal{why: err.Error(), tpot: math.Inf(1), binding: BindsTable}, nil
	case err != nil:
		return nil, refusal{}, err
	case !r.Fits():
		return r, r.Memory.refusal(), nil
	case x.slo > 0 && r.TPOT > x.slo:
		return r, refusal{fmt.Sprintf("a token takes %s at batch %d, the SLO is %s", hardware.Seconds(r.TPOT), r.Batch, hardware.Seconds(x.slo)), r.TPOT, BindsSLO, r.Batch}, nil
	}
	return r, refusal{}, nil
}
