package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// timeFlags are the flags of `kvreplay time` as typed.
type timeFlags struct {
	hardware            hardwareFlags
	machines, schedules []string
	model, layerMap     string
	policy, capacity    string
	selection           string
	table               string
	tableText           []byte
	extrapolate         bool
	topk                int
	timeline, format    string
	options             pipeline.Options
	profile             *pipeline.Profile
	library             *hardware.Library
	parsedSchedules     []pipeline.Schedule
	machineNames        []string
	shape               *hardware.Model
	decoding            decodingFlags
}

func newTimeCommand(known policies.Table) *cobra.Command {
	var f timeFlags
	c := &cobra.Command{
		Use:   "time PROFILE | --prompt N --generate N",
		Short: "Price the misses of a profile in time on a machine",
		Long: `Say how long decode steps take on a machine: the misses of a profile, which
` + "`kvreplay replay --profile`" + ` writes, are priced on the machine's link and drives, and
a schedule places them beside the model's operators on a timeline of GPU, link, CPU and
SSD. PROFILE is such a file or a folder that has one. Nothing is replayed again.
Brackets before a title state the conditions that limit the figures, such as a synthetic
trace or a scaled K. Notes state what was scaled or assumed. replay/pipeline/README.md
has the models.

The schedules kvpr, flexgen, ellm and dense attend to the whole context, so they take as
long whatever a cache would miss. They need no profile: --prompt and --generate describe a
batch of equal requests instead. All others attend to the Top-K that a selection finds.

Schedules:
` + pipeline.ScheduleList() + `

Case does not count in names. Other names of schedules:
  ` + pipeline.ScheduleAliases(),
		Example: `  kvreplay replay t.parquet --policy lru --capacity 2x --out results --profile
  kvreplay time results --hardware h100 --model deepseek-v3.2 --batch 64 --schedule dba --layer-map stretch
  kvreplay time results --hardware all --batch 8 --schedule da,sfc --layer-map nearest --format csv
  kvreplay time --prompt 256 --generate 64 --model opt-6.7b --hardware a100-40 --batch 32 --schedule flexgen,kvpr`,
		Args: f.profileOrDecoding,
		RunE: func(c *cobra.Command, args []string) error {
			f.policy = known.Canonical(f.policy)
			return runTime(c, args, &f)
		},
	}
	f.add(c)
	f.decoding.add(c)
	fl, o := c.Flags(), &f.options
	fl.StringSliceVar(&f.machines, "hardware", []string{"h100"}, "`machines` that 'kvreplay hardware list' names, or all")
	fl.StringSliceVar(&f.schedules, "schedule", []string{"layerwise"}, "schedules, each `NAME[:OPTION=VALUE,...]`, or all that the batch and the profile allow")
	fl.IntVar(&o.Batch, "batch", 1, "requests that decode together on a GPU, drawn from the profile")
	fl.StringVar(&f.policy, "policy", "", "whose misses (default: the only policy there is)")
	fl.StringVar(&f.capacity, "capacity", "", "at which capacity (default: the only one there is)")
	fl.StringVar(&f.timeline, "timeline", "", "write the median step to this `file` as trace events, for ui.perfetto.dev")
	fl.StringVar(&f.format, "format", "table", "`table`, json or csv")
	return c
}

// add adds the flags that time and plan share.
func (f *timeFlags) add(c *cobra.Command) {
	fl, o := c.Flags(), &f.options
	fl.StringVar(&f.hardware.dir, "hardware-dir", "", "`folder` of YAML files that add to the bundled ones or replace them (default $"+hardware.DirVariable+")")
	fl.StringVar(&f.model, "model", "", "the model's `shape`, as 'kvreplay hardware list' names it (default: the profile's)")
	fl.StringVar(&f.layerMap, "layer-map", "", "which profiled layer stands for which of the model's: nearest, stretch, or `MODEL=PROFILED,...` as in 0-19=5,20-60=25")
	fl.IntVar(&f.topk, "topk", 0, "scale the counts from the profile's K to this one, in tokens (default: as they are)")
	fl.StringVar(&f.selection, "selection", "auto", "how Top-K is found: indexer, minmax[:tokens=16], mean[:tokens=8,rank=0], centroids[:tokens=16], keys; auto: the model's indexer, or minmax")
	fl.Uint64Var(&o.Seed, "seed", 0, "seed of the draw of requests (default 0)")
	fl.IntVar(&o.Steps, "steps", 0, "steps to price (default: as many as the longest request has)")
	fl.Int64Var(&o.Context, "context", 0, "context of every request in tokens, for computation and memory (default: the profile's)")
	fl.IntVar(&o.Positions, "positions", 0, "positions that a step decodes of every request, for computation and write-back (default: the profile's)")
	fl.Float64Var(&o.Accept, "accept", 0, "tokens that a step yields, 1 to the positions that it decodes; must be given where these are several")
	fl.IntVar(&o.Experts, "expert-gpus", 0, "GPUs that share the routed experts (default: doubled from 1 until half of each GPU is free)")
	fl.IntVar(&o.Threads, "threads", 16, "threads of the host that look up")
	fl.Float64Var(&o.Reserve, "reserve", 0, "`share` of GPU memory for driver, context, activations and workspace, as in 0.1 (default: an estimate for the GPU and the batch)")
	fl.StringVar(&o.Path, "path", "fastest", "path of fetches: fastest, call, batch, kernel")
	fl.BoolVar(&o.Merge, "merge", false, "adjacent missed blocks move as one piece")
	fl.Int64Var(&o.Fragments, "fragments", 1, "places that a block lies in; 2 where K and V are apart")
	depthVar(fl, &o.Depth)
	fl.Float64Var(&o.Ahead.Accuracy, "read-ahead", 0, "share of the SSD's reads that are named when a layer begins, and hide behind its projections and selection; the rest is read again (default: reads wait for the selection)")
	fl.BoolVar(&o.Ahead.Direct, "gpudirect", false, "the SSD writes into the GPU (GPUDirect Storage)")
	fl.StringVar(&f.table, "table", "", "CSV `file` of measured operator times, instead of the roofline")
	fl.BoolVar(&f.extrapolate, "extrapolate", false, "with --table: go on beyond its points")
}

func oneProfile(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s: expected one profile, %d are named; usage: %s", commandName(c), len(args), c.UseLine())
	}
	return nil
}

// profileIn is the path itself, or the one profile of a folder.
func profileIn(path string) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return path, nil // a missing file is reported where it is opened
	}
	found, err := files.Matching(path, "*.profile-*.parquet")
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("folder %s has no profile (*.profile-*.parquet): make one with kvreplay replay TRACE --policy NAME --out %s --profile", path, printable.ShellWord(path))
	}
	if len(found) > 1 {
		return "", fmt.Errorf("folder %s has %d profiles, expected one; name one of them: %s", path, len(found), strings.Join(found, ", "))
	}
	return found[0], nil
}

func runTime(c *cobra.Command, args []string, f *timeFlags) error {
	if err := f.numbers(c); err != nil {
		return err
	}
	if err := f.check(c.Context()); err != nil {
		return err
	}
	f.leaveOut(c.ErrOrStderr())
	if err := f.load(c.Context(), args); err != nil {
		return err
	}
	if err := f.depth(c); err != nil {
		return err
	}
	results, priced, err := f.price(c.Context())
	if err != nil {
		return err
	}
	if f.timeline != "" {
		if err := f.writeTimeline(c.Context(), priced); err != nil {
			return err
		}
	}
	if err := f.render(c.OutOrStdout(), results); err != nil {
		return err
	}
	for _, r := range results {
		if r.Fits() {
			return nil
		}
	}
	return fmt.Errorf("nothing fits: %s, batch %d: %s", results[0].Machine, results[0].Batch, results[0].Memory.Verdict)
}

// depth refuses the reads in flight where nothing is read from the drives.
func (f *timeFlags) depth(c *cobra.Command) error {
	if c.Flags().Changed(depthFlag) && !f.profile.Tiered {
		return usagef("--%s is of an SSD, and the profile reads from none: replay with a tier of host memory (--tier) that misses can pass", depthFlag)
	}
	return nil
}

// numbers rejects an explicit 0 for flags whose default means "not set".
func (f *timeFlags) numbers(c *cobra.Command) error {
	if c.Flags().Changed("reserve") && f.options.Reserve == 0 {
		return usagef("--reserve 0: expected a share above 0, as a driver always keeps some memory; leave it out for the estimate")
	}
	return atLeastOne(c, "topk", "steps", "context", "positions", "accept", "expert-gpus")
}

// check reads what needs no profile, once: the table may be a pipe.
func (f *timeFlags) check(ctx context.Context) (err error) {
	if f.format != "table" && f.format != "json" && f.format != "csv" {
		return usagef("--format %q: expected table, json or csv", f.format)
	}
	if f.extrapolate && f.table == "" {
		return usagef("--extrapolate goes with --table")
	}
	if f.options.Threads < 1 || f.options.Fragments < 1 || f.options.Depth < 1 {
		return usagef("--threads, --fragments and --ssd-depth: expected at least 1")
	}
	if err := f.options.Bounds(); err != nil {
		return errUsage{err}
	}
	for name, list := range map[string][]string{"schedule": f.schedules, "hardware": f.machines} {
		if len(list) > 1 && slices.Contains(list, "all") {
			return usagef("--%s all names every one: leave the others out", name)
		}
	}
	names := f.schedules
	if f.everySchedule() {
		names = pipeline.ScheduleNames()
	}
	for _, name := range joinOptions(names) {
		s, err := pipeline.ParseSchedule(name)
		if err != nil {
			return errUsage{err}
		}
		f.parsedSchedules = append(f.parsedSchedules, s)
	}
	if len(f.parsedSchedules) == 0 || len(f.machines) == 0 {
		return usagef("--schedule and --hardware: expected a name each")
	}
	if f.library, err = f.hardware.load(); err != nil {
		return err
	}
	if f.table != "" {
		if f.tableText, err = files.Read(ctx, f.table); err != nil {
			return fmt.Errorf("table: %w", err)
		}
	}
	return f.findMachines()
}

func (f *timeFlags) findMachines() error {
	f.machineNames = f.machines
	if len(f.machines) == 1 && strings.EqualFold(f.machines[0], "all") {
		f.machineNames = nil
		for _, it := range f.library.Items(hardware.KindMachine) {
			f.machineNames = append(f.machineNames, hardware.Head(it).Name)
		}
	}
	for _, name := range f.machineNames {
		if _, err := f.library.Machine(name); err != nil {
			return errUsage{err}
		}
	}
	if f.timeline != "" && len(f.machineNames)*len(f.parsedSchedules) != 1 {
		return usagef("--timeline shows one machine and schedule, %d are asked for", len(f.machineNames)*len(f.parsedSchedules))
	}
	return nil
}

// joinOptions puts options back to their schedule or policy, where commas parted them: an
// item with a "=" and no ":" goes on with the item before.
func joinOptions(items []string) (joined []string) {
	for _, item := range items {
		if n := len(joined); n > 0 && strings.Contains(item, "=") && !strings.Contains(item, ":") {
			joined[n-1] += "," + item
		} else {
			joined = append(joined, item)
		}
	}
	return joined
}

// load reads the profile, or makes that of the described requests.
func (f *timeFlags) load(ctx context.Context, args []string) error {
	if f.decoding.asked() {
		if err := checkOutput("time", f.timeline, []string{f.table}); err != nil {
			return err
		}
		return f.decode()
	}
	path, err := profileIn(args[0])
	if err != nil {
		return err
	}
	if err := checkOutput("time", f.timeline, []string{path, f.table}); err != nil {
		return err
	}
	return f.open(ctx, path)
}

// open reads the profile's cell and maps it to the model.
func (f *timeFlags) open(ctx context.Context, path string) error {
	cells, err := pipeline.Cells(ctx, path)
	if err != nil {
		return err
	}
	cell, err := pipeline.Choose(cells, f.policy, f.capacity)
	if err != nil {
		return errUsage{err}
	}
	if f.profile, err = pipeline.ReadProfile(ctx, path, cell); err != nil {
		return err
	}
	return f.scale()
}

// scale maps the profile to the model.
func (f *timeFlags) scale() (err error) {
	name := f.model
	if name == "" {
		name = f.profile.Meta.Model
		if name == "" {
			return usagef("the profile states no model: name its shape with --model; known: %s", strings.Join(f.library.Names(hardware.KindModel), ", "))
		}
		if _, err := f.library.Model(name); err != nil {
			return usagef("the profile's model %q has no shape here: name one with --model; known: %s", name, strings.Join(f.library.Names(hardware.KindModel), ", "))
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

// findModel sets the model and what depends on it alone.
func (f *timeFlags) findModel(name string) (err error) {
	if f.shape, err = f.library.Model(name); err != nil {
		return errUsage{err}
	}
	o := &f.options
	o.Model = f.shape
	if o.Selection, err = pipeline.ParseSelection(f.selection, f.shape); err != nil {
		return errUsage{err}
	}
	if f.table != "" {
		o.Table = f.readTable
	}
	return nil
}

func (f *timeFlags) readTable(rest pipeline.Computer) (pipeline.Computer, error) {
	return pipeline.ReadTimetable(bytes.NewReader(f.tableText), f.table, rest, f.extrapolate)
}

// price prices every machine with every schedule; last are the options of the last one.
func (f *timeFlags) price(ctx context.Context) (results []*pipeline.Result, last pipeline.Options, err error) {
	for _, name := range f.machineNames {
		machine, err := f.library.Machine(name)
		if err != nil {
			return nil, last, err
		}
		for _, s := range f.parsedSchedules {
			last = f.options
			last.Machine, last.Schedule = machine, s
			r, err := pipeline.Price(ctx, f.profile, last)
			if err != nil {
				return nil, last, fmt.Errorf("price %s, %s: %w", name, s.Name(), err)
			}
			results = append(results, r)
		}
	}
	return results, last, nil
}

func (f *timeFlags) writeTimeline(ctx context.Context, o pipeline.Options) error {
	file, err := files.Create(f.timeline)
	if err != nil {
		return fmt.Errorf("timeline: %w", err)
	}
	defer file.Abort()
	if err = pipeline.WriteTimeline(ctx, file, f.profile, o); err == nil {
		err = file.Commit()
	}
	if err != nil {
		return fmt.Errorf("timeline %s: %w", f.timeline, err)
	}
	return nil
}

func (f *timeFlags) render(w io.Writer, results []*pipeline.Result) error {
	switch f.format {
	case "json":
		return pipeline.WriteJSON(w, results)
	case "csv":
		return pipeline.WriteCSV(w, results)
	}
	return pipeline.WriteTable(w, results)
}
