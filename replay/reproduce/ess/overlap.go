package ess

import (
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// The setting of Fig. 7. The overhead of dividing the indexer is not printed. It is assumed as two
// more launches of two kernels at 5 µs each.
const (
	overlapBatch = 160
	overlapMTP   = 2
	overhead     = 20e-6 // s per layer
)

var (
	dba       = fmt.Sprintf("dba:phi=0.5,delta_us=%g", 1e6*overhead)
	layerwise = fmt.Sprintf("layerwise:phi=0.5,delta_us=%g", 1e6*overhead)
)

// overlap computes Fig. 7: the cost of fetching relative to a step without fetches, if all layers
// miss the same number.
func (b *bench) overlap(computing step) {
	d := b.Section("fig-7")
	seconds := func(misses int, schedule string) float64 {
		return b.price(&setting{b.even(misses, long), schedule, overlapBatch, long, overlapMTP, 1, computing}).Mean
	}
	plain := seconds(0, "gpu")
	misses := []int{0, 16, 32, 64, 96, 128, 192, 256, 320, 384, 448, 512, 640, 768, 1024}
	costs := map[string]map[int]float64{}
	var lines []figure.Line
	modes := []struct{ name, schedule string }{
		{"none", "sequential"}, {"DA", "da"}, {"DBA", dba}, {"layer-wise", layerwise},
	}
	for _, mode := range modes {
		costs[mode.name] = map[int]float64{}
		l := figure.Line{Name: mode.name}
		for _, m := range misses {
			v := seconds(m, mode.schedule)/plain - 1
			costs[mode.name][m] = v
			l.Points = append(l.Points, figure.At(float64(m), v))
		}
		lines = append(lines, l)
	}
	d.Draw("ess-fig-7", lines)

	// The statements of section 3.3 about the costs by mode and number of misses.
	const slack = 1e-3 // share of the step, because a closed form makes the choice
	none, da, both, layer := costs["none"], costs["DA"], costs["DBA"], costs["layer-wise"]
	longest, best, never, lead := true, true, true, math.Inf(1)
	for _, m := range misses {
		longest = longest && (m == 0 || none[m] > max(da[m], both[m]))
		best = best && (m > 128 || da[m] <= both[m]+slack)
		never = never && layer[m] <= min(da[m], both[m])+slack
		lead = min(lead, min(da[m], both[m])-layer[m])
	}
	d.Holds("none", 100*none[512], longest)
	d.Holds("DA", 100*da[128], best)
	d.Set("DBA", 100*(both[512]-da[512]))
	d.Set("hidden", 100*(1-both[512]/none[512]))
	d.Holds("layer-wise", 100*max(0, -lead), never)

	// The least number of misses at which DBA is better, by bisection over priced steps.
	least, most := 0, int(b.model.Indexer.TopK.Value)
	for most-least > 1 {
		if m := (least + most) / 2; seconds(m, "da") <= seconds(m, dba) {
			least = m
		} else {
			most = m
		}
	}
	formula := b.switchPoint(computing)
	d.Let("formula", formula)
	d.Let("index", overlapBatch*long*float64(b.model.Indexer.Entry.Value)*float64(b.model.Layers.Value)/1e9)
	d.Holds("switch", float64(most), math.Abs(float64(most)/formula-1) <= 0.02)
}

// switchPoint returns the number of misses from which DBA is better, by the closed form. At this
// point the exposure of DA equals the overhead of dividing:
//
//	(1 − g)·(launch + m·tau) − W_pre − W_attn·(1 − m/K) = delta
//
// g is the share of the SMs that the gather kernel takes, which both overlaps expose.
func (b *bench) switchPoint(computing step) float64 {
	load := operator.Load{Requests: overlapBatch, Queries: overlapBatch * overlapMTP, Context: overlapBatch * long}
	o := reproduce.Must(b.operators(b.roofline(), computing, overlapMTP, long).Layer(int(b.model.Layers.Value)-1, &load))
	path := reproduce.Must(transfer.NewLink(b.machine.Link).Path(transfer.HostToDevice, transfer.Kernel))
	cost := path.Cost(transfer.Layout{EntryBytes: int64(b.model.Entry.Value)}.Request(overlapBatch, overlapBatch))
	free := 1 - cost.SMs/float64(b.machine.GPU.SMs.Value)
	launch, tau := free*cost.By.Launch, free*(cost.Seconds-cost.By.Launch)
	return (o.Pre + o.Attend + overhead - launch) / (tau + o.Attend/float64(b.model.Indexer.TopK.Value))
}
