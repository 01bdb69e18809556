package kvdrive

import (
	"math"
	"strconv"

	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// roofline computes Fig. 11: attention on the GPU or on the CPU.
func (b *bench) roofline() {
	d := b.Section("fig-11")
	files := append(b.exactNear(small), b.exactNear(large)...)
	if len(files) == 0 {
		d.Absent("no trace")
	}
	for _, f := range files {
		hit := 100 * b.counts([]*source{f}, []string{"window:2"}, nil, "auto")["window:2"].hit()
		d.Set("served", hit, reproduce.Row{"trace": f.Name, "about": about(f)})
	}
	for _, name := range []string{"a100-40", "l20"} {
		m := b.Machine(name)
		one := transfer.Request{Descriptors: 1, Bytes: 1 << 30, Launches: 1}
		dram := transfer.DRAM(m.Host, 1<<10).Time(one)
		link := transfer.NewLink(m.Link).Fastest(transfer.HostToDevice).Time(one)
		d.Set("threshold", 100*(1-dram/link), reproduce.Row{"machine": name})
	}
}

// windowSize computes Fig. 16.
func (b *bench) windowSize() {
	d := b.Section("fig-16")
	f := b.typical(d)
	if f == nil {
		return
	}
	for _, context := range []int64{k60, k120} {
		row := reproduce.Row{"K": context / 1024}
		best, step := map[int]int{}, map[[2]int]float64{} // by batch, and by batch and window
		for _, batch := range []int{1, 4} {
			for n := 2; n <= 4; n++ {
				p := b.profile(f, "window:"+strconv.Itoa(n), "", "", 0)
				took := b.price(p, "sfc", kvdrives, pipeline.Options{Batch: batch, Context: context}).Mean
				step[[2]int{batch, n}] = took
				if best[batch] == 0 || took < step[[2]int{batch, best[batch]}] {
					best[batch] = n
				}
			}
		}
		d.Holds("batch 1", float64(best[1]), best[1] == 2, row)
		d.Holds("batch 4", float64(best[4]), best[4] >= best[1], row)
		d.Set("windows of 4", step[[2]int{4, 4}]/step[[2]int{4, 2}], row)
	}
}

// chunks computes Fig. 17.
func (b *bench) chunks() {
	d := b.Section("fig-17")
	f := b.typical(d)
	if f == nil {
		return
	}
	for _, path := range []string{"call", ""} {
		fetch := map[int]float64{} // ms by chunk size
		for _, size := range []int{1, 4, 8} {
			o := pipeline.Options{Batch: 1, Context: k120, Path: path}
			r := b.price(b.profile(f, "window:2", "", "", size), "sequential:lookup=cpu", kvdrives, o)
			fetch[size] = 1e3 * r.Causes[schedule.Fetch]
		}
		row := reproduce.Row{"path": "fastest path", "about": about(f)}
		if path != "" {
			row["path"] = "a copy a chunk"
		}
		d.Holds("than 1", fetch[4], fetch[4] < fetch[1], row)
		d.Holds("than 8", fetch[8], fetch[4] < fetch[8], row)
	}
}

// chunk is the best chunk of the paper (Fig. 17), tokens.
const chunk = 4

// drives computes Figs. 21 and 23.
func (b *bench) drives() {
	d := b.Section("fig-21")
	if f := b.typical(d); f != nil {
		tiered, ratio := b.drive(f, chunk, pipeline.Options{})
		d.Set("with SSD", 100*ratio, b.driveMiss(f))
		d.Set("DRAM alone", 1/ratio)
		before := 0.
		for i, took := range b.prices(tiered) {
			level := transfer.Level(i)
			if i > 0 {
				d.Holds("strategy", took*1e6, took < before, reproduce.Row{"level": level, "before": level - 1})
			}
			before = took
		}
	}
	// Fig. 23a compares in-memory serving on an H20 with KVDrive on an RTX 4090.
	original, own, _ := b.footprints(8, k60)
	d.Set("memory", original/own)
	d.Holds("H20", original/1e9, original < float64(b.Machine("h20").GPU.Memory.Value))
	d.Holds("RTX 4090", own/1e9, own < float64(b.Machine("rtx4090").GPU.Memory.Value))
	d.Set("tokens a centroid", k60/4096)
}

// drive returns the throughput of a trace with an SSD below DRAM, divided by that with all KV in
// DRAM. It also returns the profile with the SSD. Blocks have the given number of tokens. The
// options are those of the SSD.
func (b *bench) drive(f *source, tokens int, o pipeline.Options) (tiered *pipeline.Profile, ratio float64) {
	tiered = b.profile(f, "lru", "2x", "dram=lru@16x", tokens)
	flat := b.profile(f, "lru", "2x", "", tokens)
	o.Batch, o.Context = 8, k120
	with := b.price(tiered, "sfc", kvdrives, o)
	without := b.price(flat, "sfc", kvdrives, pipeline.Options{Batch: 8, Context: k120})
	return tiered, with.Tokens / without.Tokens
}

// driveMiss explains the cost of the SSD by changing one thing at a time: read-ahead, the
// size of a read, and the trace.
func (b *bench) driveMiss(f *source) reproduce.Row {
	var readAhead pipeline.Options
	readAhead.Ahead.Accuracy = 1
	_, early := b.drive(f, chunk, readAhead)
	_, larger := b.drive(f, 2*chunk, pipeline.Options{})
	least, most := math.Inf(1), 0.
	for _, other := range b.exactNear(small) {
		_, ratio := b.drive(other, chunk, pipeline.Options{})
		least, most = min(least, ratio), max(most, ratio)
	}
	return reproduce.Row{"chunk": 2 * chunk, "larger": 100 * larger, "least": 100 * least, "most": 100 * most,
		"ahead": 100 * early}
}

// prices returns the times of one layer's mean demand below the GPU by the four strategies.
func (b *bench) prices(p *pipeline.Profile) (times []float64) {
	var misses, ssdMisses, steps int64
	for _, r := range p.Requests {
		for _, layer := range r.Steps {
			for _, c := range layer {
				misses, ssdMisses, steps = misses+c.Fetched, ssdMisses+c.SSDFetched, steps+1
			}
		}
	}
	kvHeads := int64(b.llama.KVHeads.Value)
	scale := float64(k120/64) / float64(p.Meta.TopK) * float64(kvHeads) / float64(p.Heads)
	ssd := int64(scale * float64(ssdMisses) / float64(steps))
	tiers := &transfer.Tiers{Link: transfer.NewLink(b.l20.Link).Fastest(transfer.HostToDevice),
		SSD:    transfer.NewSSD(b.l20.Drive, b.l20.Drives, 64),
		Layout: transfer.Layout{EntryBytes: int64(b.llama.EntryPerHead()), BlockTokens: chunk}}
	demand := transfer.Demand{DRAM: int64(scale*float64(misses)/float64(steps)) - ssd, SSD: ssd, Pinned: ssd / 4,
		Layer: k120 / chunk * kvHeads, Ahead: 100e-6}
	for level := transfer.LayerWise; level <= transfer.Balanced; level++ {
		times = append(times, tiers.Fetch(level, demand).Seconds)
	}
	return times
}
