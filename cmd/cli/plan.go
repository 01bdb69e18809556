package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/plan"
)

type planFlags struct {
	timeFlags
	machine  string
	memory   int64 // of the GPU, 0: the machine's
	slo      time.Duration
	maxBatch int
	every    bool
	names    []string // policies
	known    policies.Table
	future   []plan.Dropped // policies that are left out because they see the future
}

func planCommand(known policies.Table) command {
	f := planFlags{known: known}
	return command{
		use:   "plan PROFILE",
		short: "Find the batch, capacity, policy and schedule with most tokens/s",
		long: `Find the configuration with most tokens per second on a machine. Each policy and capacity of the
profile is priced with each schedule at growing batches, if it fits into memory and meets --slo.
The table has the best line of each schedule and the limit that stops a larger batch.
Each kind of attention has its own table. Oracles are listed but not ranked.`,
		details: `kvreplay time --help-all describes schedules, selections and layer maps.
Candidates share a rank within 2 %, or if the model's errors may hide the difference.
Oracles know more than a system can, such as prefetch:accuracy=1 or the policy opt. Policies that
see the future are left out unless --policy names them. Configurations without a batch that fits and meets --slo are listed with the reason.`,
		example: `  kvreplay replay t.parquet --policy lru,lookahead --capacity 1x,2x,4x,8x --out curve --profile
  kvreplay plan curve --hardware h200 --model deepseek-v3.2 --layer-map stretch --slo 100ms`,
		args: exactlyOne("profile"),
		flags: func(fl *flagSet) {
			fl.StringVar(&f.machine, "hardware", "h100", "plan for this `MACHINE` of kvreplay hardware list")
			fl.slo(&f.slo, "longest time per output token")
			f.defineCommon(fl)
			fl.StringSliceVar(&f.schedules, "schedule", []string{"layerwise", "tbo", "sfc", "kvpr", "flexgen", "gpu", "dense", "kept"},
				"choose from these `SCHEDULES`, or all")
			fl.StringSliceVar(&f.names, "policy", nil, "choose from these `POLICIES` (default: all that do not see the future)")
			fl.IntVar(&f.maxBatch, "max-batch", 512, "largest batch in requests")
			memoryVar(fl, &f.memory)
			fl.format(&f.format, "", "table", "json")
			fl.more()
			fl.BoolVar(&f.every, "every-cell", false, "print a line for every policy and capacity")
			f.define(fl)
			fl.positive("max-batch")
		},
		run: f.run,
	}
}

func (f *planFlags) run(c *call) error {
	f.names, f.options.Batch = joinOptions(f.names), 1
	if err := f.checkOne(c, f.machine, f.memory); err != nil {
		return err
	}
	path, err := profileIn(c.args[0])
	if err != nil {
		return err
	}
	profiles, err := f.profiles(c.Context(), path)
	if err != nil {
		return err
	}
	f.profile = profiles[0]
	if err := f.scale(); err != nil {
		return err
	}
	plan, err := plan.Search(c.Context(), profiles, plan.Options{
		Options: f.options, Schedules: f.parsedSchedules, LayerMap: f.layerMap, TopK: f.topk,
		MaxBatch: f.maxBatch, SLO: f.slo.Seconds(), EveryCell: f.every, Progress: c.bar.counts("plan", "searches"),
	})
	if err != nil {
		return err
	}
	c.bar.close()
	plan.Dropped = append(plan.Dropped, f.future...)
	f.suggestTime(c, path, plan.Candidates[0], profiles[0].Cell)
	return c.print(f.format, plan, plan.WriteTable)
}

// memoryFlag is the flag of commands that fit a batch or a cache into the GPU.
const memoryFlag = "gpu-memory"

func memoryVar(fl *flagSet, bytes *int64) {
	sizeVar(fl, bytes, memoryFlag, 0, mostMemory, "memory of the GPU, as in 48GB (10⁹ B) or 48GiB (default: the machine's)")
}

func checkMemory(c *call, bytes int64) error {
	if c.changed(memoryFlag) && bytes < 1e6 {
		return usagef("--%s %d: expected at least 1MB, with a unit, as in 48GB", memoryFlag, bytes)
	}
	return nil
}

// checkOne runs check for one machine. If memory is not 0, it replaces the GPU's memory.
func (f *timeFlags) checkOne(c *call, name string, memory int64) error {
	if err := checkMemory(c, memory); err != nil {
		return err
	}
	f.machines = []string{name}
	if err := f.check(c); err != nil {
		return err
	}
	machine, err := f.library.Machine(f.machineNames[0])
	if err != nil {
		return errUsage{err}
	}
	f.options.Machine = withMemory(machine, memory)
	return nil
}

// withMemory returns the machine with another size of GPU memory, or as it is if bytes is 0.
func withMemory(m *hardware.Machine, bytes int64) *hardware.Machine {
	if bytes == 0 {
		return m
	}
	own, gpu := *m, *m.GPU
	gpu.Memory.Value = hardware.Bytes(bytes)
	own.GPU = &gpu
	return &own
}

// suggestTime suggests to price the best candidate in detail. A schedule that moves no misses has
// no cell of its own, and any cell will do.
func (f *planFlags) suggestTime(c *call, path string, best plan.Candidate, cell pipeline.Cell) {
	if best.Cell != (pipeline.Cell{}) {
		cell = best.Cell
	}
	args := slices.Concat([]string{"time", path}, c.given("time", "schedule", "policy", "format"), []string{"--policy", cell.Policy})
	if cell.Capacity != "" {
		args = append(args, "--capacity", cell.Capacity)
	}
	c.suggested = append(args, "--schedule", best.Schedule, "--batch", strconv.Itoa(best.Batch))
}

// profiles reads the cells to choose from.
func (f *planFlags) profiles(ctx context.Context, path string) ([]*pipeline.Profile, error) {
	all, err := pipeline.Cells(ctx, path)
	if err != nil {
		return nil, err
	}
	oracles, err := pipeline.Oracles(path)
	if err != nil {
		return nil, err
	}
	var ran, wanted []string
	for _, cell := range all {
		ran = slice.Add(ran, cell.Policy)
	}
	for _, name := range f.names {
		policy := policies.Named(f.known.Canonical(name), ran)
		if !slices.Contains(ran, policy) {
			return nil, usagef("--policy %q%s: the profile has %v", name, names.Nearest(name, ran), ran)
		}
		wanted = append(wanted, policy)
	}
	cells := slices.DeleteFunc(all, func(c pipeline.Cell) bool {
		if len(wanted) == 0 {
			return slices.Contains(oracles, c.Policy)
		}
		return !slices.Contains(wanted, c.Policy)
	})
	if len(cells) == 0 {
		return nil, fmt.Errorf("profile %s has only policies that see the future (%v): name one with --policy", path, ran)
	}
	if len(wanted) == 0 {
		for _, name := range oracles {
			f.future = append(f.future, plan.Dropped{Cell: pipeline.Cell{Policy: name}, Binding: plan.BindsFuture,
				Reason: "sees the future: --policy " + name + " lists it apart"})
		}
	}
	return pipeline.ReadPlaced(ctx, path, cells, f.storage.layout)
}
