// Package setting prices batches of equal requests, for papers that state counts rather
// than traces: so many cached tokens, so many missed entries a layer and step.
package setting

import (
	"context"
	"fmt"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// Request is one decode step of each layer of one request.
type Request struct {
	Context  int64 // cached tokens
	Demand   int64 // entries that attention reads, of all heads of a layer
	Misses   int64 // of them, moved one by one
	Resident int64 // entries that the GPU keeps after the step
}

// Setting is a batch on a machine.
type Setting struct {
	Machine   *hardware.Machine
	Model     *hardware.Model
	Batch     int
	Selection string // as --selection of kvreplay time has it; "": auto
	Schedule  string // as --schedule has it
	Reserve   float64
	Request   Request
}

// profile has the request in every layer and head.
func (s *Setting) profile() *pipeline.Profile {
	r, heads := s.Request, max(1, int64(s.Model.KVHeads.Value))
	if s.Model.Latent != nil {
		heads = 1
	}
	counts := pipeline.Counts{Demand: r.Demand, Misses: r.Misses, Runs: r.Misses, Moved: r.Misses, Resident: r.Resident,
		Positions: 1, SeqLen: r.Context, Prompt: r.Context}
	return &pipeline.Profile{Meta: replay.ProfileMeta{Setting: result.Setting{TopK: int(max(1, r.Demand/heads))}}, Layers: []int32{0}, Heads: int(heads),
		Requests: []pipeline.Request{{Steps: [][]pipeline.Counts{{counts}}}}}
}

func (s *Setting) options(p *pipeline.Profile) (o pipeline.Options, err error) {
	o = pipeline.Options{Machine: s.Machine, Model: s.Model, Batch: s.Batch, Threads: 16, Reserve: s.Reserve, Depth: 64}
	if o.Schedule, err = pipeline.ParseSchedule(s.Schedule); err != nil {
		return o, err
	}
	selection := s.Selection
	if selection == "" {
		selection = "auto"
	}
	if o.Selection, err = pipeline.ParseSelection(selection, s.Model); err != nil {
		return o, err
	}
	o.Scaling, err = pipeline.NewScaling(p, s.Model, "nearest", 0)
	return o, err
}

// Price is what `kvreplay time` prints of the setting.
func (s *Setting) Price(ctx context.Context) (*pipeline.Result, error) {
	p := s.profile()
	o, err := s.options(p)
	if err != nil {
		return nil, err
	}
	r, err := pipeline.Price(ctx, p, o)
	if err != nil {
		return nil, fmt.Errorf("%s, batch %d: %w", s.Schedule, s.Batch, err)
	}
	return r, nil
}

// Plan is what `kvreplay plan` prints of the setting: the batch of most tokens/s, at most
// Batch, within slo seconds a token.
func (s *Setting) Plan(ctx context.Context, slo float64) (*pipeline.Candidate, error) {
	p := s.profile()
	o, err := s.options(p)
	if err != nil {
		return nil, err
	}
	found, err := pipeline.Plan(ctx, []*pipeline.Profile{p}, pipeline.PlanOptions{Options: o, Schedules: []pipeline.Schedule{o.Schedule}, LayerMap: "nearest", MaxBatch: s.Batch, SLO: slo})
	if err != nil {
		return nil, err
	}
	return &found.Candidates[0], nil
}
