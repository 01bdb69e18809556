package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// CacheRatio is ESS's memory planner (section 4.1): the share of its context that each of
// batch requests may keep on the GPU, where full requests fit with all of theirs,
//
//	r(B) = (B₀/B − x) / (1 − x)
//
// and index is x, the share of a token's bytes that always stays there: the indexer's. It
// is at most 1, and below 0 where not even the index fits.
func CacheRatio(full, batch, index float64) float64 {
	return min(1, (full/batch-index)/(1-index))
}

// PlanOptions are what a plan may choose from. Of Options, Schedule, Batch and Scaling are
// chosen or made by Plan.
type PlanOptions struct {
	Options
	Schedules []Schedule
	LayerMap  string
	TopK      int
	MaxBatch  int
	SLO       float64 // s, of TPOT; 0: none
}

// Binding is what keeps a candidate from a larger batch.
type Binding string

// The constraints.
const (
	BindsGPU        Binding = "GPU memory"
	BindsHost       Binding = "host memory"
	BindsSLO        Binding = "SLO"
	BindsBatch      Binding = "largest batch asked for"
	BindsTable      Binding = "edge of the table"
	BindsThroughput Binding = "nothing: throughput falls beyond"
)

// Candidate is the best batch of one cell and schedule.
type Candidate struct {
	*Result
	// Ratio is the share of the context that the cache keeps, Fill the one that would fill
	// the GPU's memory at this batch (CacheRatio). Where whole layers move there is neither;
	// where uncached tokens do, Fill is not there.
	Ratio   *float64 `json:"cache_ratio"`
	Fill    *float64 `json:"cache_ratio_that_fills"`
	Binding Binding  `json:"binding"`
}

// Plan finds for each profile (a policy at a capacity) and schedule the batch with the most
// tokens/s that fits into memory and meets the SLO, best first; of equals the smaller
// memory. It is an error if there is none, which says why.
func Plan(ctx context.Context, profiles []*Profile, o PlanOptions) ([]Candidate, error) {
	if o.MaxBatch < 1 || o.MaxBatch > mostRequests || !(o.SLO >= 0) {
		return nil, fmt.Errorf("largest batch %d, SLO %g s: expected 1 to %d, and at least 0", o.MaxBatch, o.SLO, mostRequests)
	}
	if len(o.Schedules) == 0 || len(profiles) == 0 {
		return nil, errors.New("nothing to choose from: expected a schedule and a profile at least")
	}
	pairs := o.pairs(profiles)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range pairs {
		group.Go(func() (err error) {
			p := &pairs[i]
			p.found, p.refused, err = o.best(ctx, p.profile, p.schedule)
			if err != nil {
				err = fmt.Errorf("%s, %s: %w", p.profile.Cell, p.schedule.Name(), err)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var found []Candidate
	var nearest *pair
	for i := range pairs {
		p := &pairs[i]
		if p.found != nil {
			found = append(found, *p.found)
		} else if nearest == nil || p.refused.tpot < nearest.refused.tpot {
			nearest = p
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("nothing fits and meets the SLO, not even the smallest batch; nearest: %s, %s: %s", nearest.profile.Cell, nearest.schedule.Name(), nearest.refused.why)
	}
	slices.SortStableFunc(found, func(a, b Candidate) int {
		return cmp.Or(-cmp.Compare(a.Tokens, b.Tokens), cmp.Compare(a.Memory.GPU, b.Memory.GPU))
	})
	return found, nil
}

// pair is a cell and a schedule with what its search found.
type pair struct {
	profile  *Profile
	schedule Schedule
	found    *Candidate
	refused  refusal
}

// pairs are all combinations; where no misses move, one cell stands for all.
func (o *PlanOptions) pairs(profiles []*Profile) (pairs []pair) {
	for _, s := range o.Schedules {
		for i, p := range profiles {
			if m, _ := MovesOf(s); i > 0 && m != MovesMisses {
				break
			}
			pairs = append(pairs, pair{profile: p, schedule: s})
		}
	}
	return pairs
}

// refusal says why a batch cannot be taken; the zero value that it can.
type refusal struct {
	why     string
	tpot    float64 // s; infinite where memory refuses
	binding Binding
}

// best is the best batch of one cell and schedule. Without a candidate the refusal is that
// of the smallest batch.
func (o *PlanOptions) best(ctx context.Context, p *Profile, s Schedule) (*Candidate, refusal, error) {
	x, err := newSearch(ctx, p, s, o)
	if err != nil {
		return nil, refusal{}, err
	}
	limit, err := x.run()
	switch {
	case err != nil:
		return nil, refusal{}, err
	case x.best == nil && limit.why == "":
		return nil, refusal{fmt.Sprintf("it divides the batch into %d parts, the largest batch is %d", s.Parts(), o.MaxBatch), math.Inf(1), ""}, nil
	case x.best == nil:
		return nil, limit, nil
	}
	x.best.Binding = limit.binding
	if x.best.Batch < x.good {
		x.best.Binding = BindsThroughput
	}
	o.ratios(x.best, &x.options)
	if m, _ := MovesOf(s); m != MovesMisses {
		x.best.Cell = Cell{}
	}
	return x.best, refusal{}, nil
}

func (m *Memory) refusal() refusal {
	if m.GPU > m.GPUHas {
		return refusal{m.Verdict, math.Inf(1), BindsGPU}
	}
	return refusal{m.Verdict, math.Inf(1), BindsHost}
}

// ratios compares the cache with the context, and with the memory that is left.
func (o *PlanOptions) ratios(c *Candidate, options *Options) {
	switch m, _ := MovesOf(options.Schedule); m {
	case MovesLayers:
		return
	case MovesUncached:
		if s, err := ParseSchedule(c.Schedule); err == nil { // as it was settled
			cached := 1 - s.(*ELLM).Uncached
			c.Ratio = &cached
		}
		return
	}
	entry := float64(o.Model.Entry.Value)
	index := o.Selection.HeldBytes(o.Model)
	all := c.Memory.Index * (entry + index) / index // all tokens with KV and index
	if AttendsDensely(options.Schedule) {
		index, all = 0, c.Memory.Cache // there is no index, and all KV is cached
	}
	kept := rounded(c.Memory.Cache / (all * entry / (entry + index)))
	left := c.Memory.GPUHas - c.Memory.Weights - c.Memory.Reserve - c.Memory.Staging
	fills := rounded(CacheRatio(left/all*float64(c.Batch), float64(c.Batch), index/(entry+index)))
	c.Ratio, c.Fill = &kept, &fills
}
