// Package kvdrive reproduces KVDrive, which caches what attention selects in HBM, DRAM and
// SSD: bytes and memory, its schedules and tiers, and the locality of its figures on real
// traces.
package kvdrive

import (
	"context"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// Paper is KVDrive.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name:     "kvdrive",
		Citation: "Lin et al., KVDrive: A Holistic Multi-Tier KV Cache Management System for Long-Context LLM Inference, May 2026.",
		Figures:  24, Tables: 3, Gaps: gaps,
		Parts: 15,
		Sections: func(ctx context.Context, in reproduce.Inputs) ([]reproduce.Section, error) {
			lib, err := hardware.Load(in.Hardware)
			if err != nil {
				return nil, err
			}
			return Of(ctx, in, lib)
		},
	}
}

// study is what the sections share.
type study struct {
	ctx    context.Context
	lib    *hardware.Library
	l20    *hardware.Machine
	llama  *hardware.Model
	traces []*source
	dir    string // of profiles
}

// Of are the paper's sections with the machines and models of a library.
func Of(ctx context.Context, in reproduce.Inputs, lib *hardware.Library) (sections []reproduce.Section, err error) {
	s := &study{ctx: ctx, lib: lib}
	if s.l20, err = lib.Machine("l20"); err != nil {
		return nil, err
	}
	if s.llama, err = lib.Model("llama-3-8b-1048k"); err != nil {
		return nil, err
	}
	if err := s.open(in); err != nil {
		return nil, err
	}
	defer s.close()
	for _, part := range []func() (reproduce.Section, error){s.bytes, s.memory, s.throughput, s.schedules, s.tiers,
		s.breakdown, s.windows, s.reuse, s.lookahead, s.scaling, s.roofline, s.windowSize, s.chunks, s.warmUp, s.rest} {
		section, err := part()
		if err != nil {
			return nil, err
		}
		sections = append(sections, section)
		in.Done()
	}
	return sections, nil
}

// rounded is exact up to how the paper rounds.
func rounded(item, unit string, printed, ours, gate float64) reproduce.Line {
	l := reproduce.Same(item, unit, printed, ours)
	l.Gate.Relative = gate
	return l
}
