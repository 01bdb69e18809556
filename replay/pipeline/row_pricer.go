package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// RowPricer prices cells from their result rows alone, which hold sums over steps, layers and
// heads. It prices one step in which every layer and selecting head of the model misses as the mean
// recorded stream. The result is the mean step of the profile if a step's time is linear in its
// misses. This holds for a sequential schedule with one path of the link.
//
// Otherwise averaging hides two effects. Schedules overlap a constant fetch better than uneven
// ones. Choosing the fastest of several paths per fetch helps uneven fetches more.
//
// Its fields do not change after the first row. Goroutines do not share a RowPricer.
type RowPricer struct {
	// Options, without Model, Scaling and Selection, which follow from the row. A Context of 0 is
	// the model's, at most RowContext, because rows do not state the lengths of their requests.
	Options
	// Find returns the shape of a row's model, or nil if it is not known.
	Find func(model string) *hardware.Model
	// Selection is the method by which models find their Top-K, in the form of operator.ParseSelection.
	Selection string

	shapes map[string]*rowShape // by the model that rows name
}

// rowShape is the model of rows, nil if it is not known, with the values that its rows share.
type rowShape struct {
	model *hardware.Model
	shared
}

// shape returns the shape of the rows that name a model.
func (p *RowPricer) shape(named string) *rowShape {
	s := p.shapes[named]
	if s == nil {
		if p.shapes == nil {
			p.shapes = map[string]*rowShape{}
		}
		s = &rowShape{p.Find(named), shared{scratch: newScratch(), bases: map[[schedule.Resources]bool]basis{}}}
		p.shapes[named] = s
	}
	return s
}

// RowContext is the default context for pricing rows, in tokens. Models with a shorter context use
// their own.
const RowContext = 32768

// Price prices the mean step of a row, which may sum any parts of its cell.
func (p *RowPricer) Price(ctx context.Context, r *result.Row) (*Result, error) {
	o := p.Options
	if o.Schedule.Traits().Moves != schedule.MovesMisses {
		return nil, fmt.Errorf("schedule %s moves no misses, so all policies take the same time", o.Schedule.Name())
	}
	shape := p.shape(r.Model)
	if o.Model, o.shared = shape.model, shape.shared; o.Model == nil {
		return nil, unknownShape(r)
	}
	switch {
	case r.Steps == 0:
		return nil, errors.New("the rows have no steps")
	case r.Clusters != "":
		return nil, errors.New("the rows count clusters, which have no time model: compare their moved_entries")
	case r.Tiers != "":
		return nil, errors.New("the cache has tiers below it: price its profile with kvreplay time")
	case r.StepTokens > 1:
		return nil, fmt.Errorf("a step decodes %d positions: price its profile with kvreplay time --accept", r.StepTokens)
	}
	var err error
	if o.Selection, err = operator.ParseSelection(p.Selection, o.Model); err != nil {
		return nil, err
	}
	o.Context = cmp.Or(o.Context, min(RowContext, int64(o.Model.Context.Value)))
	profile, scaling := meanStep(r, o.Model)
	o.Scaling, o.Steps = scaling, 1
	run, err := newRunner(ctx, profile, o)
	if err != nil {
		return nil, err
	}
	if o.Override == nil { // they replace those of the set
		shape.operators = run.operators
	}
	return run.run()
}

func unknownShape(r *result.Row) error {
	if r.Model == "" {
		return errors.New("the trace names no model: name a shape with --model")
	}
	return fmt.Errorf("the shape of %s is unknown: name one with --model", r.Model)
}

// meanStep returns a profile of one step and layer that stands for all. Its counts are the sums of
// the row. The scaling divides them by the stream-steps.
func meanStep(r *result.Row, m *hardware.Model) (*Profile, *Scaling) {
	heads, entry := m.KeyHeads(), float64(m.EntryPerHead())
	if r.EntryBytes != nil && float64(*r.EntryBytes) == float64(m.Entry.Value) { // a layer shares its selection
		heads, entry = 1, float64(m.Entry.Value)
	}
	shared := float64(max(1, r.SharedHeads))
	s := &Scaling{LayerOf: make([]int, int(m.Layers.Value)), Factor: heads / shared / float64(r.Steps), Heads: heads, EntryBytes: entry, TopK: r.TopK}
	if r.DemandEntries == nil { // the trace lists blocks, and K counts blocks
		s.TopK *= max(1, r.BlockTokens)
	}
	blocks := r.Misses + r.Prefetched
	meta := replay.ProfileMeta{Setting: result.Setting{TopK: r.TopK, Sink: r.Sink, Local: r.Local, BlockTokens: r.BlockTokens,
		SharedHeads: r.SharedHeads, StepTokens: 1}}
	room := float64(r.PinnedPeakEntries)/shared - pinnedRoom(&meta) // of a head, without sinks and local window
	meta.OutlierBlocks = max(0, int(room)/max(1, r.BlockTokens))
	step := Counts{Demand: r.Demand, Fetched: blocks, FetchedRuns: blocks, Moved: r.MovedEntries, Resident: r.ResidentPeak * r.Steps, Positions: 1}
	return &Profile{
		Meta:     meta,
		Cell:     Cell{Policy: r.Policy},
		Requests: []Request{{ID: "mean", Steps: [][]Counts{{step}}}},
		Layers:   []int32{0}, Heads: int(max(1, heads/shared)),
	}, s
}
