package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

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
	EveryCell bool    // keep all cells of a schedule, not only its best
	// Progress, if not nil, is called with the searches done and their number: first with 0
	// done, then after each. Several goroutines call it.
	Progress func(done, total int)
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
	BindsParts      Binding = "parts of the batch"
	BindsFuture     Binding = "sees the future"
)

// Candidate is the best batch of one cell and schedule.
type Candidate struct {
	*Result
	// Serves is the model that the schedule serves, Oracle true if its schedule or its policy
	// knows more than a system can.
	Serves Serves `json:"serves"`
	Oracle bool   `json:"oracle"`
	// Rank is the place among the candidates that serve the same model, "2=" in a tie; empty
	// for oracles.
	Rank string `json:"rank"`
	// Ties are other cells of the schedule with as many tokens/s; none if every cell is kept.
	Ties []Cell `json:"ties"`
	// Ratio is the share of the context that the cache keeps, Fill the one that would fill
	// the GPU's memory at this batch (CacheRatio). Where whole layers move there is neither;
	// where uncached tokens do, Fill is not there.
	Ratio   *float64 `json:"cache_ratio"`
	Fill    *float64 `json:"cache_ratio_that_fills"`
	Binding Binding  `json:"binding"`

	asked Schedule // before options were chosen
}

// Dropped is a cell and schedule without a batch that fits and meets the SLO.
type Dropped struct {
	// Schedule is empty for a policy that was left out of all schedules.
	Schedule string `json:"schedule"`
	// Cell is empty for a schedule whose times do not depend on misses.
	Cell
	Reason  string  `json:"reason"`
	Binding Binding `json:"binding"`
	// FastestTPOT is that of the smallest batch; null unless it misses the SLO.
	FastestTPOT *float64 `json:"fastest_tpot_s"`
}

// Plan finds for each profile (a policy at a capacity) and schedule the batch with the most
// tokens/s that fits into memory and meets the SLO. It keeps the best cell of each schedule,
// or all of them, and names those without such a batch. It is an error if there is none.
func Plan(ctx context.Context, profiles []*Profile, o PlanOptions) (*Planned, error) {
	if o.MaxBatch < 1 || o.MaxBatch > mostRequests || !(o.SLO >= 0) {
		return nil, fmt.Errorf("largest batch %d, SLO %g s: expected 1 to %d, and at least 0", o.MaxBatch, o.SLO, mostRequests)
	}
	if len(o.Schedules) == 0 || len(profiles) == 0 {
		return nil, errors.New("nothing to choose from: expected a schedule and a profile at least")
	}
	pairs := o.pairs(profiles)
	var done atomic.Int64
	progress := func(n int64) {
		if o.Progress != nil {
			o.Progress(int(n), len(pairs))
		}
	}
	progress(0)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range pairs {
		group.Go(func() (err error) {
			p := &pairs[i]
			p.found, p.refused, err = o.best(ctx, p.profile, p.schedule)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", p.profile.Cell, p.schedule.Name(), err)
			}
			progress(done.Add(1))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var found []Candidate
	dropped := []Dropped{}
	var nearest *pair
	for i := range pairs {
		p := &pairs[i]
		if p.found != nil {
			found = append(found, *p.found)
			continue
		}
		dropped = append(dropped, p.dropped())
		if nearest == nil || p.refused.tpot < nearest.refused.tpot {
			nearest = p
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("nothing fits and meets the SLO, not even the smallest batch; nearest: %s, %s: %s", nearest.profile.Cell, nearest.schedule.Name(), nearest.refused.why)
	}
	return o.planned(found, dropped), nil
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
	batch   int
}

// dropped says why the smallest batch of a pair is refused.
func (p *pair) dropped() Dropped {
	r := &p.refused
	d := Dropped{Schedule: p.schedule.Name(), Cell: p.profile.Cell, Reason: r.why, Binding: r.binding}
	if m, _ := MovesOf(p.schedule); m != MovesMisses {
		d.Cell = Cell{}
	}
	switch r.binding {
	case BindsSLO:
		d.Reason, d.FastestTPOT = fmt.Sprintf("misses the SLO: fastest TPOT %s, at batch %d", seconds(digits(r.tpot)), r.batch), &r.tpot
	case BindsGPU, BindsHost:
		d.Reason = "does not fit: " + r.why
	}
	return d
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
		return nil, refusal{fmt.Sprintf("it divides the batch into %d parts, the largest batch is %d", s.Parts(), o.MaxBatch), math.Inf(1), BindsParts, s.Parts()}, nil
	case x.best == nil:
		return nil, limit, nil
	}
	x.best.Binding = limit.binding
	if x.best.Batch < x.good {
		x.best.Binding = BindsThroughput
	}
	o.ratios(x.best, &x.options)
	x.best.Serves, x.best.Oracle, x.best.asked = ServesOf(s), Oracle(s), s
	if m, _ := MovesOf(s); m == MovesMisses {
		x.best.Oracle = x.best.Oracle || p.Oracle()
	} else {
		x.best.Cell = Cell{}
	}
	return x.best, refusal{}, nil
}

func (m *Memory) refusal() refusal {
	if m.GPU > m.GPUHas {
		return refusal{why: m.Verdict, tpot: math.Inf(1), binding: BindsGPU}
	}
	return refusal{why: m.Verdict, tpot: math.Inf(1), binding: BindsHost}
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
