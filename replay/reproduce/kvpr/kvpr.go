// Package kvpr reproduces the tables of KVPR (arXiv 2411.17089). KVPR moves KV caches over the link
// every step, and recomputes a part of them from activations meanwhile.
//
// All prices are those of `kvreplay time`. They use a machine of replay/hardware, the schedules
// kvpr and flexgen of replay/pipeline, and the link of replay/transfer. The paper states neither
// the rates that its link and GPU reach nor its overheads. Constants are fitted to a few cells of
// each table, and the other cells are judged.
package kvpr

import (
	_ "embed"

	"github.com/kvreplay/kvreplay/replay/reproduce"
)

//go:embed paper.yaml
var data string

// Paper returns the reproduction of KVPR.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name: "kvpr",
		Citation: "Jiang, Gao, Zarch, Annavaram: KVPR: Efficient LLM Inference with I/O-Aware KV Cache Partial " +
			"Recomputation. Findings of ACL 2025, arXiv 2411.17089.",
		Data: data,
		Study: func(s *reproduce.Study) {
			b := &bench{s}
			c := b.fit()
			s.Compute(b.table1, "table-1")
			s.Compute(func() { b.table2(c) }, "table-2")
			s.Compute(func() { b.table3(c) }, "table-3")
			s.Compute(func() { b.table4(c) }, "table-4")
			s.Compute(func() { b.table5(c) }, "table-5")
			s.Compute(func() { b.figures(c) }, "figures")
		},
	}
}

// constants are not stated in the paper. Each is fitted to the least number of cells.
type constants struct {
	row    rates   // Tables 3 and 4: from Table 4, Accelerate 128/32 and 512/32, KVPR 512/32
	column rates   // Table 2: the link from FlexGen at batch 1, the rest from Table 4
	low    rates   // Table 5: the link from FlexGen 1024/32 and 1024/128, the rest from Table 4
	once   float64 // Table 5: bytes/s at which the prompts' cache moves once per run, from the same cells
}

// The schedules of the tables, in the form of `kvreplay time --schedule`.
const (
	accelerate = "kvpr:recompute=off" // Hugging Face Accelerate: a layer's whole cache moves before it computes
	rowByRow   = "kvpr:recompute=paper"

	flexgen = "flexgen:weights=host"
	coarse  = "kvpr:order=column,weights=host,load=coarse,recompute=paper"
	fine    = "kvpr:order=column,weights=host,load=fine,recompute=paper"

	flexgenBatches = "flexgen:batches=8,weights=host"
	kvprBatches    = "kvpr:order=column,batches=8,weights=host,recompute=paper"
)

func (b *bench) fit() *constants {
	var c constants
	table4, table2, table5 := b.Rows("table-4"), b.Rows("table-2"), b.Rows("table-5")

	// Accelerate recomputes nothing, so it gives the link's rate and a layer's overhead.
	short, long := table4[0], table4[4]
	printed := []float64{short.Number("Accelerate"), long.Number("Accelerate")}
	x := reproduce.Must(solve([]float64{25e9, 1e-3}, printed, func(x []float64) []float64 {
		seconds := func(row reproduce.Row) float64 {
			return b.seconds(latency("opt-13b", row, accelerate), rates{link: x[0], overhead: x[1], flops: 1e12})
		}
		return []float64{seconds(short), seconds(long)}
	}))
	c.row = rates{link: x[0], overhead: x[1]}
	c.row.flops = b.recomputation(long, c.row)

	c.column.flops = c.row.flops
	printed = []float64{table2[0].Number("FlexGen")}
	c.column.link = reproduce.Must(solve([]float64{25e9}, printed, func(x []float64) []float64 {
		return []float64{b.tokens(small(table2[0], flexgen), rates{link: x[0], flops: c.column.flops}, 0)}
	}))[0]

	// On the small GPU, recomputing reaches the same share of the datasheet as on the A100.
	a100, rtx5000 := reproduce.Must(b.Library.GPU("a100-40")), reproduce.Must(b.Library.GPU("rtx5000"))
	c.low.flops = c.row.flops / float64(a100.BF16.Value) * float64(rtx5000.BF16.Value)
	short, long = table5[4], table5[5]
	printed = []float64{short.Number("FlexGen"), long.Number("FlexGen")}
	x = reproduce.Must(solve([]float64{10e9, 5e9}, printed, func(x []float64) []float64 {
		r := rates{link: x[0], flops: c.low.flops}
		return []float64{b.lowTokens(short, flexgenBatches, r, x[1]), b.lowTokens(long, flexgenBatches, r, x[1])}
	}))
	c.low.link, c.once = x[0], x[1]
	return &c
}

// recomputation returns the rate that reproduces a row of Table 4.
func (b *bench) recomputation(row reproduce.Row, r rates) float64 {
	return reproduce.Must(between(1e12, 1e15, row.Number("KVPR"), func(flops float64) float64 {
		return b.seconds(latency("opt-13b", row, rowByRow), rates{r.link, flops, r.overhead})
	}))
}
