package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// Options are the choices of a plan. Search sets Schedule, Batch and Scaling of Options.
type Options struct {
	pipeline.Options
	Schedules []schedule.Schedule
	LayerMap  string
	TopK      int
	MaxBatch  int
	SLO       float64 // longest TPOT in seconds, 0 for none
	EveryCell bool    // keep all cells of a schedule instead of its best
	// Progress, if not nil, gets the number of finished searches and their total, first with 0 and
	// then after each search. Several goroutines call it.
	Progress func(done, total int)
}

// Binding is the constraint that prevents a larger batch, or a faster one.
type Binding string

// The constraints.
const (
	BindsGPU        Binding = "GPU memory"
	BindsHost       Binding = "host memory"
	BindsSLO        Binding = "SLO"
	BindsBatch      Binding = "largest batch (--max-batch)"
	BindsThroughput Binding = "nothing: throughput falls beyond"
	BindsParts      Binding = "parts of the batch"
	BindsModel      Binding = "model"
	BindsFuture     Binding = "sees the future"
)

// Candidate is the best batch of one cell and schedule.
type Candidate struct {
	*pipeline.Result
	// Serves is the model that the schedule serves. Oracle is true if its schedule or its policy
	// knows more than a system can.
	Serves schedule.Serves `json:"serves"`
	Oracle bool            `json:"oracle"`
	// Rank is the place among the candidates that serve the same model, "2=" in a tie. It is empty
	// for oracles.
	Rank string `json:"rank"`
	// Ties are other cells of the schedule within pipeline.TieShare of its tokens/s, or as near as the errors of
	// the model. It is empty if every cell is kept.
	Ties []pipeline.Cell `json:"ties"`
	// Ratio is the share of the context that the cache keeps. Fill is the share that would fill the
	// GPU's memory at this batch (pipeline.CacheRatio). Both are nil if whole layers move. Fill is nil if
	// uncached tokens move.
	Ratio   *float64 `json:"cache_ratio"`
	Fill    *float64 `json:"cache_ratio_that_fills"`
	Binding Binding  `json:"binding"`

	asked schedule.Schedule // schedule before its options were chosen
}

// Dropped is a cell and schedule without a batch that fits and meets the SLO.
type Dropped struct {
	// Schedule is empty if all schedules dropped the policy.
	Schedule string `json:"schedule"`
	// Cell is empty for a schedule whose times do not depend on misses.
	pipeline.Cell
	Reason  string  `json:"reason"`
	Binding Binding `json:"binding"`
	// FastestTPOT is the TPOT of the smallest batch. It is null unless it misses the SLO.
	FastestTPOT *float64 `json:"fastest_tpot_s"`
}

// Search searches a batch for each profile (a policy at a capacity) and schedule. The batch must fit
// into memory, meet the SLO and have the most tokens/s. Search keeps the best cell of each schedule,
// or all of them. It names those without such a batch. If there is none at all, it returns an
// error.
func Search(ctx context.Context, profiles []*pipeline.Profile, o Options) (*Plan, error) {
	if o.MaxBatch < 1 || o.MaxBatch > pipeline.MostRequests || !(o.SLO >= 0) {
		return nil, fmt.Errorf("largest batch %d and SLO %g s: expected 1 to %d requests and at least 0 s", o.MaxBatch, o.SLO, pipeline.MostRequests)
	}
	if len(o.Schedules) == 0 || len(profiles) == 0 {
		return nil, errors.New("no schedule or no profile: expected at least one of each")
	}
	pairs, err := o.pairs(profiles)
	if err != nil {
		return nil, err
	}
	if err := o.search(ctx, pairs); err != nil {
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
		if nearest == nil || p.refused.tpot < nearest.refused.tpot || nearest.refused.binding == BindsModel {
			nearest = p
		}
	}
	if len(found) == 0 {
		return nil, o.nothing(nearest)
	}
	return o.planned(found, dropped), nil
}

// pairs returns the cells and schedules to search. A schedule whose result does not depend on the cell has
// one of them.
func (o *Options) pairs(profiles []*pipeline.Profile) (pairs []pair, err error) {
	for _, s := range o.Schedules {
		for _, p := range profiles {
			if !pipeline.Decodes(s, p) {
				continue
			}
			pairs = append(pairs, pair{profile: p, schedule: s})
			if !schedule.HasCell(s) {
				break
			}
		}
	}
	switch {
	case len(pairs) > 0:
		return pairs, nil
	case profiles[0].Lossy():
		return nil, fmt.Errorf("no schedule decodes with %s: add kept, which serves lossy policies", profiles[0].Cell)
	}
	return nil, fmt.Errorf("schedule kept serves lossy policies, and %s keeps all entries: add another schedule", profiles[0].Cell)
}

// search finds the best batch of each pair.
func (o *Options) search(ctx context.Context, pairs []pair) error {
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
	return group.Wait()
}

// nothing returns the error of a search in which no pair fits. It names the pair that is nearest to fitting.
func (o *Options) nothing(nearest *pair) error {
	if nearest.refused.binding == BindsModel {
		return fmt.Errorf("schedule %s: %s", nearest.schedule.Name(), nearest.refused.why)
	}
	split := "divide the model among GPUs (kvreplay time --tensor-parallel)"
	if o.Model.MoE != nil {
		split = "divide the experts among more GPUs (--expert-gpus)"
	}
	and, remedy := "", "shorten the context, give more memory, or "+split
	if flag := nearest.refused.remedy; flag != "" {
		remedy = flag + ", or shorten the context"
	}
	if o.SLO > 0 {
		and = " and meets the SLO"
	}
	if nearest.refused.binding == BindsSLO {
		remedy = "raise the SLO, shorten the context, or take a faster GPU"
	}
	return fmt.Errorf("nothing fits%s at the smallest batch; nearest: %s, %s: %s; %s", and, nearest.profile.Cell, nearest.schedule.Name(), nearest.refused.why, remedy)
}

// pair is a cell and a schedule with the result of its search.
type pair struct {
	profile  *pipeline.Profile
	schedule schedule.Schedule
	found    *Candidate
	refused  refusal
}

// refusal is the reason to refuse a batch. The zero value refuses nothing.
type refusal struct {
	why     string
	tpot    float64 // s, infinite if memory refuses
	binding Binding
	batch   int
	remedy  string // that Memory names
}

// dropped returns why the smallest batch of a pair is refused.
func (p *pair) dropped() Dropped {
	r := &p.refused
	d := Dropped{Schedule: p.schedule.Name(), Cell: p.profile.Cell, Reason: r.why, Binding: r.binding}
	if !schedule.HasCell(p.schedule) {
		d.Cell = pipeline.Cell{}
	}
	switch r.binding {
	case BindsSLO:
		d.Reason, d.FastestTPOT = fmt.Sprintf("misses the SLO: fastest TPOT %s, at batch %d", hardware.Seconds(digits(r.tpot)), r.batch), &r.tpot
	case BindsGPU, BindsHost:
		d.Reason = "does not fit: " + r.why
	}
	return d
}

// best searches the best batch of one cell and schedule. Without a candidate, the refusal is that
// of the smallest batch.
func (o *Options) best(ctx context.Context, p *pipeline.Profile, s schedule.Schedule) (*Candidate, refusal, error) {
	x := &search{ctx: ctx, schedule: s, slo: o.SLO, most: o.MaxBatch}
	options := o.Options
	options.Schedule = s
	var err error
	if options.Scaling, err = pipeline.NewScaling(p, o.Model, o.LayerMap, o.TopK); err != nil {
		return nil, refusal{}, err
	}
	if x.pricer, err = pipeline.NewPricer(p, options); err != nil {
		return nil, refusal{why: err.Error(), tpot: math.Inf(1), binding: BindsModel}, nil
	}
	limit, err := x.run()
	c := x.best
	switch {
	case err != nil:
		return nil, refusal{}, err
	case c == nil && limit.why == "":
		return nil, refusal{fmt.Sprintf("it divides the batch into %d parts, but the largest batch is %d", x.pricer.Least(), o.MaxBatch), math.Inf(1), BindsParts, x.pricer.Least(), ""}, nil
	case c == nil:
		return nil, limit, nil
	}
	if c.Binding, err = x.binding(limit.binding); err != nil {
		return nil, refusal{}, err
	}
	x.ratios(c)
	traits := s.Traits()
	c.Serves, c.Oracle, c.asked = traits.Serves, traits.Predicted > 0, s
	if schedule.HasCell(s) {
		if o.Entry.Lossy() && traits.Moves == schedule.MovesMisses {
			c.Serves = schedule.LossyTopK
		}
		c.Oracle = c.Oracle || p.Oracle()
	} else {
		c.Cell = pipeline.Cell{}
	}
	return c, refusal{}, nil
}

// ratios compares the cache with the context and with the remaining memory.
func (x *search) ratios(c *Candidate) {
	switch x.schedule.Traits().Moves {
	case schedule.MovesLayers, schedule.MovesQueries:
		return
	case schedule.MovesUncached:
		if s, err := schedule.Parse(c.Schedule); err == nil { // with its chosen options
			c.Ratio = new(1 - s.(*schedule.ELLM).Uncached)
		}
		return
	}
	kept, fills := x.pricer.Ratios(c.Result)
	c.Ratio, c.Fill = &kept, &fills
}

// search finds the batch of one cell and schedule.
type search struct {
	ctx      context.Context
	pricer   *pipeline.Pricer
	schedule schedule.Schedule
	slo      float64 // longest TPOT in seconds, 0 for none
	most     int     // largest batch
	best     *Candidate
	good     int   // largest feasible batch, 0 before the first
	tried    []int // batches tried so far
	slow     []int // those that only the SLO refuses
}

// binding returns the constraint of the best batch. limit refuses a batch above the largest feasible
// one. If the best is smaller, throughput falls beyond it, unless the SLO refuses a faster batch. The
// candidates are the batches that the search tried, and their doubles.
func (x *search) binding(limit Binding) (Binding, error) {
	switch {
	case x.best.Batch == x.good:
		return limit, nil
	case len(x.slow) == 0:
		return BindsThroughput, nil
	}
	refused := slices.Clone(x.slow)
	for batch := 2 * slices.Max(refused); batch <= x.most; batch *= 2 {
		refused = append(refused, batch)
	}
	free := *x // of the SLO
	free.slo = 0
	for _, batch := range refused {
		switch r, why, err := free.price(batch, 0); {
		case err != nil:
			return "", err
		case why.why == "" && r.Tokens > x.best.Tokens:
			return BindsSLO, nil
		}
	}
	return BindsThroughput, nil
}

// run doubles the batch while it is feasible. It then halves the gap to the first infeasible batch,
// whose refusal is limit. If a smaller batch than the largest has the most tokens/s, refine also
// halves the gaps next to it.
func (x *search) run() (limit refusal, err error) {
	limit = refusal{binding: BindsBatch}
	bad := 0 // smallest infeasible batch, 0 before the first
	narrow := func(batch int) error {
		why, err := x.try(batch)
		if why.why != "" {
			bad, limit = batch, why
		}
		return err
	}
	for batch := x.pricer.Least(); bad == 0 && batch <= x.most; batch = min(2*batch, max(x.most, batch+1)) {
		if err := narrow(batch); err != nil {
			return limit, err
		}
	}
	for x.good > 0 && bad-x.good > 1 {
		if err := narrow((x.good + bad) / 2); err != nil {
			return limit, err
		}
	}
	if x.best == nil {
		return limit, nil
	}
	return limit, x.refine()
}

// refine halves the wider gap between the best batch and the nearest tried ones, until both
// neighbours were tried. The result is the best of all if tokens/s rise and then fall. If the
// largest feasible batch is better than the one below it, there is nothing to do.
func (x *search) refine() error {
	if x.best.Batch == x.good && x.good > x.pricer.Least() && !slices.Contains(x.tried, x.good-1) {
		if _, err := x.try(x.good - 1); err != nil {
			return err
		}
	}
	for {
		lower, upper := x.pricer.Least()-1, x.good+1 // nearest batches that need not be tried
		for _, batch := range x.tried {
			if batch < x.best.Batch {
				lower = max(lower, batch)
			}
			if batch > x.best.Batch {
				upper = min(upper, batch)
			}
		}
		batch := x.best.Batch
		switch {
		case batch == x.good:
			return nil
		case upper-batch > 1 && upper-batch >= batch-lower:
			batch = (batch + upper) / 2
		case batch-lower > 1:
			batch = (batch + lower) / 2
		default:
			return nil
		}
		if _, err := x.try(batch); err != nil {
			return err
		}
	}
}

// try prices a batch and keeps it if it is the best so far. A non-zero refusal means that the batch
// is not feasible.
func (x *search) try(batch int) (refusal, error) {
	x.tried = append(x.tried, batch)
	enough := 0.
	if x.best != nil { // exact times above the SLO are then not needed
		enough = x.slo
	}
	r, why, err := x.price(batch, enough)
	if why.binding == BindsSLO {
		x.slow = append(x.slow, batch)
	}
	if err != nil || why.why != "" {
		return why, err
	}
	x.good = max(x.good, batch)
	if x.best == nil || r.Tokens > x.best.Tokens {
		x.best = &Candidate{Result: r}
	}
	return why, nil
}

// price prices one batch unless it is known to be too large. The memory of eLLM follows only from
// prices.
func (x *search) price(batch int, enough float64) (*pipeline.Result, refusal, error) {
	if x.schedule.Traits().Moves != schedule.MovesUncached {
		need, err := x.pricer.Need(x.ctx, batch)
		if err != nil || need.Verdict != "" {
			return nil, refuse(&need), err
		}
	}
	r, err := x.pricer.Price(x.ctx, batch, enough)
	switch {
	case err != nil:
		return nil, refusal{}, err
	case !r.Fits():
		return r, refuse(&r.Memory), nil
	case x.slo > 0 && r.TPOT > x.slo:
		return r, refusal{fmt.Sprintf("a token takes %s at batch %d, the SLO is %s", hardware.Seconds(r.TPOT), r.Batch, hardware.Seconds(x.slo)), r.TPOT, BindsSLO, r.Batch, ""}, nil
	}
	return r, refusal{}, nil
}

// refuse returns the refusal of a batch by its memory.
func refuse(m *pipeline.Memory) refusal {
	r := refusal{why: m.Verdict, tpot: math.Inf(1), binding: BindsHost, remedy: m.Remedy}
	if m.GPU > m.GPUHas {
		r.binding = BindsGPU
	}
	return r
}
