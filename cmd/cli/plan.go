package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// planFlags are the flags of `kvreplay plan` as typed.
type planFlags struct {
	timeFlags
	machine  string
	memory   string
	slo      time.Duration
	maxBatch int
	top      int
	every    bool
	names    []string // policies
	known    policies.Table
	future   []pipeline.Dropped // policies that were left out because they see it
}

func newPlanCommand(known policies.Table) *cobra.Command {
	f := planFlags{known: known}
	c := &cobra.Command{
		Use:   "plan PROFILE",
		Short: "Find the batch, cache size, policy and schedule with most tokens a second",
		Long: `Find the configuration with most tokens a second on a machine. Each policy and capacity
of a profile is priced with each schedule, at growing batches, as long as they fit into
memory and meet the SLO. A table shows the best line of each schedule with the constraint
that keeps it from a larger batch. Candidates within 2 % share a rank.

Schedules that serve another model stand in tables of their own: sparse Top-K attention,
dense attention, dense attention with quantised KV. Oracles know more than a system can,
such as prefetch:accuracy=1 or the policy opt, and are not ranked. Policies that see the
future are left out unless --policy names them. Whatever has no batch that fits and meets
the SLO is listed as dropped, with the reason.`,
		Example: `  kvreplay replay t.parquet --policy lru --policy lookahead --capacity 1x,2x,4x,8x --out curve --profile
  kvreplay plan curve --hardware h200 --model deepseek-v3.2 --layer-map stretch --topk 2048 --context 32768 --slo 100ms`,
		Args: oneProfile,
		RunE: func(c *cobra.Command, args []string) error { return runPlan(c, args[0], &f) },
	}
	f.add(c)
	fl := c.Flags()
	fl.StringVar(&f.machine, "hardware", "h100", "the `machine`, as 'kvreplay hardware list' names it")
	fl.StringSliceVar(&f.schedules, "schedule", []string{"layerwise", "tbo", "sfc", "kvpr", "flexgen", "gpu", "dense"}, "schedules to choose from, or all; 'kvreplay time --help' lists them")
	fl.StringSliceVar(&f.names, "policy", nil, "policies to choose from (default: those of the profile that do not see the future)")
	fl.StringVar(&f.memory, "memory", "", "memory of the GPU: 48GB is 48 × 10⁹ bytes, 48GiB is 48 × 2³⁰ (default: the machine's)")
	fl.DurationVar(&f.slo, "slo", 0, "the longest time per output token, as in 50ms (default: none)")
	fl.IntVar(&f.maxBatch, "max-batch", 512, "largest batch")
	fl.IntVar(&f.top, "top", 10, "candidates to print of each table")
	fl.BoolVar(&f.every, "every-cell", false, "a line for every policy and capacity, not only the best of each schedule")
	fl.StringVar(&f.format, "format", "table", "`table` or json")
	return c
}

func runPlan(c *cobra.Command, path string, f *planFlags) error {
	switch {
	case f.format == "csv":
		return usagef("--format csv: expected table or json")
	case c.Flags().Changed("slo") && f.slo <= 0 || f.maxBatch < 1 || f.top < 1:
		return usagef("--slo, --max-batch and --top: expected more than 0")
	}
	if err := f.numbers(c); err != nil {
		return err
	}
	f.names = joinOptions(f.names)
	f.machines, f.options.Batch = []string{f.machine}, 1
	if err := f.check(c.Context()); err != nil {
		return err
	}
	machine, err := f.chosenMachine()
	if err != nil {
		return err
	}
	f.options.Machine = machine
	path, err = profileIn(path)
	if err != nil {
		return err
	}
	profiles, err := f.profiles(c.Context(), path)
	if err != nil {
		return err
	}
	f.profile = profiles[0]
	if err := f.depth(c); err != nil {
		return err
	}
	if err := f.scale(); err != nil {
		return err
	}
	bar := newBar(c.ErrOrStderr())
	defer bar.close()
	progress := func(done, total int) {
		if done == 0 {
			bar.start(int64(total), "plan", "searches")
			return
		}
		bar.add(1)
	}
	plan, err := pipeline.Plan(c.Context(), profiles, pipeline.PlanOptions{Options: f.options, Schedules: f.parsedSchedules, LayerMap: f.layerMap, TopK: f.topk, MaxBatch: f.maxBatch, SLO: f.slo.Seconds(), EveryCell: f.every, Progress: progress})
	if err != nil {
		return err
	}
	bar.close()
	plan.Dropped = append(plan.Dropped, f.future...)
	f.suggestTime(c, path, plan.Candidates[0], profiles[0].Cell)
	if f.format == "json" {
		return plan.WriteJSON(c.OutOrStdout(), f.top)
	}
	return plan.WriteTable(c.OutOrStdout(), f.top)
}

// suggestTime suggests to price the best candidate in detail. A schedule that moves no misses
// has no cell of its own: any one stands for it.
func (f *planFlags) suggestTime(c *cobra.Command, path string, best pipeline.Candidate, cell pipeline.Cell) {
	if best.Cell != (pipeline.Cell{}) {
		cell = best.Cell
	}
	args := slices.Concat([]string{"time", path}, givenFlags(c, "time", "schedule", "policy", "format"), []string{"--policy", cell.Policy})
	if cell.Capacity != "" {
		args = append(args, "--capacity", cell.Capacity)
	}
	suggest(c, append(args, "--schedule", best.Schedule, "--batch", strconv.Itoa(best.Batch))...)
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
		if !slices.Contains(ran, cell.Policy) {
			ran = append(ran, cell.Policy)
		}
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
			f.future = append(f.future, pipeline.Dropped{Cell: pipeline.Cell{Policy: name}, Reason: "sees the future: --policy " + name + " lists it apart", Binding: pipeline.BindsFuture})
		}
	}
	return pipeline.ReadProfiles(ctx, path, cells)
}

// chosenMachine is the machine with the memory that --memory states.
func (f *planFlags) chosenMachine() (*hardware.Machine, error) {
	m, err := f.library.Machine(f.machine)
	switch {
	case err != nil:
		return nil, errUsage{err}
	case f.memory == "":
		return m, nil
	}
	text := f.memory
	if !strings.Contains(text, " ") && strings.ContainsAny(text, "Bb") {
		text = spaced(text)
	}
	size, err := hardware.ParseBytes(text)
	if err != nil {
		return nil, usagef("--memory %q: expected a size with a unit, as in 48GB or 44.5GiB: %v", f.memory, err)
	}
	if size == 0 {
		return nil, usagef("--memory %q: expected more than 0", f.memory)
	}
	own, gpu := *m, *m.GPU
	gpu.Memory.Value = size
	own.GPU = &gpu
	return &own, nil
}
