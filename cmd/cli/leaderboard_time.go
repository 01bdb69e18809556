package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// boardTimeFlags are the flags of modelled times as typed.
type boardTimeFlags struct {
	hardware                 hardwareFlags
	machine, model, schedule string
	selection                string
	batch                    int
	context                  int64
	by                       string
}

func (f *boardTimeFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.by, "by", board.ByMisses, "`what` to rank by: misses (÷ OPT's) or time (modelled)")
	fl.StringVar(&f.machine, "hardware", "h100", "`machine` that times are modelled on, as 'kvreplay hardware list' names it")
	fl.StringVar(&f.hardware.dir, "hardware-dir", "", "`folder` of YAML files that add to the bundled ones or replace them (default $"+hardware.DirVariable+")")
	fl.StringVar(&f.model, "model", "", "`shape` of the model that times are of, as 'kvreplay hardware list' names it (default: each trace's own)")
	fl.StringVar(&f.schedule, "schedule", "sequential", "schedule of times, `NAME[:OPTION=VALUE,...]`; 'kvreplay time --help' lists them")
	fl.IntVar(&f.batch, "batch", 8, "requests that decode together, for times")
	fl.Int64Var(&f.context, "context", 0, "context of every request in tokens, for times (default: the model's, at most 32768)")
	fl.StringVar(&f.selection, "selection", "auto", "how Top-K is found, for times; 'kvreplay time --help' lists the ways")
}

// timer is what models times as the flags say.
func (f *boardTimeFlags) timer(ctx context.Context) (*rowTimer, error) {
	if f.by != board.ByMisses && f.by != board.ByTime {
		return nil, usagef("--by %q: expected misses or time", f.by)
	}
	o := pipeline.Options{Batch: f.batch, Context: f.context, Threads: 16, Depth: usualDepth}
	if err := o.Bounds(); err != nil {
		return nil, errUsage{err}
	}
	schedule, err := pipeline.ParseSchedule(f.schedule)
	if err != nil {
		return nil, errUsage{err}
	}
	if m, _ := pipeline.MovesOf(schedule); m != pipeline.MovesMisses {
		return nil, usagef("--schedule %s does not move misses: all policies take as long", schedule.Name())
	}
	if schedule.Parts() > f.batch {
		return nil, usagef("--schedule %s divides the batch into %d parts, --batch is %d", schedule.Name(), schedule.Parts(), f.batch)
	}
	if err := pipeline.CheckSelection(f.selection); err != nil {
		return nil, errUsage{err}
	}
	lib, err := f.hardware.load()
	if err != nil {
		return nil, err
	}
	machine, err := lib.Machine(f.machine)
	if err != nil {
		return nil, errUsage{err}
	}
	t := &rowTimer{ctx: ctx, model: f.model}
	if f.model != "" {
		m, err := lib.Model(f.model)
		if err != nil {
			return nil, errUsage{err}
		}
		if _, err := pipeline.ParseSelection(f.selection, m); err != nil {
			return nil, errUsage{err}
		}
	}
	o.Machine, o.Schedule = machine, schedule
	t.pricer = pipeline.RowPricer{Selection: f.selection, Find: t.find(lib), Options: o}
	return t, nil
}

// rowTimer is a board.Timer on the hardware library.
type rowTimer struct {
	ctx     context.Context
	model   string // shape, empty for the trace's own
	pricer  pipeline.RowPricer
	shapes  []string // that cells were priced for
	labels  result.Labels
	library *hardware.Library
	assumed []string
}

// find looks shapes up by what traces call models.
func (t *rowTimer) find(lib *hardware.Library) func(string) *hardware.Model {
	t.library = lib
	return func(name string) *hardware.Model {
		if t.model != "" {
			name = t.model
		}
		m, err := lib.Model(name)
		if err != nil {
			return nil
		}
		return m
	}
}

// TPOT is a cell's time per output token in seconds.
func (t *rowTimer) TPOT(r *result.Row) (float64, error) {
	priced, err := t.pricer.Price(t.ctx, r)
	switch {
	case err != nil:
		return 0, err
	case !priced.Fits():
		return 0, fmt.Errorf("%s at batch %d does not fit into %s at some capacities; take a smaller --batch or --context, or another --hardware", priced.Model, priced.Batch, priced.Machine)
	}
	t.shapes = withAll(t.shapes, priced.Model)
	t.assumed = withAll(t.assumed, priced.Notes...)
	t.labels = t.labels.With(priced.Labels...)
	if own, err := t.library.Model(r.Model); err != nil || own.Name != priced.Model { // --model names another shape
		t.labels = t.labels.With(result.LabelStretched)
	}
	return priced.TPOT, nil
}

// withAll adds what a list lacks.
func withAll(list []string, items ...string) []string {
	for _, item := range items {
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	return list
}

// Model says what the times assume.
func (t *rowTimer) Model() board.TimeModel {
	o := &t.pricer.Options
	notes := []string{"in every step each layer and selecting head of the model misses as the mean recorded stream ('kvreplay time' prices a profile step by step)"}
	for _, n := range slices.Sorted(slices.Values(t.assumed)) {
		notes = append(notes, strings.TrimSuffix(n, "; the misses are those of the profile"))
	}
	return board.TimeModel{Hardware: o.Machine.Name, Model: strings.Join(slices.Sorted(slices.Values(t.shapes)), ", "), Schedule: o.Schedule.Name(), Batch: o.Batch, Labels: t.labels, Assumptions: notes}
}
