package pipeline

import (
	"context"

	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// shared holds values that batches of one model and schedule share.
type shared struct {
	// enough is a TPOT in seconds, or 0. If the mean is known to be longer, Price may return an
	// infinite TPOT with the memory but without times.
	enough float64
	mosts  [][]most // of the profile, nil before they are computed
	// bases caches the bases of results by the used resources. nil disables it.
	bases map[[schedule.Resources]bool]basis
	// operators has the prices of operators. If it is nil, each runner makes them.
	operators *operator.Set
	// scratch is reused. If it is nil, each runner makes one.
	*scratch
}

// scratch is the reused timelines and layer prices of runners that price one batch at a time.
type scratch struct {
	timeline, anew *schedule.Timeline // of a step, and of the same step with other times
	whole          prices             // of the batch
}

func newScratch() *scratch {
	return &scratch{timeline: schedule.NewTimeline(), anew: schedule.NewTimeline()}
}

// Pricer prices batches of one profile under one schedule. It is faster than Price for several
// batches, because it keeps values that they share. Goroutines do not share a Pricer.
type Pricer struct {
	profile *Profile
	options Options
}

// NewPricer returns a Pricer of a profile with options, whose batch does not count. It returns an error
// if the schedule does not serve the model.
func NewPricer(p *Profile, o Options) (*Pricer, error) {
	o.shared = shared{mosts: mosts(p), scratch: newScratch(), bases: map[[schedule.Resources]bool]basis{}}
	return &Pricer{p, o}, o.quantizable()
}

// Least returns the smallest batch of the schedule, one request for each part.
func (x *Pricer) Least() int { return x.options.parts() }

// Price prices a batch. If enough is above 0, times above this TPOT in seconds need not be exact. The
// result may then have an infinite TPOT with the memory but without times.
func (x *Pricer) Price(ctx context.Context, batch int, enough float64) (*Result, error) {
	x.options.Batch, x.options.enough = batch, enough
	return Price(ctx, x.profile, x.options)
}

// Need returns the memory of a batch without its staging, as the function Need does.
func (x *Pricer) Need(ctx context.Context, batch int) (Memory, error) {
	x.options.Batch = batch
	return Need(ctx, x.profile, x.options)
}

// Ratios returns the share of the context that a result's cache keeps, and the share that would fill
// the GPU's memory at its batch (CacheRatio).
func (x *Pricer) Ratios(r *Result) (kept, fills float64) {
	m := x.options.Model
	entry := float64(m.Entry.Value)
	index, rest := x.options.held(r.Batch)
	all := r.Memory.kv * (entry + index) / entry // all tokens with KV and index
	left := r.Memory.GPUHas - r.Memory.Weights - r.Memory.Reserve - r.Memory.Staging
	left -= rest * float64(m.Layers.Value)
	fills = CacheRatio(left/all*float64(r.Batch), float64(r.Batch), index/(entry+index))
	return rounded(r.Memory.Cache / r.Memory.kv), rounded(fills)
}
