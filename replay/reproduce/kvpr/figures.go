package kvpr

import (
	"math"

	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// figures computes the statements about plots, whose points are not printed.
func (b *bench) figures(c *constants) {
	d := b.Section("figures")
	b.splits(d, c)

	// Figure 7's headline, over FlexGen.
	for _, row := range b.Rows("fig-7") {
		model := row.Text("model")
		gain := b.throughput(c, model, kvprBatches)/b.throughput(c, model, flexgenBatches) - 1
		d.Set("gain", 100*gain, row)
	}

	// Figure 9: OPT-13B with a cache of 4 bits.
	base, kvpr := b.throughput(c, "opt-13b", flexgenBatches), b.throughput(c, "opt-13b", kvprBatches)
	packedBase := b.throughput(c, "opt-13b", flexgenBatches+",kv=int4")
	packed := b.throughput(c, "opt-13b", kvprBatches+",kv=int4")
	both := b.throughput(c, "opt-13b", kvprBatches+",kv=int4,x=int4")
	d.Holds("4 bits", reproduce.None, packedBase > base && math.Max(packed, both) > kvpr)
	d.Let("packed", packed)
	d.Let("packed base", packedBase)
	d.Let("both packed", both)

	// Figure 13: KVPR on 1 to 8 GPUs of one host, a process each.
	alone, among := inColumns("opt-6.7b", kvprBatches), inColumns("opt-6.7b", kvprBatches)
	alone.gpus, among.gpus = 1, 8
	d.Set("processes", b.tokens(among, c.column, 0)/b.tokens(alone, c.column, 0))
}

// inColumns returns a setting of Figures 7, 9 and 13.
func inColumns(model, schedule string) setting {
	return setting{machine: "a100-40", model: model, schedule: schedule, batch: inAll, prompt: 1024, generate: 32}
}

func (b *bench) throughput(c *constants, model, schedule string) float64 {
	return b.tokens(inColumns(model, schedule), c.column, 0)
}

// splits computes Figure 12: the recomputed positions of 64 requests of OPT-6.7B. The prompt has
// 128 tokens and the answer 1 to 32, and then more to the end of the split.
func (b *bench) splits(d *reproduce.Draft, c *constants) {
	const prompt, generate, first = 128, 32, 2 // the shortest priced cache has 2 generated positions
	fig1 := rates{link: 32 << 30, flops: 312e12}
	rises, before := true, 0.
	curves := []figure.Line{{Name: "rates of Figure 1"}, {Name: "rates of Table 4"}}
	var at32 [2]float64
	for generated := first; generated <= 1024; generated++ {
		if generated > 2*generate && generated%64 != 0 {
			continue
		}
		for i, r := range []rates{fig1, c.row} {
			row := reproduce.Row{"prompt": prompt, "generation": generated}
			split := b.price(latency("opt-6.7b", row, rowByRow), r).Recomputed
			if generated <= 2*generate {
				curves[i].Points = append(curves[i].Points, figure.At(float64(generated), split))
			}
			if generated == generate {
				at32[i] = split
			}
			if i == 0 {
				rises, before = rises && split >= before && split <= prompt, split
			}
		}
	}
	share := at32[1] / (prompt + generate)
	d.Holds("rises", reproduce.None, rises && before == prompt)
	d.Set("split at 1", curves[0].Points[0].Y)
	d.Set("split at 32", at32[0])
	d.Set("share", share)
	d.Let("intensity of Fig. 1", fig1.flops/fig1.link)
	d.Let("intensity of Table 4", c.row.flops/c.row.link)
	d.Let("left to move", 100*(1-share))
	for i, name := range []string{"Figure 1", "Table 4"} {
		points := curves[i].Points
		d.Let("first of "+name, points[0].Y)
		d.Let("last of "+name, points[len(points)-1].Y)
	}
	d.Draw("kvpr-fig-12", curves)
}
