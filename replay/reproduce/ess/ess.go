// Package ess reproduces ESS, which offloads the latent cache of DeepSeek-V3.2-Exp: its
// memory planner, Table 2, the overlap of Fig. 7, and the locality of Figs. 2, 4, 5, 8 and
// 9 on synthetic and on real traces. README.md says what was found.
package ess

import (
	"context"
	"fmt"
	"os"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// Paper is ESS.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name:     "ess",
		Citation: "ESS: An Offload-Centric Latent-Cache Management Architecture for DeepSeek-V3.2-Exp, arXiv 2512.10576.",
		Figures:  9, Tables: 2, Gaps: gaps,
		Parts: 5,
		Sections: func(ctx context.Context, in reproduce.Inputs) ([]reproduce.Section, error) {
			lib, err := hardware.Load(in.Hardware)
			if err != nil {
				return nil, err
			}
			return Of(ctx, in, lib)
		},
	}
}

// machineName is an H200, the only bundled kind of GPU on which the paper's figures can
// have been: README.md has the argument.
const (
	machineName = "dgx-h200"
	modelName   = "deepseek-v3.2"
)

// study is what the sections share.
type study struct {
	ctx       context.Context
	in        reproduce.Inputs
	dir       string // of files in between
	machine   *hardware.Machine
	model     *hardware.Model
	selection pipeline.Selection
	lru       policies.Spec
	sources   map[string]*source // by path
}

// Of are the paper's sections with the machines and models of a library.
func Of(ctx context.Context, in reproduce.Inputs, lib *hardware.Library) (sections []reproduce.Section, err error) {
	dir, err := os.MkdirTemp("", "kvreplay-ess-")
	if err != nil {
		return nil, fmt.Errorf("files in between: %w", err)
	}
	defer os.RemoveAll(dir)
	s, err := newStudy(ctx, in, lib, dir)
	if err != nil {
		return nil, err
	}
	defer s.close()
	for _, part := range []func() ([]reproduce.Section, error){s.timed, s.arithmetic, s.memory, s.blocks, s.locality} {
		more, err := part()
		if err != nil {
			return nil, err
		}
		sections = append(sections, more...)
		in.Done()
	}
	return sections, nil
}

func newStudy(ctx context.Context, in reproduce.Inputs, lib *hardware.Library, dir string) (s *study, err error) {
	s = &study{ctx: ctx, in: in, dir: dir, sources: map[string]*source{}}
	if s.machine, err = lib.Machine(machineName); err != nil {
		return nil, err
	}
	if s.model, err = lib.Model(modelName); err != nil {
		return nil, err
	}
	if s.selection, err = pipeline.ParseSelection("auto", s.model); err != nil {
		return nil, err
	}
	if s.lru, err = all.Table().Parse("lru"); err != nil {
		return nil, err
	}
	return s, nil
}
