package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Options are what to price a profile with.
type Options struct {
	Machine   *hardware.Machine
	Model     *hardware.Model
	Scaling   *Scaling
	Selection Selection
	Schedule  Schedule
	Batch     int
	Seed      uint64
	Steps     int     // 0: as many as the longest request has
	Context   int64   // tokens of every request; 0: the profile's
	Positions int     // that a step decodes of every request; 0: the profile's
	Accept    float64 // tokens that a step yields; 0: 1, for steps of one position
	Experts   int     // GPUs that share routed experts; 0: as few as leave half of each GPU free
	Threads   int     // of the host, that look up
	Reserve   float64 // share of GPU memory kept for activations and workspace
	Path      string  // call, batch, kernel; "" or fastest: the fastest for each fetch
	Merge     bool    // adjacent missed blocks move as one piece
	Fragments int64   // places that a block lies in; 0: 1
	Depth     int64   // reads in flight to the SSD
	Ahead     ReadAhead
	// Table, if not nil, replaces the roofline where it has times.
	Table func(rest Computer) (Computer, error)

	// enough is a TPOT: where the mean is known to be longer, Price may return one that is
	// infinite, with the memory but without times. 0: never.
	enough float64
	mosts  [][]most // of the profile; nil: not yet known
	// timeline is empty and is used again; nil: one of its own.
	timeline *Timeline
}

// Result is what a batch takes.
type Result struct {
	Machine  string `json:"machine"`
	Model    string `json:"model"`
	Schedule string `json:"schedule"`
	Cell
	Batch   int     `json:"batch"`
	Steps   int     `json:"steps"`
	Experts int     `json:"expert_gpus"`
	Accept  float64 `json:"tokens_per_step"`

	Mean   float64  `json:"step_mean_s"`
	P50    float64  `json:"step_p50_s"`
	P95    float64  `json:"step_p95_s"`
	P99    float64  `json:"step_p99_s"`
	TPOT   float64  `json:"tpot_s"`               // mean step ÷ tokens a step
	OTPS   float64  `json:"tokens_per_s_request"` // its inverse
	Tokens float64  `json:"tokens_per_s_gpu"`     // of the batch
	Causes Causing  `json:"exposed_s"`            // mean step by cause
	H2D    float64  `json:"h2d_bytes_per_step"`   // of the batch, all layers
	D2H    float64  `json:"d2h_bytes_per_step"`
	SSD    float64  `json:"ssd_bytes_per_step"`
	Pieces float64  `json:"descriptors_per_step"`
	Reads  float64  `json:"ssd_reads_per_step"`
	Memory Memory   `json:"memory"`
	Notes  []string `json:"notes"`
	median int      // the step whose time is P50

	// Recomputed is how many positions of a request are recomputed, mean of layers and steps.
	Recomputed float64 `json:"recomputed_positions,omitempty"`
}

// Causing is an Exposure with names.
type Causing struct {
	Compute   float64 `json:"compute"`
	Selection float64 `json:"selection"`
	Lookup    float64 `json:"lookup"`
	Fetch     float64 `json:"fetch"`
	WriteBack float64 `json:"write_back"`
	SSD       float64 `json:"ssd"`
	Weights   float64 `json:"weights"`
}

// Fits says whether everything has a place in memory. The times are of no use where it
// does not.
func (r *Result) Fits() bool { return r.Memory.Verdict == "" }

// runner prices one batch under one schedule.
type runner struct {
	ctx      context.Context
	options  Options
	profile  *Profile
	batch    *Batch
	schedule Schedule
	pricer   Pricer
	notes    []string

	timeline *Timeline
	step     Step
	traffic  Traffic
	staging  float64 // bytes of the largest fetch of a layer

	whole prices
	parts []prices // none where the batch stays whole
	known []pricedLayer
	turn  int
}

// Price runs a schedule over a profile's steps.
func Price(ctx context.Context, p *Profile, o Options) (*Result, error) {
	r, err := newRunner(ctx, p, o)
	if err != nil {
		return nil, err
	}
	return r.run()
}

// Need is the memory of a batch without its staging, the least that it takes. Nothing is
// priced.
func Need(ctx context.Context, p *Profile, o Options) (Memory, error) {
	if sfc, ok := o.Schedule.(*SFC); ok && sfc.N == 0 {
		o.Schedule = &SFC{N: 1} // its memory does not depend on micro-batches
	}
	r, err := newRunner(ctx, p, o)
	if err != nil {
		return Memory{}, err
	}
	return r.memory(0), nil
}

// WriteTimeline writes the step whose time is the result's P50 in the Trace Event Format.
func WriteTimeline(ctx context.Context, w io.Writer, p *Profile, o Options) error {
	r, err := newRunner(ctx, p, o)
	if err != nil {
		return err
	}
	result, err := r.run()
	if err != nil {
		return err
	}
	if err := r.place(result.median); err != nil {
		return err
	}
	title := fmt.Sprintf("%s, %s, batch %d, %s, step %d", result.Machine, result.Model, result.Batch, result.Schedule, result.median)
	return r.timeline.WriteChrome(w, title)
}

func newRunner(ctx context.Context, p *Profile, o Options) (*runner, error) {
	if err := o.check(p); err != nil {
		return nil, err
	}
	if o.mosts == nil {
		o.mosts = mosts(p)
	}
	r := &runner{ctx: ctx, options: o, profile: p, schedule: o.Schedule, timeline: o.timeline}
	if r.timeline == nil {
		r.timeline = NewTimeline()
	}
	var err error
	if r.batch, err = NewBatch(p, o.Batch, o.Seed, o.Steps); err != nil {
		return nil, err
	}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	switch s := r.schedule.(type) {
	case *SFC:
		if s.N == 0 {
			return r, r.calibrate()
		}
	case *ELLM:
		return r, r.settle(s)
	}
	return r, nil
}

func (o *Options) check(p *Profile) error {
	positions := o.Positions
	if positions == 0 {
		positions = max(1, p.Meta.StepTokens)
	}
	switch parts := o.Schedule.Parts(); {
	case o.Batch < 1:
		return fmt.Errorf("batch %d, expected at least 1", o.Batch)
	case parts > o.Batch:
		return fmt.Errorf("schedule %s divides a batch of %d requests into %d parts", o.Schedule.Name(), o.Batch, parts)
	case o.Accept == 0 && positions > 1:
		return fmt.Errorf("a step decodes %d positions: say how many tokens it yields (accept, 1 to %d)", positions, positions)
	case o.Accept != 0 && (o.Accept < 1 || o.Accept > float64(positions)):
		return fmt.Errorf("accept %g, expected 1 to the %d positions that a step decodes", o.Accept, positions)
	case o.Context < 0 || o.Positions < 0 || o.Steps < 0 || o.Experts < 0:
		return fmt.Errorf("context %d, positions %d, steps %d, expert GPUs %d: expected at least 0", o.Context, o.Positions, o.Steps, o.Experts)
	case !(o.Reserve >= 0 && o.Reserve < 1):
		return fmt.Errorf("reserve %g, expected a share of GPU memory, 0 to below 1", o.Reserve)
	case !o.quantizable():
		return fmt.Errorf("schedule %s quantises numbers of FP16, %s caches %s a token and layer, which is not K and V of %g × %g FP16 numbers", o.Schedule.Name(), o.Model.Name, o.Model.Entry.Value, o.Model.KVHeads.Value, o.Model.HeadDim.Value)
	case !(o.Ahead.Accuracy >= 0 && o.Ahead.Accuracy <= 1):
		return fmt.Errorf("read-ahead %g, expected a share of the reads, 0 to 1", o.Ahead.Accuracy)
	case o.Ahead != ReadAhead{} && !p.Tiered:
		return errors.New("read-ahead and direct reads are an SSD's, and the profile reads from none: replay with a tier of host memory (--tier) that misses can pass")
	case o.Ahead.Direct && !o.Machine.GPUDirect.Known():
		return fmt.Errorf("machine %s has no gpudirect rate; its file may state one", o.Machine.Name)
	case p.Tiered && o.Machine.Drive == nil:
		return fmt.Errorf("the profile reads from an SSD, %s has none", o.Machine.Name)
	}
	return nil
}

// quantizable says whether the schedule leaves the cache as it is, or the cache is K and V
// in FP16.
func (o *Options) quantizable() bool {
	d, ok := o.Schedule.(denser)
	if !ok || d.dense().KV.Group == 0 {
		return true
	}
	m := o.Model
	return m.Latent == nil && float64(m.Entry.Value) == 2*halfBytes*float64(m.KVHeads.Value*m.HeadDim.Value)
}

// prepare builds the pricer.
func (r *runner) prepare() error {
	o := &r.options
	if o.Accept == 0 {
		o.Accept = 1
	}
	r.notes = append(append(r.notes, o.Scaling.Notes...), "selection: "+o.Selection.String())
	p := &r.pricer
	*p = Pricer{Machine: o.Machine, Model: o.Model, Scaling: o.Scaling, Experts: o.Experts, Context: o.Context,
		Layout: transfer.Layout{Merge: o.Merge, Fragments: o.Fragments}, SSD: transfer.NewSSD(o.Machine.Drive, o.Machine.Drives, max(1, o.Depth))}
	p.Ahead = o.Ahead
	if o.Ahead.Direct {
		p.SSD = transfer.Capped(p.SSD, float64(o.Machine.GPUDirect.Value))
	}
	if a := o.Ahead.Accuracy; a > 0 {
		r.notes = append(r.notes, fmt.Sprintf("read-ahead: %g of the SSD's reads are taken to be named when a layer begins", a))
	}
	p.Moves, p.Weights = MovesOf(o.Schedule)
	if d, ok := o.Schedule.(denser); ok {
		p.Dense = d.dense()
	}
	if o.Model.MoE == nil {
		p.Experts = 1
	} else if p.Experts == 0 {
		p.Experts = expertGPUs(o.Machine, o.Model)
		r.notes = append(r.notes, fmt.Sprintf("routed experts are divided among %d GPUs, the fewest that leave half of each free; traffic between GPUs is not counted", p.Experts))
	}
	if limit := int64(o.Model.Context.Value); o.Context > limit {
		r.notes = append(r.notes, fmt.Sprintf("a context of %d tokens exceeds the %d of %s", o.Context, limit, o.Model.Name))
	}
	if o.Context > 0 {
		r.notes = append(r.notes, fmt.Sprintf("every request has a context of %d tokens; the misses are those of the profile", o.Context))
	}
	if o.Positions > 0 {
		r.notes = append(r.notes, fmt.Sprintf("a step decodes %d positions of every request; the misses are those of the profile", o.Positions))
	}
	if p.Moves == MovesUncached {
		r.notes = append(r.notes, "the profile's misses are not used: the schedule moves uncached tokens")
	}
	if p.Moves == MovesLayers {
		r.notes = append(r.notes, "the profile's misses are not used: the schedule moves whole layers")
	}
	roofline := NewRoofline(o.Machine, o.Model, o.Selection, p.Experts, o.Threads)
	p.Compute, p.Memory = roofline, roofline.memory
	var err error
	if o.Table != nil {
		if p.Compute, err = o.Table(roofline); err != nil {
			return err
		}
	}
	return r.paths()
}

// paths chooses the link's paths; host memory is shared by the GPUs of the machine.
func (r *runner) paths() error {
	machine, p := r.options.Machine, &r.pricer
	link := transfer.NewLink(machine.Link)
	share := float64(machine.Host.StreamBandwidth.Value) / float64(machine.GPUs)
	p.Store = transfer.Capped(link.Fastest(transfer.DeviceToHost), share)
	path := r.options.Path
	if path == "" || path == "fastest" {
		p.Fetch = transfer.Capped(link.Fastest(transfer.HostToDevice), share)
		return nil
	}
	i := slices.Index(hardware.PathNames, path)
	if i < 0 {
		return fmt.Errorf("path %q, expected fastest, %s", path, strings.Join(hardware.PathNames, ", "))
	}
	c, err := link.Path(transfer.HostToDevice, transfer.Mechanism(i))
	if err != nil {
		return err
	}
	p.Fetch = transfer.Capped(c, share)
	return nil
}

// expertGPUs is the least power of two with which the weights take at most half of a GPU,
// at most one GPU an expert.
func expertGPUs(machine *hardware.Machine, m *hardware.Model) int {
	n := 1
	for n < int(m.MoE.Experts.Value) && GPUWeights(m, n) > float64(machine.GPU.Memory.Value)/2 {
		n *= 2
	}
	return n
}

// calibrationSteps are the steps that micro-batches are calibrated on, evenly spread.
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

// trial is the time of a number of micro-batches over the calibration's steps, infinite
// as soon as it is known to be least or more. With a table, whose edges are errors, all
// steps are priced.
func (r *runner) trial(s *SFC, least float64) (sum float64, err error) {
	r.schedule = s
	steps := min(calibrationSteps, r.batch.Steps)
	for i := range steps {
		if err := r.priceStep(i * r.batch.Steps / steps); err != nil {
			return 0, err
		}
		if r.options.Table == nil && sum+s.atLeast(&r.step)*(1-1e-9) >= least {
			return math.Inf(1), nil
		}
		if err := r.lay(); err != nil {
			return 0, err
		}
		sum += r.timeline.End()
	}
	return sum, nil
}

// place puts one step on the timeline, and its traffic into r.traffic.
func (r *runner) place(step int) error {
	if err := r.priceStep(step); err != nil {
		return err
	}
	return r.lay()
}

// lay puts the step that is priced on the timeline.
func (r *runner) lay() (err error) {
	if f, ok := r.schedule.(*Prefetch); ok {
		r.traffic.repeat(1 - f.Accuracy) // what the prediction named wrongly
	}
	if r.pricer.Weights {
		for layer := range int(r.options.Model.Layers.Value) {
			r.traffic.H2D += LayerWeights(r.options.Model, layer, r.pricer.Experts)
		}
	}
	if r.step.Output, err = r.pricer.Compute.Output(r.whole.positions); err != nil {
		return err
	}
	r.timeline.Reset()
	r.schedule.Place(r.timeline, &r.step)
	r.timeline.Contend(&r.step)
	return nil
}

// run prices all steps.
func (r *runner) run() (*Result, error) {
	o := &r.options
	result := &Result{Machine: o.Machine.Name, Model: o.Model.Name, Cell: r.profile.Cell, Batch: o.Batch, Steps: r.batch.Steps, Experts: r.pricer.Experts, Accept: o.Accept}
	var times []float64
	var exposed Exposure
	spent := 0.
	for step := range r.batch.Steps {
		if o.enough > 0 && o.Table == nil && spent > o.enough*o.Accept*float64(r.batch.Steps)*(1+1e-6) {
			return r.tooSlow(result, step)
		}
		if err := r.place(step); err != nil {
			return nil, err
		}
		spent += r.timeline.End()
		times = append(times, r.timeline.End())
		x := r.timeline.Exposure()
		for c := range x {
			exposed[c] += x[c]
		}
		result.H2D += r.traffic.H2D
		result.D2H += r.traffic.D2H
		result.SSD += r.traffic.SSD
		result.Pieces += r.traffic.Descriptors
		result.Reads += r.traffic.SSDRequests
		result.Recomputed += r.recomputed()
	}
	n := float64(len(times))
	for _, v := range []*float64{&result.H2D, &result.D2H, &result.SSD, &result.Pieces, &result.Reads, &result.Recomputed} {
		*v /= n
	}
	for c := range exposed {
		exposed[c] /= n
	}
	result.Causes = Causing{exposed[Compute], exposed[Selecting], exposed[Lookup], exposed[Fetch], exposed[WriteBack], exposed[Drive], exposed[Weights]}
	result.Mean = exposed.Sum()
	result.distribution(times)
	result.TPOT = result.Mean / o.Accept
	result.OTPS = 1 / result.TPOT
	result.Tokens = float64(o.Batch) * result.OTPS
	result.Memory = r.memory(r.staging)
	result.Schedule = r.schedule.Name()
	result.Notes = append(append([]string{}, r.notes...), r.pricer.Compute.Notes()...)
	return result, nil
}

// tooSlow gives a result its memory, without times: from a step on, layers are priced for
// what they move alone.
func (r *runner) tooSlow(result *Result, from int) (*Result, error) {
	for step := from; step < r.batch.Steps; step++ {
		if err := r.priceStep(step); err != nil {
			return nil, err
		}
	}
	result.Memory, result.TPOT = r.memory(r.staging), math.Inf(1)
	return result, nil
}

// distribution sets the percentiles, each the time of a step that was (nearest rank).
func (r *Result) distribution(times []float64) {
	order := make([]int, len(times))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case times[a] < times[b]:
			return -1
		case times[a] > times[b]:
			return 1
		}
		return 0
	})
	rank := func(share float64) int { return order[max(0, int(math.Ceil(share*float64(len(order))))-1)] }
	r.median = rank(0.5)
	r.P50, r.P95, r.P99 = times[r.median], times[rank(0.95)], times[rank(0.99)]
}
