package ess

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot/plotter"

	"github.com/kvreplay/kvreplay/metrics/render/chart"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Fig. 7's setting. The overhead of dividing the indexer is not printed: two launches of
// two kernels more, at 5 µs each.
const (
	overlapBatch = 160
	overlapMTP   = 2
	overhead     = 20e-6 // s a layer
)

var overlapModes = []struct{ name, schedule string }{
	{"none", "sequential"}, {"DA", "da"},
	{"DBA", fmt.Sprintf("dba:phi=0.5,delta_us=%g", 1e6*overhead)},
	{"layer-wise", fmt.Sprintf("layerwise:phi=0.5,delta_us=%g", 1e6*overhead)},
}

// exposures prices steps whose layers all miss as much.
type exposures struct {
	study *study
	times string
	plain float64 // s, a step that fetches nothing
}

func (s *study) exposures(computing step) (e *exposures, err error) {
	e = &exposures{study: s}
	if e.times, err = s.timetable(overlapMTP, map[int]step{long: computing}); err != nil {
		return nil, err
	}
	e.plain, err = e.step(0, "gpu")
	return e, err
}

func (e *exposures) step(misses int, schedule string) (float64, error) {
	r, err := e.study.price(&setting{e.study.even(misses, long), schedule, overlapBatch, long, overlapMTP, 1, e.times})
	if err != nil {
		return 0, err
	}
	return r.Mean, nil
}

// cost is what fetching adds to a step, relative to one that fetches nothing.
func (e *exposures) cost(misses int, schedule string) (float64, error) {
	t, err := e.step(misses, schedule)
	return t/e.plain - 1, err
}

// overlap is Fig. 7.
func (s *study) overlap(computing step) (*reproduce.Section, error) {
	e, err := s.exposures(computing)
	if err != nil {
		return nil, err
	}
	section := &reproduce.Section{Name: "fig-7", Covers: []string{"Fig. 7"}, Title: "Fig. 7: overlap at 128K, batch 160, MTP 2, 37 GB/s",
		Method:    "kvreplay time with the schedules sequential, da, dba and layerwise; every layer of every request misses as much. Computation as in Table 2 at 128K, whose straight lines go on to 320 query tokens; the costs are what fetching adds to a step without it.",
		Constants: []reproduce.Constant{{Name: "overhead of dividing the indexer, a layer", Value: 1e6 * overhead, Unit: "us", From: "assumed: four kernel launches of 5 us"}},
		Contradictions: []string{
			fmt.Sprintf("Batch 160 does not fit at 128K: the indexer's cache, which is never offloaded, alone takes %.0f GB a GPU, and the ratio for that batch is negative.", overlapBatch*long*float64(s.model.Indexer.Entry.Value)*float64(s.model.Layers.Value)/1e9),
			"Figure 7 is cited for timelines and for the costs by misses; no value is printed.",
		}}
	misses := []int{0, 16, 32, 64, 96, 128, 192, 256, 320, 384, 448, 512, 640, 768, 1024}
	costs := map[string]map[int]float64{}
	c := &chart.Chart{Title: "What fetching adds to a step at 128K, batch 160 (ESS, Fig. 7)", X: "misses a layer and request", Y: "share of the step", Open: true, Ticks: chart.Ticks(0, 128, 256, 384, 512, 640, 768, 896, 1024)}
	for _, mode := range overlapModes {
		costs[mode.name] = map[int]float64{}
		l := chart.Line{Name: mode.name}
		for _, m := range misses {
			v, err := e.cost(m, mode.schedule)
			if err != nil {
				return nil, err
			}
			costs[mode.name][m] = v
			l.Points = append(l.Points, plotter.XY{X: float64(m), Y: v})
		}
		c.Lines = append(c.Lines, l)
	}
	section.Lines = ordered(misses, costs)
	sw, err := s.switchPoint(e)
	if err != nil {
		return nil, err
	}
	section.Lines = append(section.Lines, *sw)
	return section, section.Draw("ess-fig-7", "What fetching adds to a step over misses, without overlap, with DA, with DBA and with the better of both layer by layer.", c)
}

// ordered are the statements of section 3.3 about the costs by mode and misses.
func ordered(misses []int, costs map[string]map[int]float64) []reproduce.Line {
	const slack = 1e-3 // of the step: the choice is made by a closed form
	all := func(is func(m int) bool) bool {
		for _, m := range misses {
			if !is(m) {
				return false
			}
		}
		return true
	}
	none, da, dba, layer := costs["none"], costs["DA"], costs["DBA"], costs["layer-wise"]
	return []reproduce.Line{
		reproduce.Statement("without overlap a step is longest, at all misses; ours at 512", "%", 100*none[512], all(func(m int) bool { return m == 0 || none[m] > max(da[m], dba[m]) })),
		reproduce.Statement("DA is best at few misses, up to 128, to 0.1 % of a step; ours at 128", "%", 100*da[128], all(func(m int) bool { return m > 128 || da[m] <= dba[m]+slack })),
		reproduce.Statement("DBA is best at 512 misses; ours, less that of DA", "%", 100*(dba[512]-da[512]), dba[512] < da[512]),
		reproduce.Statement("DBA is still effective at 512 misses: it hides more than half of what none exposes; hidden", "%", 100*(1-dba[512]/none[512]), dba[512] < none[512]/2),
		reproduce.Statement("the layer-wise choice is never worse than DA or DBA by 0.1 % of a step; its worst", "%", 100*max(0, -lead(misses, costs)), all(func(m int) bool { return layer[m] <= min(da[m], dba[m])+slack })),
	}
}

// lead is how far the layer-wise choice is ahead of the better of both where that is least.
func lead(misses []int, costs map[string]map[int]float64) float64 {
	least := math.Inf(1)
	for _, m := range misses {
		least = min(least, min(costs["DA"][m], costs["DBA"][m])-costs["layer-wise"][m])
	}
	return least
}

// switchPoint is the number of misses from which DBA is better, by search over priced
// steps, and by the closed form: where DA exposes the overhead of dividing,
//
//	(1 − g)·(launch + m·tau) − W_pre − W_attn·(1 − m/K) = delta
//
// g is the share of the SMs that the gather kernel takes, which both overlaps expose.
func (s *study) switchPoint(e *exposures) (*reproduce.Line, error) {
	least, most := 0, int(s.model.Indexer.TopK.Value)
	for most-least > 1 {
		m := (least + most) / 2
		da, err := e.step(m, "da")
		if err != nil {
			return nil, err
		}
		dba, err := e.step(m, overlapModes[2].schedule)
		if err != nil {
			return nil, err
		}
		if da <= dba {
			least = m
		} else {
			most = m
		}
	}
	formula, err := s.switchFormula(e)
	if err != nil {
		return nil, err
	}
	l := reproduce.Statement(fmt.Sprintf("misses from which DBA is better: within 2 %% of the closed form, %.1f", formula), "", float64(most), math.Abs(float64(most)/formula-1) <= 0.02)
	return &l, nil
}

func (s *study) switchFormula(e *exposures) (float64, error) {
	table, err := pipeline.ReadTimetable(strings.NewReader(e.times), "times", pipeline.NewRoofline(s.machine, s.model, s.selection, expertGPUs, 1), false)
	if err != nil {
		return 0, err
	}
	o, err := table.Layer(int(s.model.Layers.Value)-1, &pipeline.Load{Requests: overlapBatch, Queries: overlapBatch * overlapMTP, Context: overlapBatch * long})
	if err != nil {
		return 0, err
	}
	path, err := transfer.NewLink(s.machine.Link).Path(transfer.HostToDevice, transfer.Kernel)
	if err != nil {
		return 0, err
	}
	cost := path.Cost(transfer.Request{Descriptors: overlapBatch, Bytes: overlapBatch * int64(s.model.Entry.Value), Launches: 1})
	free := 1 - cost.SMs/float64(s.machine.GPU.SMs.Value)
	launch, tau := free*cost.By.Launch, free*(cost.Seconds-cost.By.Launch)
	return (o.Pre + o.Attend + overhead - launch) / (tau + o.Attend/float64(s.model.Indexer.TopK.Value)), nil
}
