package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/replay/collective"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Price runs a schedule over a profile's steps.
func Price(ctx context.Context, p *Profile, o Options) (*Result, error) {
	r, err := newRunner(ctx, p, o)
	if err != nil {
		return nil, err
	}
	return r.run()
}

// Need returns the memory of a batch without its staging, which is a lower bound. It prices nothing
// except for the groups that eLLM chooses.
func Need(ctx context.Context, p *Profile, o Options) (Memory, error) {
	if sfc, ok := o.Schedule.(*schedule.SFC); ok && sfc.N == 0 {
		o.Schedule = &schedule.SFC{N: 1} // its memory does not depend on micro-batches
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
	return r.timeline.WriteChrome(w, result.Labels.Title(title))
}

// runner prices one batch under one schedule. Its Options are complete, because open choices were
// made.
type runner struct {
	Options
	ctx     context.Context
	profile *Profile
	batch   *Batch
	notes   []string

	traits     schedule.Traits
	kvpr       *schedule.KVPR // the schedule, if it moves layers
	ellm       *schedule.ELLM // the schedule, if it moves uncached tokens
	host       *schedule.Host // the schedule, if the CPU attends
	factors    Uncertainty
	group      *operator.Group     // nil without tensor parallelism
	stages     *collective.Network // nil without pipeline parallelism
	exchange   *operator.Exchange  // nil if no exchange between GPUs is priced
	lookup     *operator.Lookup
	vocabulary float64       // of the whole model
	moved      float64       // bytes of a moved entry
	fetch      transfer.Path // host to device
	hop        transfer.Path // host to device, of blocks that the SSD has read
	layers     transfer.Path // host to device, of the KV of whole layers
	store      transfer.Path // device to host
	ssd        transfer.Path
	recomputed float64 // largest number of positions that a layer recomputed (KVPR)

	step          schedule.Step
	recomputation schedule.Recomputation // of the step (KVPR)
	traffic       Traffic
	staging       float64 // bytes of the largest fetch of a layer
	used          [schedule.Resources]bool

	parts []prices // empty if the batch stays whole
	known []pricedLayers
	turn  int
}

func newRunner(ctx context.Context, p *Profile, o Options) (*runner, error) {
	if err := o.check(p); err != nil {
		return nil, err
	}
	if o.mosts == nil {
		o.mosts = mosts(p)
	}
	if o.scratch == nil {
		o.scratch = newScratch()
	}
	o.whole.requests = nil
	r := &runner{Options: o, ctx: ctx, profile: p}
	var err error
	if r.batch, err = NewBatch(p, o.Batch, o.Seed, o.Steps); err != nil {
		return nil, err
	}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	switch s := o.Schedule.(type) {
	case *schedule.SFC:
		if s.N == 0 {
			return r, r.calibrate()
		}
	case *schedule.ELLM:
		return r, r.choose(s)
	}
	return r, nil
}

// noMisses begins the notes of schedules that move no misses.
const noMisses = "no misses are priced: "

// prepare completes the options and computes the values that follow from them.
func (r *runner) prepare() error {
	r.Accept = cmp.Or(r.Accept, 1)
	r.traits = r.Schedule.Traits()
	r.kvpr, _ = r.Schedule.(*schedule.KVPR)
	r.host, _ = r.Schedule.(*schedule.Host)
	r.notes = append(r.notes, r.Scaling.Notes...)
	r.noteWork()
	if !schedule.Selects(r.Schedule) {
		r.Selection = operator.Selection{}
	}
	r.chooseEntry()
	r.divideExperts()
	if err := r.parallelize(); err != nil {
		return err
	}
	if err := r.divideStages(); err != nil {
		return err
	}
	r.noteStated()
	if err := r.chooseOperators(); err != nil {
		return err
	}
	return r.choosePaths()
}

// noteWork notes the basis of the model, and the work that the schedule leaves out.
func (r *runner) noteWork() {
	if m := r.Model; m.FromConfig() {
		r.note("model %s is derived from its config.json: %.3g B parameters of %s (%s), entries of %s (%s)", m.Name,
			float64(m.Parameters.Value)/1e9, m.BytesPerParameter.Value, m.BytesPerParameter.Note, m.Entry.Value, m.Entry.Note)
	}
	switch {
	case r.traits.Moves == schedule.MovesLayers:
		r.note(noMisses + "the schedule moves whole layers")
	case r.traits.Moves == schedule.MovesUncached:
		r.note(noMisses + "the schedule moves uncached tokens")
	case schedule.AttendsDensely(r.Schedule) && r.host == nil:
		r.note(noMisses + "attention reads the whole context on the GPU")
	case schedule.Selects(r.Schedule):
		r.note("selection: %s", r.Selection.Note())
	case r.traits.Moves == schedule.MovesDropped:
		r.note(noMisses + "the policy drops entries, and its own work is not counted")
	}
	if r.host != nil {
		r.noteHost()
	}
	if a := r.Ahead.Accuracy; a > 0 {
		r.note("read-ahead: a share of %g of the SSD's reads is assumed known when a layer begins", a)
	}
}

// noteStated notes the remark of the machine's file, and options that differ from the model or the profile.
func (r *runner) noteStated() {
	if r.Machine.Note != "" {
		r.note("%s", r.Machine.Note)
	}
	if limit := int64(r.Model.Context.Value); r.Context > limit {
		r.note("a context of %d tokens exceeds the %d of %s", r.Context, limit, r.Model.Name)
	}
	if r.Context > 0 {
		r.note("every request has a context of %d tokens, with the misses of the profile", r.Context)
	}
	if r.Positions > 0 {
		r.note("a step decodes %d positions of every request, but has the misses of the profile", r.Positions)
	}
}

// chooseOperators sets the prices of operators and the errors of all submodels.
func (r *runner) chooseOperators() (err error) {
	if r.lookup, err = operator.ParseLookup(r.Lookup); err != nil {
		return err
	}
	if r.traits.Moves == schedule.MovesMisses && !r.lookup.Default() {
		r.note("lookup: %s", r.lookup)
	}
	missing, err := r.exchangeExperts()
	if err != nil {
		return err
	}
	config := operator.Config{Machine: r.Machine, Model: r.Model, Selection: r.Selection, Lookup: r.lookup, Threads: r.threads(),
		Experts: r.Experts, Exchange: r.exchange, Group: r.group, Engine: r.Engine, Dense: schedule.AttendsDensely(r.Schedule)}
	if r.operators == nil {
		if r.operators, err = operator.New(config, r.Kernels); err != nil {
			return err
		}
	}
	if busiest := config.Busiest(); busiest > 1 && r.operators.Basis != operator.ByRoofline {
		r.note("routed experts: the busiest of %d GPUs has %.2f times their mean tokens", r.Experts, busiest)
	}
	if note := r.Engine.Note(r.operators.Basis != operator.ByRoofline, r.group != nil); note != "" {
		r.note("%s", note)
	}
	if r.Override != nil {
		r.operators.Replace(r.Override)
	}
	r.factors = r.uncertainty()
	r.noteExchange(missing)
	return nil
}

// chooseEntry sets the form in which misses move.
func (r *runner) chooseEntry() {
	if r.Entry != r.entry() {
		r.note("entry: auto, because the schedule moves no misses")
	}
	r.Entry, r.moved = r.entry(), r.Scaling.EntryBytes
	if !r.Entry.Own() {
		r.moved *= r.Entry.Bytes(r.Model) / float64(r.Model.Entry.Value)
		r.note("%s", r.Entry.Note(r.Model))
	}
}

// threads returns the host's threads for lookups.
func (r *runner) threads() int { return cmp.Or(r.Threads, r.Machine.Host.Threads()) }

func (r *runner) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// ExpertGPUs returns the number of GPUs that share routed experts by default: the least power of two
// with which the weights take at most half of a GPU. It is at most one GPU per expert, and at most
// most, unless that is 0. It returns 1 for a model without routed experts.
func ExpertGPUs(m *hardware.Model, gpu *hardware.GPU, most int) int {
	if m.MoE == nil {
		return 1
	}
	if most = cmp.Or(most, math.MaxInt); most > int(m.MoE.Experts.Value) {
		most = int(m.MoE.Experts.Value)
	}
	n := 1
	for n < most && m.GPUBytes(n) > float64(gpu.Memory.Value)/2 {
		n = min(2*n, most)
	}
	return n
}

// SharedBy says how many GPUs share the routed experts of a model, as tables and answers state it.
func SharedBy(experts int) string {
	if experts <= 1 {
		return "one GPU"
	}
	return fmt.Sprintf("%d GPUs share the experts", experts)
}

// divideExperts sets the number of GPUs that share routed experts.
func (r *runner) divideExperts() {
	if r.Model.MoE == nil || r.TensorParallel > 1 { // a GPU of those has a part of every expert
		r.Experts = 1
		return
	}
	if r.Experts > 0 {
		return
	}
	r.Experts = ExpertGPUs(r.Model, r.Machine.GPU, r.Machine.Stated)
	why := "which leaves half of each free"
	switch {
	case r.Model.GPUBytes(r.Experts) <= float64(r.Machine.GPU.Memory.Value)/2:
	case r.Experts == r.Machine.Stated:
		why = "all that --gpus states, which leaves less than half of each free"
	default:
		why = "one GPU per expert, which leaves less than half of each free"
	}
	r.note("routed experts are divided among %d GPUs, %s", r.Experts, why)
}

// choosePaths sets the paths of fetches, write-backs and reads. The GPUs of the machine share host
// memory and drives evenly.
func (r *runner) choosePaths() error {
	gpus := max(1, int64(r.Machine.GPUs))
	depth := max(1, cmp.Or(r.Depth, int64(r.Machine.ReadsInFlight))/gpus)
	if r.Mapped {
		depth = min(depth, int64(r.threads()))
		r.note("the SSD is read by faults of a mapped file: whole pages of 4 KiB without readahead, one for each of %d threads, and over PCIe the CPU stages the copy at %.4g GB/s (derived)",
			r.threads(), transfer.StagingRate/1e9)
	}
	drives := transfer.NewSSD(r.Machine.Drive, r.Machine.Drives, depth)
	drives.IOPS /= float64(gpus)
	drives.Bandwidth /= float64(gpus)
	if r.ssd = drives; r.Ahead.Direct {
		r.ssd = transfer.Capped(drives, float64(r.Machine.GPUDirect.Value))
	}
	link, fetch := transfer.NewLink(r.Machine.Link), transfer.Path(nil)
	switch r.Path {
	case pageable:
		link = link.Pageable()
		r.note("host memory is pageable: over PCIe the CPU stages each copy at %.4g GB/s (derived)", transfer.StagingRate/1e9)
		fallthrough
	case "", fastest:
		fetch = link.Fastest(transfer.HostToDevice)
	default:
		c, err := link.Path(transfer.HostToDevice, transfer.Mechanism(slices.Index(hardware.PathNames, r.Path)))
		if err != nil {
			return err
		}
		fetch = c
	}
	share := float64(r.Machine.Host.StreamBandwidth.Value) / float64(r.Machine.GPUs)
	r.fetch, r.store = transfer.Capped(fetch, share), transfer.Capped(link.Fastest(transfer.DeviceToHost), share)
	if r.layers = r.fetch; r.kvpr != nil && r.kvpr.Pageable {
		staged := transfer.NewLink(r.Machine.Link).Pageable()
		r.layers = transfer.Capped(staged.Fastest(transfer.HostToDevice), share)
		r.store = transfer.Capped(staged.Fastest(transfer.DeviceToHost), share)
		r.note("KV is in pageable memory: over PCIe the CPU stages each copy at %.4g GB/s (derived)", transfer.StagingRate/1e9)
	}
	if r.hop = r.fetch; r.Mapped {
		r.hop = transfer.Capped(link.Pageable().Fastest(transfer.HostToDevice), share)
	}
	return nil
}

func (r *runner) run() (*Result, error) {
	result := &Result{Machine: r.Machine.Name, Model: r.Model.Name, Cell: r.profile.Cell, Requests: r.profile.Described, Batch: r.Batch, Steps: r.batch.Steps, Experts: r.Experts, TensorParallel: r.TensorParallel, PipelineParallel: r.PipelineParallel, Accept: r.Accept}
	var times []float64
	var exposed schedule.Exposure
	var moved Traffic
	spent := 0.
	for step := range r.batch.Steps {
		if r.Priced != nil {
			r.Priced(step, r.batch.Steps)
		}
		if r.enough > 0 && spent > r.enough*r.Accept*float64(r.batch.Steps)*(1+1e-6) {
			return r.tooSlow(result, step)
		}
		if err := r.place(step); err != nil {
			return nil, err
		}
		for i := range r.timeline.Events { // the resources that the step occupies
			if e := &r.timeline.Events[i]; e.Seconds > 0 {
				r.used[e.Kind.Resource()] = true
			}
		}
		spent += r.timeline.End()
		times = append(times, r.timeline.End())
		x := r.timeline.Exposure()
		for c := range x {
			exposed[c] += x[c]
		}
		moved.add(r.traffic)
		if r.kvpr != nil {
			result.Recomputed += r.recomputation.Mean
		}
	}
	n := float64(len(times))
	result.H2D, result.D2H, result.SSD = moved.H2D/n, moved.D2H/n, moved.SSD/n
	result.Pieces, result.Reads, result.Recomputed = moved.Descriptors/n, moved.SSDRequests/n, result.Recomputed/n
	for c := range exposed {
		exposed[c] /= n
	}
	result.Causes, result.Mean = exposed, exposed.Sum()
	if !(result.Mean > 0) { // no machine's file gives that, but Options.Operators can
		return nil, fmt.Errorf("the operators give a step of %g s, expected more than 0 and a finite time", result.Mean)
	}
	result.distribution(times)
	result.TPOT = result.Mean / r.Accept
	result.OTPS = 1 / result.TPOT
	result.Tokens = float64(r.Batch) * result.OTPS / float64(r.TensorParallel*r.PipelineParallel)
	result.Memory = r.memory(r.staging)
	result.Schedule = r.Schedule.Name()
	var first *prompts
	if r.Prefill.Prompt > 0 {
		var err error
		if first, err = r.firstTokens(); err != nil {
			return nil, err
		}
		result.TTFT = first.seconds(&asModelled)
	}
	result.round()
	if err := r.interval(result, first); err != nil {
		return nil, err
	}
	b := r.basis()
	result.Notes = slices.Concat(r.notes, r.operators.Notes(), b.notes(cmp.Or(r.Machine.Shown, r.Machine.Name)), []string{r.factors.note(r.stepFactor(), first)})
	result.Labels = r.labels(b)
	return result, nil
}

// tooSlow gives a result its memory, without times. Layers of the steps at and after from are only
// priced for their bytes.
func (r *runner) tooSlow(result *Result, from int) (*Result, error) {
	for step := from; step < r.batch.Steps; step++ {
		if err := r.priceStep(step); err != nil {
			return nil, err
		}
	}
	result.Memory, result.TPOT = r.memory(r.staging), math.Inf(1)
	return result, nil
}

// place prices one step, places it on the timeline and sets r.traffic.
func (r *runner) place(step int) error {
	if err := r.priceStep(step); err != nil {
		return err
	}
	r.placePriced()
	return nil
}

func (r *runner) placePriced() {
	if f, ok := r.Schedule.(*schedule.Prefetch); ok {
		for i := 1; i < len(r.whole.traffic); i++ { // every layer except the first is predicted
			r.traffic.add(r.whole.traffic[i].fetched(1 - f.Accuracy))
		}
	}
	if r.traits.Weights {
		for layer := range int(r.Model.Layers.Value) {
			r.traffic.H2D += r.Model.LayerBytes(layer, r.Experts)
		}
	}
	if r.kvpr != nil {
		r.traffic.H2D += r.recomputation.Bytes
	}
	r.timeline.Reset()
	r.Schedule.Place(r.timeline, &r.step)
	r.timeline.Contend(&r.step)
}

// priceStep prices one step, whole and in parts, into r.step and r.traffic.
func (r *runner) priceStep(step int) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	r.divide(r.Schedule.Parts())
	if err := r.price(&r.whole, step); err != nil {
		return err
	}
	r.step.Whole, r.step.Parts, r.traffic = r.whole.layers, r.step.Parts[:0], Traffic{}
	if len(r.parts) == 0 {
		r.traffic.add(r.whole.traffic...)
	}
	for i := range r.parts {
		p := &r.parts[i]
		if same := p.same; same >= 0 {
			p.layers, p.traffic = r.parts[same].layers, r.parts[same].traffic
		} else if err := r.price(p, step); err != nil {
			return err
		}
		r.traffic.add(p.traffic...)
		r.step.Parts = append(r.step.Parts, p.layers)
	}
	var err error
	if r.step.Output, err = r.operators.Output(r.whole.positions); err != nil {
		return err
	}
	r.step.Embed, r.step.Gather = r.group.AllReduce(r.whole.positions), r.group.GatherLogits(r.whole.positions)
	if err := r.priceStages(&r.step); err != nil {
		return err
	}
	if r.kvpr != nil {
		r.recomputation = r.kvpr.Choose(&r.step, r.timeline)
		r.recomputed = max(r.recomputed, r.recomputation.Most)
	}
	return nil
}

// prices holds a batch, or a part of it, with the prices of its layers in one step.
type prices struct {
	requests  []share
	layers    []schedule.Layer
	traffic   []Traffic // by layer
	positions float64
	same      int // an earlier part with the same requests and prices, or -1
}

// divide prepares the prices of the whole batch and of the parts of a schedule.
func (r *runner) divide(parts int) {
	if r.whole.requests == nil {
		r.whole.requests = r.batch.part(0, 1)
	}
	if parts == 1 {
		parts = 0 // the whole is the only part
	}
	if len(r.parts) == parts {
		return
	}
	r.parts = slices.Grow(r.parts[:0], parts)[:parts]
	for i := range r.parts {
		p := &r.parts[i]
		if p.same >= 0 { // its slices belong to that part
			p.layers, p.traffic = nil, nil
		}
		p.requests = r.batch.part(i, parts)
		p.same = slices.IndexFunc(r.parts[:i], func(o prices) bool { return slices.Equal(o.requests, p.requests) })
	}
}

// pricedLayers are the prices of a step's layers with the same profiled layer. Dense layers have a shape of
// their own.
type pricedLayers struct {
	turn   int // call of price that computed sums
	sums   sums
	shapes [2]struct {
		turn    int // call of price that computed the others
		layer   schedule.Layer
		traffic Traffic
	}
}

// price prices the layers of one step. Layers with the same profiled layer and the same shape are
// priced once.
func (r *runner) price(p *prices, step int) error {
	p.layers, p.traffic = p.layers[:0], p.traffic[:0]
	r.turn++
	if r.known == nil {
		r.known = make([]pricedLayers, len(r.profile.Layers))
	}
	for layer, profiled := range r.Scaling.LayerOf {
		known := &r.known[profiled]
		if known.turn != r.turn {
			known.turn, known.sums = r.turn, r.batch.sum(p.requests, profiled, step, r.Scaling, r.Context, int64(r.Positions))
		}
		of := &known.shapes[0]
		if layer < r.denseLayers() {
			of = &known.shapes[1]
		}
		if of.turn != r.turn || r.ellm != nil { // eLLM differs for every layer
			of.turn = r.turn
			var err error
			if of.layer, of.traffic, err = r.layer(layer, &known.sums); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		}
		p.layers, p.traffic = append(p.layers, of.layer), append(p.traffic, of.traffic)
		r.staging = max(r.staging, of.traffic.H2D)
		p.positions = float64(known.sums.Positions)
	}
	return nil
}
