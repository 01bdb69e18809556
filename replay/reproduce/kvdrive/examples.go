package kvdrive

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Stages of the worked layer, ms: selection, lookup, fetch, computation, metadata, and
// what each stage of each micro-batch costs extra.
const (
	selects, looks, fetches, computes, updates, extra = 4., 2., 8., 4., 1., 0.25
)

// schedules holds the worked examples of section 6.1, by the timelines of kvreplay time.
func (s *study) schedules() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "fig-10", Covers: []string{"Fig. 10"}, Title: "Figure 10, section 6.1: schedules, worked by hand",
		Method: "One layer of 4 ms selection, 2 ms lookup, 8 ms fetch, 4 ms computation, 1 ms of metadata, and 0.25 ms per stage and micro-batch. Ours are the timelines of kvreplay time, schedules sequential, prefetch and sfc."}
	line := func(item string, printed float64, schedule string, step *pipeline.Step) float64 {
		if err != nil {
			return 0
		}
		var placed pipeline.Schedule
		if placed, err = pipeline.ParseSchedule(schedule); err != nil {
			return 0
		}
		t := pipeline.NewTimeline()
		placed.Place(t, step)
		section.Lines = append(section.Lines, reproduce.ByHand(item, "ms", printed, t.End()))
		return t.End()
	}
	whole := pipeline.Layer{Select: selects + extra, LookupCPU: looks + extra, Fetch: pipeline.Transfer{Seconds: fetches + extra}, Attend: computes, Update: updates}
	one := func(l pipeline.Layer, n int) *pipeline.Step {
		step := &pipeline.Step{}
		for range n {
			step.Whole = append(step.Whole, l)
		}
		return step
	}
	line("sequential", 19.75, "sequential:lookup=cpu", one(whole, 1))
	best, least := 0, 0.
	for _, c := range []struct {
		n       int
		printed float64
	}{{1, 18.75}, {2, 16}, {4, 15}, {8, 15.25}, {16, 16.875}} {
		took := line(fmt.Sprintf("SFC, %d micro-batches", c.n), c.printed, fmt.Sprintf("sfc:parts=%d", c.n), divided(c.n))
		if best == 0 || took < least {
			best, least = c.n, took
		}
	}
	infinigen := pipeline.Layer{Select: selects, Fetch: pipeline.Transfer{Seconds: fetches}, Attend: computes}
	line("InfiniGen, two layers: selection, fetch, selection beside it, …", 4+8+4+8+4, "prefetch", one(infinigen, 2))
	line("InfiniGen, three layers: 12 ms more", 4+8+4+8+4+12, "prefetch", one(infinigen, 3))
	uneven := &pipeline.Step{Whole: make([]pipeline.Layer, 1)}
	for _, f := range []float64{2, 3, 1, 2} {
		uneven.Parts = append(uneven.Parts, []pipeline.Layer{{Select: 1, LookupCPU: 0.5, Fetch: pipeline.Transfer{Seconds: f}}})
	}
	line("SFC, fetches of 2, 3, 1, 2 ms", 9.5, "sfc:parts=4", uneven)
	section.Lines = append(section.Lines, reproduce.Statement("neither the fewest nor the most micro-batches are best", "", float64(best), best == 4))
	return section, err
}

// divided is the worked layer in n micro-batches.
func divided(n int) *pipeline.Step {
	step, parts := &pipeline.Step{Whole: []pipeline.Layer{{Attend: computes, Update: updates}}}, float64(n)
	for range n {
		step.Parts = append(step.Parts, []pipeline.Layer{{Select: selects/parts + extra, LookupCPU: looks/parts + extra, Fetch: pipeline.Transfer{Seconds: fetches/parts + extra}}})
	}
	return step
}

// link is a path of so many bytes/s at a cost a piece.
func link(rate, piece float64) *transfer.Curve {
	return &transfer.Curve{Regimes: []transfer.Regime{{Rate: rate, Descriptor: piece}}}
}

// tiers holds the worked examples of sections 7.3, 6.3 and 9.3.
func (s *study) tiers() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "worked", Covers: []string{"Fig. 11", "Fig. 12", "Fig. 17", "Fig. 21"}, Title: "Sections 6.3, 7.3, 9.3: tiers, roofline, chunks, worked by hand",
		Method: "Ours are replay/transfer: Tiers on blocks of 100 kB (25 GB/s over the link; a drive of 80 µs and 5 GB/s; 8 blocks in DRAM, 2 on the SSD, 1000 in the layer, 60 µs to read ahead in), DRAM beside the link, and 960 entries of 512 B in chunks, 0.05 µs a request."}
	levels := &transfer.Tiers{Link: link(25e9, 0), SSD: &transfer.SSD{Latency: 80e-6, Bandwidth: 5e9, Depth: 2}, Layout: transfer.Layout{EntryBytes: 100_000}}
	demand := transfer.Demand{DRAM: 8, SSD: 2, Pinned: 1, Layer: 1000, Ahead: 60e-6}
	before, falls := 1., true
	for i, printed := range []float64{24_080, 160, 68, 44} {
		level := transfer.Level(i)
		took := levels.Fetch(level, demand).Seconds
		section.Lines = append(section.Lines, reproduce.ByHand(fmt.Sprintf("Fig. 12 (%c), %s", 'a'+i, level), "us", printed, took*1e6))
		falls, before = falls && took < before, took
	}
	section.Lines = append(section.Lines, reproduce.Statement("Fig. 21a: each strategy is faster than the one before", "", reproduce.None, falls))
	const bytes = 5 << 30
	dram := transfer.Memory{Rate: 125e9, ThreadRate: 125e9, Threads: 1}
	fetched := link(25e9, 0).Time(transfer.Request{Descriptors: 1, Bytes: bytes / 5})
	read := dram.Time(transfer.Request{Descriptors: 1, Bytes: bytes})
	section.Lines = append(section.Lines, reproduce.ByHand("Fig. 11: fetch of 20 % over CPU's reading of all, where DRAM has 5 times the link's rate", "", 1, fetched/read))
	path := link(25e9, 0.05e-6)
	for _, c := range []struct{ chunk, requests, printed float64 }{{1, 960, 67.6608}, {4, 300, 39.576}, {8, 240, 51.3216}} {
		took := path.Time(transfer.Request{Descriptors: int64(c.requests), Bytes: int64(c.requests * c.chunk * 512)})
		section.Lines = append(section.Lines, reproduce.ByHand(fmt.Sprintf("Fig. 17: chunks of %g, %g requests", c.chunk, c.requests), "us", c.printed, took*1e6))
	}
	return section, nil
}
