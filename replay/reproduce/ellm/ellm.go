// Package ellm reproduces eLLM, which keeps part of each request's tokens uncached and
// makes their KV again while others' comes from the host: its equations, memory blocks,
// optimiser, and what its schedule gains.
package ellm

import (
	"context"
	"fmt"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/reproduce/setting"
)

// Paper is eLLM.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name:     "ellm",
		Citation: "Chen et al., High Throughput and Low Latency LLM Serving via Adaptive KV Caching, EuroSys 2026, 10.1145/3767295.3803570.",
		Figures:  16, Tables: 2, Gaps: gaps,
		Parts: 6,
		Sections: func(ctx context.Context, in reproduce.Inputs) ([]reproduce.Section, error) {
			lib, err := hardware.Load(in.Hardware)
			if err != nil {
				return nil, err
			}
			return Of(ctx, in, lib)
		},
	}
}

// What the paper states of its experiments: Llama2-13B on one A100 with 80 GB, ShareGPT's
// mean prompt and answer, of which a request has half on average while it decodes.
const (
	prompt, answer = 222, 1346
	length         = prompt + answer/2
	slo            = 0.050 // s, Table 1
	uncached       = 0.36  // mean cached ratio 0.64, section 6.2
)

// study is what the sections share.
type study struct {
	ctx     context.Context
	lib     *hardware.Library
	machine *hardware.Machine
	model   *hardware.Model
	shape   shape
}

// Of are the paper's sections with the machines and models of a library.
func Of(ctx context.Context, in reproduce.Inputs, lib *hardware.Library) (sections []reproduce.Section, err error) {
	s := &study{ctx: ctx, lib: lib}
	if s.machine, err = lib.Machine("a100-80"); err != nil {
		return nil, err
	}
	if s.model, err = lib.Model("llama-2-13b"); err != nil {
		return nil, err
	}
	s.shape = shapeOf(s.model)
	for _, part := range []func() (reproduce.Section, error){s.equations, s.choice, s.layout, s.request, s.schedule, s.serving} {
		section, err := part()
		if err != nil {
			return nil, err
		}
		sections = append(sections, section)
		in.Done()
	}
	return sections, nil
}

// decode is a batch of requests of ShareGPT's mean length under a schedule.
func (s *study) decode(batch int, schedule string) *setting.Setting {
	return &setting.Setting{Machine: s.machine, Model: s.model, Batch: batch, Schedule: schedule, Reserve: 0.1,
		Request: setting.Request{Context: length, Demand: length * int64(s.model.KVHeads.Value)}}
}

// percent writes a share of 1.
func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }
