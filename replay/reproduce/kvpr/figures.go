package kvpr

import (
	"fmt"
	"math"

	"gonum.org/v1/plot/plotter"

	"github.com/kvreplay/kvreplay/metrics/render/chart"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// figures are the statements of plots, whose points are not printed.
func (b *bench) figures(c *constants) (reproduce.Section, error) {
	s := reproduce.Section{
		Name: "figures", Covers: []string{"Fig. 7", "Fig. 9", "Fig. 10", "Fig. 12", "Fig. 13"}, Title: "Figures 7, 9, 10, 12 and 13: plots, of which the text states a few numbers",
		Method: "Figure 12: the split of Eq. 11, positions recomputed as kvreplay time prints them, 64 requests, at the rates of Figure 1 (32 GiB/s, 312 TFLOP/s). Figures 7 and 9: 8 batches of 32 column by column, weights on the host, prompt 1024, generation 32, with Table 2's constants; 4 bits are FlexGen's groups of 64 with two FP16 numbers each, made FP16 again by the GPU. Figure 13: the same setting, with as many GPUs that share the host's memory.",
	}
	for _, add := range []func(*constants, *reproduce.Section) error{b.splits, b.gains, b.fourBits, b.processes} {
		if err := add(c, &s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// split is how many positions of 64 requests of OPT-6.7B are recomputed, of 128 of the
// prompt and some generated.
func (b *bench) split(generated int, r rates) (float64, error) {
	l := latency{prompt: 128, generate: generated}
	result, err := b.price(l.setting("opt-6.7b", rowByRow), r)
	if err != nil {
		return 0, err
	}
	return result.Recomputed, nil
}

// splits is Figure 12: prompt 128, generation 1 to 32, and on to where the split ends.
func (b *bench) splits(c *constants, s *reproduce.Section) error {
	const prompt, generate, last = 128, 32, 2 // the shortest cache that is priced has 2 generated positions
	stated := rates{link: 32 << 30, flops: 312e12}
	rises, before := true, 0.
	figure := []chart.Line{{Name: "rates of Figure 1"}, {Name: "rates of Table 4"}}
	var at32 [2]float64
	for generated := last; generated <= 1024; generated++ {
		if generated > 2*generate && generated%64 != 0 {
			continue
		}
		for i, r := range []rates{stated, c.row} {
			l, err := b.split(generated, r)
			if err != nil {
				return err
			}
			if generated <= 2*generate {
				figure[i].Points = append(figure[i].Points, plotter.XY{X: float64(generated), Y: l})
			}
			if generated == generate {
				at32[i] = l
			}
			if i == 0 {
				rises, before = rises && l >= before && l <= prompt, l
			}
		}
	}
	first, share := figure[0].Points[0].Y, at32[1]/(prompt+generate)
	s.Lines = append(s.Lines, statement("Fig. 12: the split never falls as the cache grows, and ends at the prompt's length", rises && before == prompt),
		shown(reproduce.Absent("Fig. 12: split at generation length 1", "positions", reproduce.Printed(182), "182 exceeds the 128 that Eq. 11 allows, and the text says that it increases to 128. Ours is at length 2"), first),
		shown(reproduce.Absent("Fig. 12: split at generation length 32", "positions", reproduce.Printed(prompt), fmt.Sprintf("four fifths of the positions need about 16,000 FLOP per byte of the link. Fig. 1 states %.0f, Table 4's times give %.0f", stated.flops/stated.link, c.row.flops/c.row.link)), at32[0]),
		shown(reproduce.Absent("Fig. 10: share of positions recomputed", "", reproduce.Reference(8./(8+38./2), "from the printed shares of time: 8 % for activations and 38 % for KV, which takes twice as long a position"), "the paper states neither model nor setting. Ours are OPT-6.7B, prompt 128, generation 32 at Table 4's rates"), share))
	s.Contradictions = append(s.Contradictions, fmt.Sprintf("Figure 12's splits and the tables' times cannot come from the same rates: 128 of 160 positions leave a fifth of the KV to move, the rates of Table 4 %.0f %%.", 100*(1-share)))
	drawing := chart.Chart{Title: "Positions recomputed of a prompt of 128, OPT-6.7B", X: "generated tokens", Y: "positions", Lines: figure, Open: true, Ticks: chart.Ticks(2, 16, 32, 48, 64)}
	svg, err := drawing.Draw()
	if err != nil {
		return fmt.Errorf("figure 12: %w", err)
	}
	s.Figures = append(s.Figures, reproduce.Figure{Name: "kvpr-fig-12", Alt: fmt.Sprintf("The split of Eq. 11 rises with the generated tokens, at the rates of Figure 1 from %.0f positions to %.0f, at those of Table 4 from %.0f to %.0f", ends(figure[0].Points)[0], ends(figure[0].Points)[1], ends(figure[1].Points)[0], ends(figure[1].Points)[1]), SVG: svg})
	return nil
}

// shown is a line that is not computable, with a figure of ours for orientation.
func shown(l reproduce.Line, ours float64) reproduce.Line {
	l.Ours = ours
	return l
}

// ends are the first and the last value of a line.
func ends(points plotter.XYs) [2]float64 { return [2]float64{points[0].Y, points[len(points)-1].Y} }

func throughputSetting(model, schedule string) setting {
	return setting{machine: "a100-40", model: model, schedule: schedule, batch: inAll, prompt: 1024, generate: 32}
}

// throughput is a setting of Figures 7 and 9.
func (b *bench) throughput(c *constants, model, schedule string) (float64, error) {
	return b.tokens(throughputSetting(model, schedule), c.column, 0)
}

// gains is Figure 7's headline, over FlexGen.
func (b *bench) gains(c *constants, s *reproduce.Section) error {
	for _, row := range []struct {
		model   string
		printed float64
	}{{"opt-6.7b", 15.1}, {"opt-13b", 46.2}, {"opt-30b", 29.0}} {
		base, err := b.throughput(c, row.model, flexgenBatches)
		if err != nil {
			return err
		}
		kvpr, err := b.throughput(c, row.model, kvprBatches)
		if err != nil {
			return err
		}
		s.Lines = append(s.Lines, shown(reproduce.Absent("Fig. 7: greatest gain over FlexGen, "+row.model, "%", reproduce.Printed(row.printed), "the paper does not print which point it is, nor its tokens/s"), 100*(kvpr/base-1)))
	}
	s.Contradictions = append(s.Contradictions, "The headline gains, 15.1, 46.2 and 29.0 % for OPT-6.7B, 13B and 30B, are in no order that one GPU gives: recomputing a position takes 2·h·v/F as long as moving its activations, so that gains fall with the hidden size h.")
	return nil
}

// fourBits is Figure 9: OPT-13B with a cache of 4 bits.
func (b *bench) fourBits(c *constants, s *reproduce.Section) error {
	var got []float64
	for _, schedule := range []string{flexgenBatches, kvprBatches, flexgenBatches + ",kv=int4", kvprBatches + ",kv=int4", kvprBatches + ",kv=int4,x=int4"} {
		t, err := b.throughput(c, "opt-13b", schedule)
		if err != nil {
			return err
		}
		got = append(got, t)
	}
	base, kvpr, packedBase, packed, both := got[0], got[1], got[2], got[3], got[4]
	s.Lines = append(s.Lines, statement("Fig. 9: 4-bit KV raises the throughput of FlexGen and of KVPR", packedBase > base && math.Max(packed, both) > kvpr))
	s.Contradictions = append(s.Contradictions, fmt.Sprintf("Figure 9 gains from KVPR and 4-bit KV together. Activations of FP16 are larger than K and V of 4 bits (10,240 and 5,760 B a position of OPT-13B), so that nothing is worth recomputing: %.1f tokens/s with KVPR, %.1f without. With activations of 4 bits, which the text does not mention, the GPU binds at the rates of the tables: %.1f.", packed, packedBase, both))
	return nil
}

// processes is Figure 13: KVPR on 1 to 8 GPUs of one host, a process each.
func (b *bench) processes(c *constants, s *reproduce.Section) error {
	var alone, among float64
	for _, v := range []struct {
		gpus   int
		tokens *float64
	}{{1, &alone}, {8, &among}} {
		shared := throughputSetting("opt-6.7b", kvprBatches)
		shared.gpus = v.gpus
		var err error
		if *v.tokens, err = b.tokens(shared, c.column, 0); err != nil {
			return err
		}
	}
	s.Lines = append(s.Lines, shown(reproduce.Absent("Fig. 13: throughput of KVPR among 8 processes, of it alone", "", reproduce.Target{},
		"the text prints only that KVPR keeps its speed. Here eight links together exceed the host's memory rate. FastDecode's attention on the CPU has no schedule here"), among/alone))
	return nil
}
