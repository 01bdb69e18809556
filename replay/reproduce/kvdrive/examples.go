package kvdrive

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Stages of the worked layer in ms: selection, lookup, fetch, computation, metadata, and the extra
// cost per stage and micro-batch.
const (
	selects, looks, fetches, computes, updates, extra = 4., 2., 8., 4., 1., 0.25
)

// schedules computes the worked examples of section 6.1 with the timelines of kvreplay time.
func (b *bench) schedules() {
	d := b.Section("fig-10")
	place := func(line, order string, step *schedule.Step) float64 {
		t := schedule.NewTimeline()
		reproduce.Must(schedule.Parse(order)).Place(t, step)
		d.Set(line, t.End())
		return t.End()
	}
	fetch := func(ms float64) schedule.Transfer { return schedule.Transfer{Seconds: ms} }
	whole := schedule.Layer{Select: selects + extra, LookupCPU: looks + extra, Fetch: fetch(fetches + extra),
		Attend: computes, Update: updates}
	place("sequential", "sequential:lookup=cpu", &schedule.Step{Whole: []schedule.Layer{whole}})

	best, least := 0, 0.
	for _, n := range []int{1, 2, 4, 8, 16} { // micro-batches of the worked layer
		step, parts := &schedule.Step{Whole: []schedule.Layer{{Attend: computes, Update: updates}}}, float64(n)
		part := schedule.Layer{Select: selects/parts + extra, LookupCPU: looks/parts + extra,
			Fetch: fetch(fetches/parts + extra)}
		for range n {
			step.Parts = append(step.Parts, []schedule.Layer{part})
		}
		took := place(fmt.Sprintf("SFC, %d micro-batches", n), fmt.Sprintf("sfc:parts=%d", n), step)
		if best == 0 || took < least {
			best, least = n, took
		}
	}
	d.Holds("best", float64(best), best == 4)

	l := schedule.Layer{Select: selects, Fetch: fetch(fetches), Attend: computes}
	place("InfiniGen, two layers", "prefetch", &schedule.Step{Whole: []schedule.Layer{l, l}})
	place("InfiniGen, three layers", "prefetch", &schedule.Step{Whole: []schedule.Layer{l, l, l}})
	uneven := &schedule.Step{Whole: make([]schedule.Layer, 1)}
	for _, ms := range []float64{2, 3, 1, 2} {
		uneven.Parts = append(uneven.Parts, []schedule.Layer{{Select: 1, LookupCPU: 0.5, Fetch: fetch(ms)}})
	}
	place("SFC, fetches of 2, 3, 1, 2 ms", "sfc:parts=4", uneven)
}

// link returns a path with a rate in bytes/s and a cost per piece.
func link(rate, piece float64) *transfer.Curve {
	return &transfer.Curve{Regimes: []transfer.Regime{{Rate: rate, Descriptor: piece}}}
}

// tiers computes the worked examples of sections 7.3, 6.3 and 9.3.
func (b *bench) tiers() {
	d := b.Section("worked")
	levels := &transfer.Tiers{Link: link(25e9, 0), SSD: &transfer.SSD{Latency: 80e-6, Bandwidth: 5e9, Depth: 2},
		Layout: transfer.Layout{EntryBytes: 100_000}}
	demand := transfer.Demand{DRAM: 8, SSD: 2, Pinned: 1, Layer: 1000, Ahead: 60e-6}
	before, falls := 1., true
	for level := transfer.LayerWise; level <= transfer.Balanced; level++ {
		took := levels.Fetch(level, demand).Seconds
		d.Set(level.String(), took*1e6)
		falls, before = falls && took < before, took
	}
	d.Holds("falls", reproduce.None, falls)

	const bytes = 5 << 30
	dram := transfer.Memory{Rate: 125e9, ThreadRate: 125e9, Threads: 1}
	fetched := link(25e9, 0).Time(transfer.Request{Descriptors: 1, Bytes: bytes / 5})
	d.Set("fetch over reading", fetched/dram.Time(transfer.Request{Descriptors: 1, Bytes: bytes}))

	path := link(25e9, 0.05e-6)
	for _, row := range b.Rows("chunks") {
		n := int64(row.Int("requests"))
		d.Set("chunks", 1e6*path.Time(transfer.Request{Descriptors: n, Bytes: n * int64(row.Int("chunk")) * 512}), row)
	}
}
