package pipeline

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

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
	split    int     // positions that the latest step recomputes (KVPR)
	used     [resources]bool

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
// priced, but for the groups that eLLM chooses.
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
	title := result.Labels.Title(fmt.Sprintf("%s, %s, batch %d, %s, step %d", result.Machine, result.Model, result.Batch, result.Schedule, result.median))
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

// prepare builds the pricer.
func (r *runner) prepare() error {
	o := &r.options
	if o.Accept == 0 {
		o.Accept = 1
	}
	r.notes = append(r.notes, o.Scaling.Notes...)
	switch m, _ := MovesOf(o.Schedule); {
	case m == MovesLayers:
		r.notes = append(r.notes, "no misses are priced: the schedule moves whole layers")
	case m == MovesUncached:
		r.notes = append(r.notes, "no misses are priced: the schedule moves uncached tokens")
	case AttendsDensely(o.Schedule):
		r.notes = append(r.notes, "no misses are priced: attention reads the whole context, which is on the GPU")
	default:
		r.notes = append(r.notes, "selection: "+o.Selection.String())
	}
	if AttendsDensely(o.Schedule) {
		o.Selection = Selection{}
	}
	p := &r.pricer
	*p = Pricer{Machine: o.Machine, Model: o.Model, Scaling: o.Scaling, Experts: o.Experts, Context: o.Context,
		Layout: transfer.Layout{Merge: o.Merge, Fragments: o.Fragments}, SSD: sharedDrives(o.Machine, o.Depth)}
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
		why := "doubled until half of each is free"
		if GPUWeights(o.Model, p.Experts) > float64(o.Machine.GPU.Memory.Value)/2 {
			why = "one an expert, which leaves less than half of each free"
		}
		r.notes = append(r.notes, fmt.Sprintf("routed experts are divided among %d GPUs, %s; traffic between GPUs is not counted", p.Experts, why))
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
	if path == "" || path == fastest {
		p.Fetch = transfer.Capped(link.Fastest(transfer.HostToDevice), share)
		return nil
	}
	c, err := link.Path(transfer.HostToDevice, transfer.Mechanism(slices.Index(hardware.PathNames, path)))
	if err != nil {
		return err
	}
	p.Fetch = transfer.Capped(c, share)
	return nil
}

// sharedDrives are the machine's drives as one of its GPUs has them while all read: what
// they deliver and the reads in flight, one at least, are divided evenly.
func sharedDrives(machine *hardware.Machine, depth int64) *transfer.SSD {
	gpus := max(1, int64(machine.GPUs))
	s := transfer.NewSSD(machine.Drive, machine.Drives, max(1, depth/gpus))
	s.IOPS /= float64(gpus)
	s.Bandwidth /= float64(gpus)
	return s
}

// expertGPUs is the least power of two with which the weights take at most half of a GPU,
// at most one GPU an expert.
func expertGPUs(machine *hardware.Machine, m *hardware.Model) int {
	n, most := 1, int(m.MoE.Experts.Value)
	for n < most && GPUWeights(m, n) > float64(machine.GPU.Memory.Value)/2 {
		n = min(2*n, most)
	}
	return n
}

// place puts one step on the timeline, and its traffic into r.traffic.
func (r *runner) place(step int) error {
	if err := r.priceStep(step); err != nil {
		return err
	}
	r.lay()
	return nil
}

// lay puts the priced step on the timeline.
func (r *runner) lay() {
	if f, ok := r.schedule.(*Prefetch); ok {
		for i := 1; i < len(r.whole.moved); i++ { // all but the first layer are predicted
			r.traffic.add(r.whole.moved[i].fetched(1 - f.Accuracy))
		}
	}
	if r.pricer.Weights {
		for layer := range int(r.options.Model.Layers.Value) {
			r.traffic.H2D += LayerWeights(r.options.Model, layer, r.pricer.Experts)
		}
	}
	if d, ok := r.schedule.(denser); ok {
		r.traffic.H2D += d.dense().moved(&r.step)
	}
	r.timeline.Reset()
	r.schedule.Place(r.timeline, &r.step)
	r.timeline.Contend(&r.step)
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
		r.use()
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
	if !(result.Mean > 0) { // no machine's file says that, a table of times can
		return nil, fmt.Errorf("a step takes %g s by the table of times: no tokens a second follow from it", result.Mean)
	}
	result.distribution(times)
	result.TPOT = result.Mean / o.Accept
	result.OTPS = 1 / result.TPOT
	result.Tokens = float64(o.Batch) * result.OTPS
	result.Memory = r.memory(r.staging)
	result.Schedule = r.schedule.Name()
	result.round()
	result.Notes = append(append([]string{}, r.notes...), r.pricer.Compute.Notes()...)
	b := r.basisOnce()
	result.Notes = append(result.Notes, b.notes(o.Machine.Name)...)
	result.Labels = r.labels(b)
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
