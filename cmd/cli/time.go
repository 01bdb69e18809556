package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

type timeFlags struct {
	hardware            hardwareFlags
	machines, schedules []string
	model, layerMap     string
	parts               machineParts
	policy, capacity    string
	selection, entry    string
	kernels, engine     string
	topk                int
	timeline, format    string
	options             pipeline.Options
	profile             *pipeline.Profile
	library             *hardware.Library
	parsedSchedules     []schedule.Schedule
	machineNames        []string
	shape               *hardware.Model
	decoding            decodingFlags
	storage             ssdFlags
}

func timeCommand(known policies.Table) command {
	var f timeFlags
	o, d := &f.options, &f.decoding
	return command{
		use:   "time PROFILE | --prompt N --generate N",
		short: "Model the time of decode steps from a replay's misses",
		long: `Model how long decode steps take on a machine. PROFILE is a file of kvreplay replay --profile, or
its folder. Its misses are priced on the machine's link and drives, and a schedule places them on a
timeline with the model's operators. Without a profile, --prompt and --generate describe a batch
for the schedules that read the whole context.
replay/pipeline/README.md describes the models. Notes state what was scaled or assumed.`,
		details: `Schedules:
` + schedule.List() + `

Other names of schedules, in upper or lower case:
    ` + schedule.Aliases() + `

Selections, the ways to find the Top-K:
` + operator.SelectionList() + `

Entries, the forms in which the KV of a token moves:
` + operator.EntryList() + `

Engines, the overhead of kernels:
` + operator.EngineList() + `

Lookups, the structures that tell which blocks are resident:
` + operator.LookupList() + `

Layer maps, the profiled layer for each layer of the model:
  nearest                     the profiled layer with the nearest number
  stretch                     the profiled layers, stretched over the model
  0-19=5,20-60=25             profiled layer 5 for the layers 0 to 19, layer 25 for the others`,
		example: `  kvreplay replay t.parquet --policy lru --capacity 2x --out results --profile
  kvreplay time results --hardware h100 --model deepseek-v3.2 --batch 64 --layer-map stretch
  kvreplay time results --hardware all --schedule da,sfc --batch 8 --layer-map nearest --format csv
  kvreplay time --prompt 256 --generate 64 --model opt-6.7b --batch 32 --schedule flexgen,kvpr`,
		args: f.profileOrDecoding,
		flags: func(fl *flagSet) {
			fl.StringSliceVar(&f.machines, "hardware", []string{"h100"}, "price on these `MACHINES` of kvreplay hardware list, or all")
			fl.StringSliceVar(&f.schedules, "schedule", []string{"layerwise"}, "price these schedules, each `NAME[:OPTION=VALUE,...]`, or all")
			f.defineCommon(fl)
			fl.IntVar(&o.Batch, "batch", 1, "number of requests that decode together, drawn from the profile")
			fl.StringVar(&f.policy, "policy", "", "price the misses of this policy (default: the only one)")
			fl.StringVar(&f.capacity, "capacity", "", "price the misses at this capacity (default: the only one)")
			fl.IntVar(&d.prompt, "prompt", 0, "number of prompt tokens per request, without a profile")
			fl.IntVar(&d.generate, "generate", 0, "number of generated tokens per request, without a profile")
			fl.StringVar(&f.timeline, "timeline", "", "write the median step to this `FILE` of trace events, for ui.perfetto.dev")
			fl.format(&f.format, "", "table", "json", "csv", "html")
			fl.more()
			fl.BoolVar(&d.static, "static", false, "treat the cache as full from the first step on, without a profile")
			fl.Int64Var(&d.chunk, "prefill-chunk", 0, "largest number of prompt tokens in a pass, without a profile (default: all prompts)")
			fl.BoolVar(&d.overlap, "prefill-overlap", false, "compute half of a pass while tokens of the other half move to experts, without a profile")
			fl.positive("prefill-chunk")
			f.define(fl)
		},
		run: func(c *call) error {
			f.policy = known.Canonical(f.policy)
			return f.run(c)
		},
		next: f.next,
	}
}

// defineCommon adds the common flags that time and plan share.
func (f *timeFlags) defineCommon(fl *flagSet) {
	fl.StringVar(&f.model, "model", "", "scale to this model: a `SHAPE` of kvreplay hardware list, or a config.json (default: the profile's)")
	fl.StringVar(&f.layerMap, "layer-map", "", "map profiled layers to the model's: nearest, stretch or `MODEL=PROFILED,...`")
	fl.IntVar(&f.topk, "topk", 0, "scale the misses to this `K` in tokens (default: the profile's)")
	tokensVar(fl, &f.options.Context, "context", "tokens of context per request (default: the profile's)")
}

// define adds the other flags that time and plan share.
func (f *timeFlags) define(fl *flagSet) {
	o := &f.options
	f.defineParts(fl)
	fl.StringVar(&f.selection, "selection", "auto", "find the Top-K by this `METHOD`")
	fl.StringVar(&f.entry, "entry", "auto", "move the KV of a token in this `FORM`, as in v:rank=160 or int4")
	fl.IntVar(&o.Positions, "positions", 0, "positions that a step decodes per request (default: the profile's)")
	fl.Float64Var(&o.Accept, "accept", 0, "tokens that a step yields (required with several positions)")
	fl.IntVar(&o.TensorParallel, "tensor-parallel", 1, "number of GPUs that divide every layer and decode one batch, with schedule dense or gpu")
	fl.IntVar(&o.PipelineParallel, "pipeline-parallel", 1, "number of GPUs that divide the layers and decode one batch, with schedule dense")
	fl.StringVar(&o.Lookup, "lookup", "page", "look up blocks in this `STRUCTURE`: page, hash, sorted or list")
	fl.StringVar(&o.Path, "path", "fastest", "transfer path of fetches: fastest, call, batch, kernel, or pageable host memory")
	fl.BoolVar(&o.Merge, "merge", false, "move adjacent missed blocks as one piece, and read them as one from an SSD")
	fl.Int64Var(&o.Fragments, "fragments", 1, "pieces per block, 2 if K and V are stored apart")
	fl.Float64Var(&o.Ahead.Accuracy, "read-ahead", 0, "predict this `SHARE` of the SSD reads before the selection (default: none)")
	fl.BoolVar(&o.Ahead.Direct, "gpudirect", false, "let the SSD write into the GPU (GPUDirect Storage)")
	f.storage.define(fl)
	fl.BoolVar(&o.Mapped, "mapped", false, "read the SSD by page faults of a mapped file, not into pinned buffers")
	fl.positive("topk", "context", "positions", "accept", "tensor-parallel", "pipeline-parallel", "fragments")
}

// defineParts adds the less common flags that do not depend on how a system works.
func (f *timeFlags) defineParts(fl *flagSet) {
	o := &f.options
	f.hardware.define(fl.FlagSet)
	f.parts.define(fl)
	fl.Uint64Var(&o.Seed, "seed", 0, "seed of the draw of requests (default 0)")
	fl.IntVar(&o.Steps, "steps", 0, "number of steps to price (default: those of the longest request)")
	if fl.Lookup("expert-gpus") == nil { // advise and systems show it among the first flags
		f.defineExperts(fl)
	}
	fl.Float64Var(&o.Reserve, "reserve", 0, "reserve this `SHARE` of GPU memory for driver and workspace, as in 0.1 (default: an estimate)")
	fl.StringVar(&f.kernels, "kernels", publishedKernels, "price operators by this `MODEL`: fitted, roofline, or a CSV file of measured kernels")
	f.defineEngine(fl)
	fl.positive("steps")
}

// defineExperts adds the flag of the GPUs that share routed experts.
func (f *timeFlags) defineExperts(fl *flagSet) {
	fl.IntVar(&f.options.Experts, "expert-gpus", 0, expertGPUs)
	fl.positive("expert-gpus")
}

// defineEngine adds the flag of the engine, which serve has too.
func (f *timeFlags) defineEngine(fl *flagSet) {
	fl.StringVar(&f.engine, "engine", operator.DefaultEngine, "add the overhead of this `ENGINE` to kernels: "+strings.Join(operator.EngineNames(), ", "))
}

// decodingFlags describe the batch of equal requests that `kvreplay time` prices without a
// profile.
type decodingFlags struct {
	prompt, generate int
	chunk            int64 // of prefill
	overlap          bool  // of prefill
	static           bool
}

// given reports whether one of the flags is given.
func (d *decodingFlags) given() bool {
	return d.prompt != 0 || d.generate != 0 || d.static || d.chunk != 0 || d.overlap
}

// profileOrDecoding checks the arguments of time: a profile, or the flags of requests.
func (f *timeFlags) profileOrDecoding(c *cobra.Command, args []string) error {
	if !f.decoding.given() {
		return exactlyOne("profile")(c, args)
	}
	if f.decoding.prompt == 0 && f.decoding.generate == 0 {
		return usagef("--static, --prefill-chunk and --prefill-overlap need --prompt and --generate")
	}
	if len(args) > 0 {
		return usagef("--prompt and --generate replace a profile: remove them or %s", args[0])
	}
	if f.decoding.prompt < 1 || f.decoding.generate < 2 {
		return usagef("--prompt %d --generate %d: expected at least 1 and 2 tokens (prefill generates the first)", f.decoding.prompt, f.decoding.generate)
	}
	for _, name := range []string{"policy", "capacity", "layer-map", "topk", "context", "seed", "extent", "ssd-order", "pack", "mapped"} {
		if c.Flags().Changed(name) {
			return usagef("--%s needs a profile: remove it, or --prompt and --generate", name)
		}
	}
	return nil
}

func (f *timeFlags) run(c *call) error {
	if err := f.check(c); err != nil {
		return err
	}
	if err := f.load(c); err != nil {
		return err
	}
	results, priced, err := f.price(c)
	if err != nil {
		return err
	}
	if f.timeline != "" {
		err := files.WriteBy(f.timeline, func(w io.Writer) error {
			return pipeline.WriteTimeline(c.Context(), w, f.profile, priced)
		})
		if err != nil {
			return fmt.Errorf("timeline: %w", err)
		}
		c.wrote(f.timeline)
	}
	switch f.format {
	case "json":
		err = pipeline.WriteJSON(c.stdout, results)
	case "csv":
		err = pipeline.WriteCSV(c.stdout, results)
	case "html":
		err = c.page("time", timeFinding(results), pipeline.Report(results))
	default:
		err = pipeline.WriteTable(c.stdout, results)
	}
	if err != nil || slices.ContainsFunc(results, (*pipeline.Result).Fits) {
		return err
	}
	r, remedy := results[0], "lower the batch, shorten the context, or divide the model with "+f.divide()
	switch m := r.Memory; {
	case m.Remedy != "":
		remedy = m.Remedy
	case m.Weights+m.Reserve > m.GPUHas:
		remedy = "weights alone take " + hardware.Bytes(m.Weights).String() + ": divide them with " + f.divide()
	}
	return fmt.Errorf("nothing fits: %s, batch %d: %s; %s", r.Machine, r.Batch, r.Memory.Verdict, remedy)
}

// divide names the flags that divide the weights of the model among GPUs.
func (f *timeFlags) divide() string {
	if f.shape.MoE != nil {
		return "more --expert-gpus or --tensor-parallel"
	}
	return "more --tensor-parallel or --pipeline-parallel"
}

// timeFinding names the fastest result that fits.
func timeFinding(results []*pipeline.Result) string {
	var best *pipeline.Result
	for _, r := range results {
		if r.Fits() && (best == nil || r.TPOT < best.TPOT) {
			best = r
		}
	}
	if best == nil {
		return "Nothing fits into memory."
	}
	return fmt.Sprintf("The shortest time per output token is %s ±%.0f %%, on %s with schedule %s.", hardware.Seconds(best.TPOT), 100*best.HalfWidth(), best.Machine, best.Schedule)
}

// next searches the best batch on the first machine. Without a profile it compares the
// schedules.
func (f *timeFlags) next(c *call) []string {
	if len(c.args) == 0 {
		return slices.Concat([]string{"time"}, c.given("time", "schedule", "timeline", "format"), []string{"--schedule", "all"})
	}
	next := slices.Concat([]string{"plan"}, c.args, c.given("plan", "schedule", "policy", "hardware", "format"))
	if c.changed("hardware") && len(f.machines) == 1 && f.machines[0] != "all" {
		next = append(next, "--hardware", f.machines[0])
	}
	return next
}

// expertGPUs describes --expert-gpus.
const expertGPUs = "number of GPUs that share routed experts (default: enough to leave half of each free)"

// check checks the flags and reads everything but the profile, once: measured kernels may come from a pipe.
func (f *timeFlags) check(c *call) (err error) {
	if c.changed("reserve") && f.options.Reserve == 0 && c.Flags().Lookup("reserve").DefValue == "0" { // 0 stands for the estimate
		return usagef("--reserve 0: expected a share above 0, because a driver needs memory: remove the flag for an estimate")
	}
	if err := f.options.Bounds(); err != nil {
		return errUsage{err}
	}
	if err := f.storage.set(c); err != nil {
		return err
	}
	for name, list := range map[string][]string{"schedule": f.schedules, "hardware": f.machines} {
		if len(list) > 1 && slices.Contains(list, "all") {
			return usagef("--%s all includes the others: remove them", name)
		}
	}
	names := f.schedules
	if f.everySchedule() {
		names = schedule.Names()
	}
	for _, name := range joinOptions(names) {
		s, err := schedule.Parse(name)
		if err != nil {
			return errUsage{err}
		}
		if !slices.ContainsFunc(f.parsedSchedules, func(other schedule.Schedule) bool { return other.Name() == s.Name() }) {
			f.parsedSchedules = append(f.parsedSchedules, s)
		}
	}
	if len(f.parsedSchedules) == 0 || len(f.machines) == 0 {
		return usagef("--schedule and --hardware: expected at least one name each")
	}
	if f.library, err = f.hardware.load(); err != nil {
		return err
	}
	if f.machines, err = f.parts.machines(c, f.library, f.machines...); err != nil {
		return err
	}
	if f.options.Engine, err = operator.ParseEngine(f.engine); err != nil {
		return errUsage{err}
	}
	if err := f.readKernels(c.Context()); err != nil {
		return err
	}
	return f.findMachines()
}

// sameMachine reports whether two names are of one machine.
func (f *timeFlags) sameMachine(a, b string) bool {
	x, err1 := f.library.Machine(a)
	y, err2 := f.library.Machine(b)
	return err1 == nil && err2 == nil && x.Name == y.Name
}

func (f *timeFlags) findMachines() error {
	f.machineNames = f.machines
	if len(f.machines) == 1 && strings.EqualFold(f.machines[0], "all") {
		f.machineNames = slice.Map(f.library.Items(hardware.KindMachine), func(it hardware.Item) string { return hardware.Head(it).Name })
	}
	for i, name := range f.machineNames {
		m, err := f.library.Machine(name)
		if err != nil {
			return errUsage{err}
		}
		if slices.ContainsFunc(f.machineNames[:i], func(other string) bool { return f.sameMachine(other, m.Name) }) {
			return usagef("--hardware names %s twice: remove one", name)
		}
	}
	if n, most := max(f.options.TensorParallel, f.options.PipelineParallel), f.parts.GPUs; most > 0 && n > most {
		return usagef("the model is divided among %d GPUs, but --gpus states %d: choose fewer, or state more", n, most)
	}
	if f.timeline != "" && len(f.machineNames)*len(f.parsedSchedules) != 1 {
		return usagef("--timeline shows one machine and schedule, but the flags name %d: choose one", len(f.machineNames)*len(f.parsedSchedules))
	}
	return nil
}

// everySchedule reports whether --schedule is all.
func (f *timeFlags) everySchedule() bool {
	return len(f.schedules) == 1 && strings.EqualFold(f.schedules[0], "all")
}

// dropSchedules drops the schedules of --schedule all that the batch or the described requests
// do not allow, and prints which. It also drops those that do not decode with the policy.
func (f *timeFlags) dropSchedules(w io.Writer) {
	if !f.everySchedule() {
		return
	}
	var small, profile []string
	f.parsedSchedules = slices.DeleteFunc(f.parsedSchedules, func(s schedule.Schedule) bool {
		switch {
		case f.decoding.given() && schedule.HasCell(s):
			profile = append(profile, s.Name())
		case f.profile != nil && !pipeline.Decodes(s, f.profile):
		case s.Parts() > f.options.Batch:
			small = append(small, s.Name())
		default:
			return false
		}
		return true
	})
	if len(small) > 0 {
		fmt.Fprintf(w, "kvreplay: left out, because a batch of %d is too small to divide (--batch): %s\n", f.options.Batch, strings.Join(small, ", "))
	}
	if len(profile) > 0 {
		fmt.Fprintf(w, "kvreplay: left out, because they need a profile: %s\n", strings.Join(profile, ", "))
	}
}

// load reads the profile, or makes that of the described requests.
func (f *timeFlags) load(c *call) error {
	ctx := c.Context()
	if f.decoding.given() {
		f.dropSchedules(c.stderr)
		if err := checkOutput("time", f.timeline, f.inputs()); err != nil {
			return err
		}
		return f.decode()
	}
	path, err := profileIn(c.args[0], func(path string) bool {
		cells, err := pipeline.Cells(ctx, path)
		if err == nil {
			_, err = pipeline.Choose(cells, f.policy, f.capacity)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if err := checkOutput("time", f.timeline, append(f.inputs(), path)); err != nil {
		return err
	}
	cells, err := pipeline.Cells(ctx, path)
	if err != nil {
		return err
	}
	cell, err := pipeline.Choose(cells, f.policy, f.capacity)
	if err != nil {
		return errUsage{err}
	}
	profiles, err := pipeline.ReadPlaced(ctx, path, []pipeline.Cell{cell}, f.storage.layout)
	if err != nil {
		return err
	}
	f.profile = profiles[0]
	f.dropSchedules(c.stderr)
	return f.scale()
}

// decode sets the profile and scaling of the described requests.
func (f *timeFlags) decode() (err error) {
	if f.model == "" {
		return usagef("--prompt and --generate need a --model: name a shape of `kvreplay hardware list`")
	}
	for _, s := range f.parsedSchedules {
		if schedule.HasCell(s) {
			return usagef("schedule %s needs a profile: without one choose among %s", s.Name(), strings.Join(profileless(), ", "))
		}
	}
	if err := f.findModel(f.model); err != nil {
		return err
	}
	f.options.Prefill = pipeline.Prefill{Prompt: int64(f.decoding.prompt), Chunk: f.decoding.chunk, Overlap: f.decoding.overlap}
	f.profile, f.options.Scaling, err = pipeline.Decoding(f.decoding.prompt, f.decoding.generate, f.decoding.static, f.shape)
	return err
}

// profileless lists the schedules that need no profile.
func profileless() []string {
	return slices.DeleteFunc(schedule.Names(), func(name string) bool {
		s, err := schedule.Parse(name)
		return err != nil || schedule.HasCell(s)
	})
}

// scale maps the profile to the model.
func (f *timeFlags) scale() (err error) {
	name := f.model
	if name == "" {
		name = f.profile.Meta.Model
		if name == "" {
			return usagef("the profile states no model: name its shape of `kvreplay hardware list` with --model")
		}
		if _, err := f.library.Model(name); err != nil {
			return usagef("the profile's model %.40q is unknown: name its shape of `kvreplay hardware list` with --model", name)
		}
	}
	if err := f.findModel(name); err != nil {
		return err
	}
	if f.options.Scaling, err = pipeline.NewScaling(f.profile, f.shape, f.layerMap, f.topk); err != nil {
		return errUsage{err}
	}
	return nil
}

// findModel sets the model and the options that depend on it alone.
func (f *timeFlags) findModel(name string) (err error) {
	if name == "" {
		return usagef("--model missing: name a shape of `kvreplay hardware list --kind model`, or a config.json")
	}
	if f.shape, err = f.library.ModelOrConfig(name); err != nil {
		return errUsage{err}
	}
	o := &f.options
	o.Model = f.shape
	if o.Selection, err = operator.ParseSelection(f.selection, f.shape); err != nil {
		return errUsage{err}
	}
	if o.Entry, err = operator.ParseEntry(f.entry, f.shape); err != nil {
		return errUsage{err}
	}
	o.Network = pipeline.Networks(f.library)
	return nil
}

// The models of --kernels. Other values name a file.
const (
	rooflineKernels  = "roofline"
	publishedKernels = "fitted"
)

// inputs are the files that flags name.
func (f *timeFlags) inputs() []string {
	var paths []string
	if f.kernels != rooflineKernels && f.kernels != publishedKernels {
		paths = append(paths, f.kernels)
	}
	if f.storage.pack != "" {
		paths = append(paths, f.storage.pack)
	}
	return paths
}

// readKernels sets the kernel model. It reads the measurements that --kernels names once.
func (f *timeFlags) readKernels(ctx context.Context) error {
	switch f.kernels {
	case rooflineKernels:
		f.options.Kernels = kernel.None
		return nil
	case publishedKernels:
		f.options.Kernels = kernel.Fitted(f.library)
		return nil
	}
	data, err := files.Read(ctx, f.kernels)
	if err != nil {
		return fmt.Errorf("kernels: %w; expected fitted, roofline or a file", err)
	}
	rows, err := kernel.ReadCSV(bytes.NewReader(data), f.kernels)
	if err != nil {
		return err
	}
	points, err := kernel.Points(rows, f.kernels, f.library)
	f.options.Kernels = kernel.FittedTo(points, f.kernels)
	return err
}

// shareExperts gives several machines the same number of GPUs for routed experts, the largest of their
// defaults, unless --expert-gpus states it. memory is that of a GPU, 0 for the machine's.
func (f *timeFlags) shareExperts(memory int64) error {
	if f.options.Experts > 0 || len(f.machineNames) < 2 || f.shape.MoE == nil {
		return nil
	}
	for _, name := range f.machineNames {
		m, err := f.library.Machine(name)
		if err != nil {
			return err
		}
		f.options.Experts = max(f.options.Experts, pipeline.ExpertGPUs(f.shape, withMemory(m, memory).GPU, m.Stated))
	}
	return nil
}

// price prices every machine with every schedule. last holds the options of the last one.
func (f *timeFlags) price(c *call) (results []*pipeline.Result, last pipeline.Options, err error) {
	if err := f.shareExperts(0); err != nil {
		return nil, last, err
	}
	for _, name := range f.machineNames {
		machine, err := f.library.Machine(name)
		if err != nil {
			return nil, last, err
		}
		for _, s := range f.parsedSchedules {
			last = f.options
			last.Machine, last.Schedule = machine, s
			o := last
			o.Priced = c.bar.counts(s.Name()+" on "+name, "steps")
			r, err := pipeline.Price(c.Context(), f.profile, o)
			c.bar.close()
			if err != nil {
				return nil, last, fmt.Errorf("price %s, %s: %w", name, s.Name(), err)
			}
			results = append(results, r)
		}
	}
	return results, last, nil
}

// profileIn returns the path itself, or the one profile of a folder. If the folder has several, it
// returns the only one that all functions accept.
func profileIn(path string, suits ...func(path string) bool) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return path, nil // a missing file is reported where it is opened
	}
	found, err := files.Matching(path, "*.profile-*.parquet")
	if err != nil {
		return "", err
	}
	if len(found) > 1 { // those of another version stay where they are
		found = slices.DeleteFunc(found, func(path string) bool {
			_, err := pipeline.Oracles(path)
			return errors.Is(err, pipeline.ErrSchema)
		})
	}
	for _, suitable := range suits {
		if chosen := slice.Filter(found, suitable); len(found) > 1 && len(chosen) == 1 {
			found = chosen
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("folder %s has no profile (*.profile-*.parquet): make one with "+
			"kvreplay replay TRACE --policy NAME --out %s --profile", path, printable.ShellWord(path))
	}
	if len(found) > 1 {
		return "", fmt.Errorf("folder %s has %d profiles, expected one; name one of them: %s", path, len(found), strings.Join(found, ", "))
	}
	return found[0], nil
}
