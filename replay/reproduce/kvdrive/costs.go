package kvdrive

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// scaling holds Fig. 15.
func (s *study) scaling() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "fig-15", Covers: []string{"Fig. 15"}, Title: "Figure 15: windows by layer and head",
		Method: "kvreplay allocate: windows 0 to 8 of each layer and head profiled on some requests of a trace (all but its last two), divided by 2d-greedy in the memory of a uniform window, judged on the last two. The ratio is of entries moved, the plan's to uniform windows' in the same memory."}
	files := s.which(func(f *source) bool { return f.selector == "exact" && f.perHead && len(requestsOf(f)) > 3 })
	if len(files) == 0 {
		section.Lines = append(section.Lines, noTrace("exact selection by head, four requests or more"))
		return section, nil
	}
	for _, f := range files {
		if err := s.divide(&section, f); err != nil {
			return section, err
		}
	}
	return section, nil
}

// divide adds the ratios of one trace.
func (s *study) divide(section *reproduce.Section, f *source) error {
	var names []string
	for n := range 9 {
		names = append(names, fmt.Sprintf("window:%d", n))
	}
	o, err := options(names, nil)
	if err != nil {
		return err
	}
	o.Per = replay.PerStream
	rows, err := s.rows(f, o)
	if err != nil {
		return err
	}
	greedy, err := allocate.ParseMethod("2d-greedy")
	if err != nil {
		return err
	}
	requests := requestsOf(f)
	for _, window := range []int{1, 2, 3} {
		reports, err := allocate.Run(rows, allocate.Options{Policy: "window", Methods: []allocate.Spec{greedy}, Memory: fmt.Sprintf("window:%d", window), Judge: requests[len(requests)-2:]})
		item := fmt.Sprintf("%s, memory of ×%d", f.name, window)
		if err != nil { // of this trace: too few windows differ
			section.Lines = append(section.Lines, reproduce.Absent(item, "×", reproduce.Target{}, err.Error()))
			continue
		}
		r := reports[0]
		if r.Judge.Ratio == nil || r.Profile.Ratio == nil {
			section.Lines = append(section.Lines, reproduce.Absent(item, "×", reproduce.Target{}, "uniform windows of this memory move nothing, or their transfers are not known"))
			continue
		}
		l := reproduce.Statement(item+": moves less than uniform windows, on the profile", "×", *r.Profile.Ratio, *r.Profile.Ratio < 1)
		judged := reproduce.Statement(item+": and on the two requests that were kept apart", "×", *r.Judge.Ratio, *r.Judge.Ratio < 1)
		const noisy = "a profile of few requests does not carry over at this memory"
		section.Lines = append(section.Lines, l, judged.Unless(noisy))
	}
	return nil
}

// requestsOf are the requests of a trace in order.
func requestsOf(f *source) (ids []string) {
	for _, info := range f.Streams() {
		if id := info.Key.Request; len(ids) == 0 || ids[len(ids)-1] != id {
			ids = append(ids, id)
		}
	}
	return ids
}

// roofline holds Fig. 11: attention on the GPU or on the CPU.
func (s *study) roofline() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "fig-11", Covers: []string{"Fig. 11"}, Title: "Figure 11, section 6.3: attention on the GPU or the CPU",
		Method: "A CPU reads all of the demand from host memory at what STREAM reaches, the GPU fetches the misses over the link at its peak (replay/hardware, replay/transfer): the GPU wins above a hit rate of 1 − link ÷ DRAM. Hit rates are those of window:2 on the traces."}
	files := s.exactNear(small)
	files = append(files, s.exactNear(large)...)
	if len(files) == 0 {
		section.Lines = append(section.Lines, noTrace("exact selection at 1.56 % or 6.25 % of the context"))
	}
	for _, f := range files {
		pooled, err := s.counts([]*source{f}, []string{"window:2"}, nil)
		if err != nil {
			return section, err
		}
		hit := 100 * pooled["window:2"].hit()
		l := reproduce.Statement(f.name+": about 80 % (taken as 70 to 90) are served from the GPU's cache, by ×2", "%", hit, hit > 70 && hit < 90)
		section.Lines = append(section.Lines, l.Unless(about(f)))
	}
	for _, name := range []string{"a100-40", "l20"} {
		m, err := s.lib.Machine(name)
		if err != nil {
			return section, err
		}
		const bytes = 1 << 30
		one := transfer.Request{Descriptors: 1, Bytes: bytes, Launches: 1}
		dram := transfer.DRAM(m.Host, 1<<10).Time(one)
		link := transfer.NewLink(m.Link).Fastest(transfer.HostToDevice).Time(one)
		threshold := 100 * (1 - dram/link)
		l := reproduce.Statement(fmt.Sprintf("%s: 80 %% suffice; the least that does", name), "%", threshold, threshold < 80)
		section.Lines = append(section.Lines, l.Unless("against all channels of the host the link is too slow. With a CPU that reads less than 5 times the link's rate they suffice"))
	}
	return section, nil
}

// price prices a profile on the L20 with KVDrive's index.
func (s *study) price(p *pipeline.Profile, batch int, context int64, schedule string, change ...func(*pipeline.Options)) (*pipeline.Result, error) {
	return s.priceAs(p, s.l20, batch, context, schedule, "centroids:tokens=16", change...)
}

// priceAs prices a profile on Llama-3-8B at the small budget. The changes are applied to the
// options, which are otherwise those of kvreplay time.
func (s *study) priceAs(p *pipeline.Profile, machine *hardware.Machine, batch int, context int64, schedule, selection string, change ...func(*pipeline.Options)) (*pipeline.Result, error) {
	o := pipeline.Options{Machine: machine, Model: s.llama, Batch: batch, Context: context, Threads: 16, Depth: 64, Steps: 16}
	for _, c := range change {
		c(&o)
	}
	var err error
	if o.Schedule, err = pipeline.ParseSchedule(schedule); err != nil {
		return nil, err
	}
	if o.Selection, err = pipeline.ParseSelection(selection, s.llama); err != nil {
		return nil, err
	}
	if o.Scaling, err = pipeline.NewScaling(p, s.llama, "stretch", int(context/64)); err != nil {
		return nil, err
	}
	return pipeline.Price(s.ctx, p, o)
}

// typical is the trace whose misses a section prices, at the small budget: by head where
// there is one. The section says which; nil where there is none, as a line says then.
func (s *study) typical(section *reproduce.Section) *source {
	files := s.exactNear(small)
	if len(files) == 0 {
		section.Lines = append(section.Lines, noTrace("exact selection at 1.56 % of the context"))
		return nil
	}
	f := files[max(0, slices.IndexFunc(files, func(f *source) bool { return f.perHead }))]
	section.Method += " Misses of " + f.name + "."
	return f
}

// windowSize holds Fig. 16.
func (s *study) windowSize() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "fig-16", Covers: []string{"Fig. 16"}, Title: "Figure 16: size of the window",
		Method: "Profiles of window:2, 3, 4 priced by kvreplay time on Llama-3-8B and the L20, schedule sfc, K = 1.56 % of the context."}
	f := s.typical(&section)
	if f == nil {
		return section, nil
	}
	best := map[[2]int64]int{}
	step := map[[3]int64]float64{}
	for n := 2; n <= 4; n++ {
		p, err := s.profile(f, fmt.Sprintf("window:%d", n), "", nil)
		if err != nil {
			return section, err
		}
		for _, context := range []int64{k60, k120} {
			for _, batch := range []int64{1, 4} {
				r, err := s.price(p, int(batch), context, "sfc")
				if err != nil {
					return section, err
				}
				key := [2]int64{context, batch}
				step[[3]int64{context, batch, int64(n)}] = r.Mean
				if best[key] == 0 || r.Mean < step[[3]int64{context, batch, int64(best[key])}] {
					best[key] = n
				}
			}
		}
	}
	for _, context := range []int64{k60, k120} {
		one, four := best[[2]int64{context, 1}], best[[2]int64{context, 4}]
		l := reproduce.Statement(fmt.Sprintf("%dK: a small window is best at batch 1", context/1024), "steps", float64(one), one == 2)
		section.Lines = append(section.Lines, l.Unless("a deficit of our model: its lookup takes one memory access per demanded entry, whatever the cache's size. In the paper lookup takes longer in a larger cache, so that here a larger window only saves time"),
			reproduce.Statement(fmt.Sprintf("%dK: at batch 4 the best window is no smaller than at batch 1", context/1024), "steps", float64(four), four >= one),
			reproduce.Statement(fmt.Sprintf("%dK, batch 4: windows of 4 are faster than of 2; step with, of without", context/1024), "×", step[[3]int64{context, 4, 4}]/step[[3]int64{context, 4, 2}], step[[3]int64{context, 4, 4}] < step[[3]int64{context, 4, 2}]))
	}
	return section, nil
}

// chunks holds Fig. 17.
func (s *study) chunks() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "fig-17", Covers: []string{"Fig. 17"}, Title: "Figure 17: chunks",
		Method: "The trace's demand in chunks of 1, 4 and 8 tokens (kvreplay replay --block-tokens), window:2, priced on Llama-3-8B and the L20 at 120K, batch 1, schedule sequential: the time of the fetch in a step. One copy a chunk (--path call), and the fastest path."}
	f := s.typical(&section)
	if f == nil {
		return section, nil
	}
	fetch := map[string]map[int]float64{"call": {}, "": {}}
	for _, size := range []int{1, 4, 8} {
		p, err := s.profile(f, "window:2", "", func(o *replay.Options) error { o.Shape.BlockTokens = size; return nil })
		if err != nil {
			return section, err
		}
		for path := range fetch {
			r, err := s.price(p, 1, k120, "sequential:lookup=cpu", func(o *pipeline.Options) { o.Path = path })
			if err != nil {
				return section, err
			}
			fetch[path][size] = 1e3 * r.Causes.Fetch
		}
	}
	for _, path := range []string{"call", ""} {
		name, t := "fastest path", fetch[path]
		if path != "" {
			name = "a copy a chunk"
		}
		l := reproduce.Statement(name+": chunks of 4 fetch faster than of 1; fetch of 4", "ms", t[4], t[4] < t[1])
		section.Lines = append(section.Lines, l.Unless("a kernel pays little per request, so that the tokens read in vain outweigh the requests saved. A chunk's tokens are seldom selected together in "+about(f)))
		m := reproduce.Statement(name+": and faster than of 8; fetch of 8", "ms", t[8], t[4] < t[8])
		section.Lines = append(section.Lines, m.Unless("a copy costs more than the bytes of a chunk, so that fewer copies are always better. The paper's U lies between the two paths"))
	}
	return section, nil
}

// rest holds Fig. 21, and what is printed and cannot be computed.
func (s *study) rest() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "fig-21", Covers: []string{"Fig. 18", "Fig. 21", "Fig. 22", "Fig. 23"}, Title: "Figures 18, 21 to 24: SSD, centroids, prefill",
		Method: "Tiers: kvreplay replay with lru at 2x on the GPU and dram=lru@16x below, chunks of 4 tokens (Fig. 17's choice), priced on the L20, batch 8 at 120K, against the same misses with all of the KV in DRAM; schedule sfc."}
	if f := s.typical(&section); f != nil {
		if err := s.ssd(&section, f); err != nil {
			return section, err
		}
	}
	if err := s.cards(&section); err != nil {
		return section, err
	}
	section.Lines = append(section.Lines,
		reproduce.Compare(reproduce.Arithmetic, "tokens a centroid that are best, 60K over 4096 as 120K over 8192", "", reproduce.Reference(k120/8192, "the printed context and number of centroids"), k60/4096, reproduce.Gate{Relative: 1e-9}),
		reproduce.Absent("Fig. 23, throughput of the RTX 4090 over the H20", "×", reproduce.Printed(3), "bars of a plot. The paper does not print the H20's batch"),
		reproduce.Absent("Fig. 22, prefill latency", "", reproduce.Target{}, "curves of a plot. kvreplay does not model prefill"))
	return section, nil
}

// chunk is what the paper found best (Fig. 17), tokens.
const chunk = 4

// ssd adds the cost of the SSD.
func (s *study) ssd(section *reproduce.Section, f *source) error {
	tiered, ratio, err := s.drive(f, chunk)
	if err != nil {
		return err
	}
	l := reproduce.Statement("throughput with SSD is 60 % (taken as 50 to 70) of DRAM alone; of DRAM alone", "%", 100*ratio, ratio > 0.5 && ratio < 0.7)
	if !l.Holds {
		why, err := s.driveMiss(f)
		if err != nil {
			return err
		}
		l = l.Unless(why)
	}
	section.Lines = append(section.Lines, l, reproduce.Statement("DRAM alone is faster", "×", 1/ratio, ratio < 1))
	layers, err := s.prices(tiered)
	if err != nil {
		return err
	}
	before := 0.
	for i, took := range layers {
		level := transfer.Level(i)
		if i > 0 {
			section.Lines = append(section.Lines, reproduce.Statement(fmt.Sprintf("Fig. 21a, a layer's fetch: %s is faster than %s", level, level-1), "us", took*1e6, took < before))
		}
		before = took
	}
	return nil
}

// drive is the throughput of a trace with an SSD below DRAM, divided by that with all of the
// KV in DRAM, and the profile with the SSD. Blocks have the given number of tokens.
func (s *study) drive(f *source, tokens int, change ...func(*pipeline.Options)) (tiered *pipeline.Profile, ratio float64, err error) {
	tiered, err = s.profile(f, "lru", "2x", func(o *replay.Options) error {
		tier, err := replay.ParseTier(all.Table(), "dram=lru@16x")
		o.Tiers, o.Shape.BlockTokens = []replay.Tier{tier}, tokens
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	flat, err := s.profile(f, "lru", "2x", func(o *replay.Options) error { o.Shape.BlockTokens = tokens; return nil })
	if err != nil {
		return nil, 0, err
	}
	with, err := s.price(tiered, 8, k120, "sfc", change...)
	if err != nil {
		return nil, 0, err
	}
	without, err := s.price(flat, 8, k120, "sfc")
	if err != nil {
		return nil, 0, err
	}
	return tiered, with.Tokens / without.Tokens, nil
}

// driveMiss explains the cost of the SSD by changing one thing at a time: read-ahead, the
// size of a read, and the trace.
func (s *study) driveMiss(f *source) (string, error) {
	_, ahead, err := s.drive(f, chunk, func(o *pipeline.Options) { o.Ahead.Accuracy = 1 })
	if err != nil {
		return "", err
	}
	_, larger, err := s.drive(f, 2*chunk)
	if err != nil {
		return "", err
	}
	least, most := math.Inf(1), 0.
	for _, other := range s.exactNear(small) {
		_, ratio, err := s.drive(other, chunk)
		if err != nil {
			return "", err
		}
		least, most = min(least, ratio), max(most, ratio)
	}
	return fmt.Sprintf("each missed chunk is a read of its own, and the trace decides how many chunks the DRAM misses. Chunks of %d give %.0f %%, the traces of this budget give %.0f to %.0f %%. Read-ahead of every read changes little: %.0f %%",
		2*chunk, 100*larger, 100*least, 100*most, 100*ahead), nil
}

// prices are the times of one layer's mean demand below the GPU by the four strategies.
func (s *study) prices(p *pipeline.Profile) (times []float64, err error) {
	var misses, below, steps int64
	for _, r := range p.Requests {
		for _, layer := range r.Steps {
			for _, c := range layer {
				misses, below, steps = misses+c.Misses, below+c.SSDMisses, steps+1
			}
		}
	}
	scale := float64(k120/64) / float64(p.Meta.TopK) * float64(s.llama.KVHeads.Value) / float64(p.Heads)
	ssd := int64(scale * float64(below) / float64(steps))
	tiers := &transfer.Tiers{Link: transfer.NewLink(s.l20.Link).Fastest(transfer.HostToDevice), SSD: transfer.NewSSD(s.l20.Drive, s.l20.Drives, 64),
		Layout: transfer.Layout{EntryBytes: int64(s.llama.EntryPerHead()), BlockTokens: chunk}}
	d := transfer.Demand{DRAM: int64(scale*float64(misses)/float64(steps)) - ssd, SSD: ssd, Pinned: ssd / 4, Layer: k120 / chunk * int64(s.llama.KVHeads.Value), Ahead: 100e-6}
	for level := transfer.LayerWise; level <= transfer.Balanced; level++ {
		times = append(times, tiers.Fetch(level, d).Seconds)
	}
	return times, nil
}
