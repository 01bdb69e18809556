// Package kvpr reproduces the tables of KVPR (arXiv 2411.17089): KV caches that move over
// the link every step while a part of them is recomputed from activations.
//
// Everything is priced as `kvreplay time` does it: a machine of replay/hardware, the
// schedules kvpr and flexgen of replay/pipeline, the link of replay/transfer. The paper
// states neither the rates that its link and GPU reach nor its overheads, so a few cells
// of each table give them, and the others are judged.
package kvpr

import (
	"context"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// Paper is KVPR.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name:     "kvpr",
		Citation: "Jiang, Gao, Zarch, Annavaram: KVPR: Efficient LLM Inference with I/O-Aware KV Cache Partial Recomputation. Findings of ACL 2025, arXiv 2411.17089.",
		Figures:  13, Tables: 5, Gaps: gaps,
		Parts: 2,
		Sections: func(ctx context.Context, in reproduce.Inputs) ([]reproduce.Section, error) {
			lib, err := hardware.Load(in.Hardware)
			if err != nil {
				return nil, err
			}
			b := &bench{ctx: ctx, lib: lib}
			c, err := b.fit()
			if err != nil {
				return nil, err
			}
			in.Done()
			defer in.Done()
			return b.sections(c)
		},
	}
}

// sections are the tables, with some constants.
func (b *bench) sections(c *constants) (sections []reproduce.Section, err error) {
	for _, table := range []func(*constants) (reproduce.Section, error){b.table1, b.table2, b.table3, b.table4, b.table5, b.figures} {
		s, err := table(c)
		if err != nil {
			return nil, err
		}
		sections = append(sections, s)
	}
	return sections, nil
}
