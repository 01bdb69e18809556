package kvpr

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// hidingRow is a batch of Table 2, tokens/s.
type hidingRow struct {
	batch                  int
	flexgen, without, with float64
}

// The printed rows.
var hiding = []hidingRow{
	{1, 1.761, 1.749, 1.774}, {2, 3.488, 3.461, 3.586}, {4, 6.646, 6.766, 6.696},
	{8, 12.826, 12.930, 12.986}, {16, 23.795, 23.613, 24.557}, {32, 41.210, 43.462, 43.945},
}

// The schedules of Table 2.
const (
	flexgen = "flexgen:weights=host"
	coarse  = "kvpr:order=column,weights=host,load=coarse,recompute=paper"
	fine    = "kvpr:order=column,weights=host,load=fine,recompute=paper"
)

func (h *hidingRow) setting(schedule string) setting {
	return setting{machine: "a100-40", model: "opt-6.7b", schedule: schedule, batch: h.batch, prompt: 256, generate: 64}
}

// table2: OPT-6.7B, one batch column by column, weights on the host.
func (b *bench) table2(c *constants) (reproduce.Section, error) {
	r := c.column
	s := reproduce.Section{
		Name: "table-2", Covers: []string{"Table 2"}, Title: "Table 2: small batches of OPT-6.7B, prompt 256, generation 64, with and without hiding",
		Method: "Tokens/s of 63 decode steps: schedules flexgen and kvpr (order=column, weights=host; load=coarse without hiding, load=fine with it; recompute=paper, the split of Eq. 11), the cache at its actual length, computation by the roofline." + shippedMethod,
		Constants: []reproduce.Constant{{Name: "link", Value: r.link / 1e9, Unit: "GB/s", From: "this table: FlexGen at batch 1"},
			{Name: "recomputation", Value: r.flops / 1e12, Unit: "TFLOP/s", From: "Table 4"}},
		Contradictions: []string{
			"Caption and text call the figures latency. They grow from 1.761 to 41.21 with the batch while the weights, 12.9 GB a step, stay what they are: they are tokens/s. Only so does FlexGen, as the text says, outperform KVPR without hiding at batch 1 (1.761 and 1.749).",
			"The row of cache sizes doubles from 3 to 48 MB and then has 64 where 96 are due; 3 MB a request and layer are 192 tokens, fewer than the prompt's 256. It is not used.",
			"The two orders of loading can only differ where recomputing takes longer than the FFN's weights, two thirds of a layer's, that still move: at none of these batches. The printed differences have no trend, and at batch 4 not hiding is the faster.",
		},
	}
	never, same := true, true
	for i := range hiding {
		h := &hiding[i]
		var got [3]float64
		for j, cell := range []struct {
			name, schedule string
			printed, gate  float64
		}{{"FlexGen", flexgen, h.flexgen, 0.04}, {"KVPR without hiding", coarse, h.without, 0.06}, {"KVPR with hiding", fine, h.with, 0.04}} {
			item := fmt.Sprintf("batch %d, %s", h.batch, cell.name)
			predicted, err := b.predict(item, "tokens/s", cell.printed, h.setting(cell.schedule), &r, rate)
			if err != nil {
				return s, err
			}
			if got[j], err = b.tokens(h.setting(cell.schedule), r, 0); err != nil {
				return s, err
			}
			s.Lines = append(s.Lines, predicted, judged(item, cell.printed, got[j], cell.gate, i == 0 && j == 0))
		}
		never = never && got[2] >= got[0] && h.with >= h.flexgen
		same = same && within(got[2], got[1], 0.05) && within(h.with, h.without, 0.05)
	}
	s.Lines = append(s.Lines, statement("KVPR with hiding is never slower than FlexGen", never), statement("hiding changes at most 5 %", same))
	return s, nil
}

// judged is a cell of tokens/s, priced with constants of the paper.
func judged(item string, printed, ours, gate float64, fitted bool) reproduce.Line {
	kind := reproduce.Transferred
	if fitted {
		kind, gate = reproduce.Fitted, exactly
	}
	return reproduce.Compare(kind, item+withFitted, "tokens/s", reproduce.Printed(printed), ours, reproduce.Gate{Relative: gate})
}

// exactly is how closely a fitted cell is met.
const exactly = 1e-6

func within(a, b, share float64) bool { return a <= b*(1+share) && b <= a*(1+share) }
