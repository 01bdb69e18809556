package kvdrive

import (
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/trace"
)

// windows computes Fig. 3.
func (b *bench) windows() {
	d := b.Section("fig-3")
	var curves []figure.Line
	policies := []string{"window:0", "window:1", "window:2", "window:3", "window:4"}
	for i, budget := range []float64{small, large} {
		row := reproduce.Row{"budget": []string{"1.56 %", "6.25 %"}[i]}
		files := b.exactNear(budget)
		if len(files) == 0 {
			d.Absent("no trace", row)
			continue
		}
		pooled := b.counts(files, policies, nil, "auto")
		d.Extend("traces", row, reproduce.Row{"traces": namesOf(files)})
		before, curve := 1., figure.Line{Name: row.Text("budget")}
		for n, policy := range policies {
			c := pooled[policy]
			share := float64(c.misses) / float64(c.demand)
			curve.Points = append(curve.Points, figure.At(float64(n), share))
			if n == 0 {
				d.Set("×0", 100*share, row)
				continue
			}
			d.Holds("less", 100*share, share < before, row, reproduce.Row{"window": n, "smaller": n - 1})
			before = share
			if n == 3 && budget == large {
				d.Set("×3", 100*share, row, reproduce.Row{"about": about(files...)})
			}
		}
		curves = append(curves, curve)
	}
	if len(curves) > 0 {
		d.Draw("kvdrive-fig-3", curves)
	}
}

// reuse computes Fig. 7.
func (b *bench) reuse() {
	d := b.Section("fig-7")
	files := b.which(func(f *source) bool { return f.selector == "exact" && f.ranked() })
	if len(files) == 0 {
		d.Absent("no trace")
		return
	}
	d.Extend("traces", reproduce.Row{"traces": namesOf(files)})
	var kept, all [5]int64
	chance := 0.
	for _, f := range files {
		stays(f, &kept, &all)
		chance = max(chance, f.budget)
	}
	share := func(i int) float64 { return 100 * float64(kept[i]) / float64(all[i]) }
	names := [5]string{"1 to K/4", "K/4 to K/2", "K/2 to 3K/4", "3K/4 to K", "K to M"}
	curve := figure.Line{Name: "in the next Top-K"}
	for i := range names {
		curve.Points = append(curve.Points, figure.At((float64(i)+0.5)/4, share(i)/100))
		if i > 0 {
			row := reproduce.Row{"ranks": names[i], "higher": names[i-1]}
			d.Holds("less often", share(i), share(i) < share(i-1), row)
		}
	}
	d.Set("most", share(0))
	d.Holds("chance", share(4), share(4) > 200*chance)
	d.Draw("kvdrive-fig-7", []figure.Line{curve})
}

// stays counts the entries of each step, by part of the ranking, and those that are also in the
// Top-K of the next step.
func stays(f *source, kept, all *[5]int64) {
	r := f.NewReader(trace.TrustLists)
	defer r.Close()
	k := f.Meta().TopK
	next := map[int32]bool{}
	for i := range f.Streams() {
		var stream trace.Stream
		reproduce.Check(r.Read(i, &stream))
		list := func(row int) []int32 { return stream.Indices[stream.Offsets[row]:stream.Offsets[row+1]] }
		for row := 0; row+1 < len(stream.Steps); row++ {
			if stream.Steps[row+1] != stream.Steps[row]+1 {
				continue
			}
			clear(next)
			for n, x := range list(row + 1) {
				if n < k {
					next[x] = true
				}
			}
			for n, x := range list(row) {
				part := min(4, 4*n/k)
				all[part]++
				if next[x] {
					kept[part]++
				}
			}
		}
	}
}

// lookahead computes Table 3.
func (b *bench) lookahead() {
	d := b.Section("table-3")
	hits, names := map[string]float64{}, []string{}
	var bars []figure.Bar
	for _, row := range b.Rows("table-3") {
		name := row.Text("name")
		names = append(names, name)
		files := b.which(func(f *source) bool {
			selector, _, _ := strings.Cut(f.selector, ":")
			return selector == row.Text("selector") && f.selector != "quest:page=8" && f.ranked()
		})
		if len(files) == 0 {
			d.Absent("no trace", row)
			continue
		}
		pooled := b.counts(files, []string{"lru", "lookahead"}, []string{"2x"}, "auto")
		lru, own := 100*pooled["lru"].hit(), 100*pooled["lookahead"].hit()
		hits[name] = lru
		d.Set("lookahead", own-lru, row, reproduce.Row{"lru": lru, "ahead": own, "about": about(files...)})
		bars = append(bars, figure.Bar{Name: name, Values: []float64{lru / 100, own / 100}})
	}
	for i := range 2 {
		pair := reproduce.Row{"first": names[i], "second": names[i+1]}
		if x, y := hits[names[i]], hits[names[i+1]]; x > 0 && y > 0 {
			d.Holds("order", x-y, x > y, pair)
		} else {
			d.Absent("no pair", pair)
		}
	}
	if len(bars) > 0 {
		d.DrawBars("kvdrive-table-3", bars)
	}
}

// scaling computes Fig. 15.
func (b *bench) scaling() {
	d := b.Section("fig-15")
	files := b.which(func(f *source) bool { return f.selector == "exact" && f.perHead && len(f.requests()) > 3 })
	if len(files) == 0 {
		d.Absent("no trace")
	}
	greedy := reproduce.Must(allocate.ParseMethod("2d-greedy"))
	var policies []string
	for n := range 9 {
		policies = append(policies, fmt.Sprintf("window:%d", n))
	}
	o := b.Options(policies, nil, "auto")
	o.Per = replay.PerStream
	for _, f := range files {
		rows, requests := b.Replay(f.Trace, o), f.requests()
		for _, window := range []int{1, 2, 3} {
			reports, err := allocate.Run(rows, allocate.Options{Policy: "window", Methods: []allocate.Spec{greedy},
				Memory: fmt.Sprintf("window:%d", window), Judge: requests[len(requests)-2:]})
			row := reproduce.Row{"trace": f.Name, "window": window}
			switch {
			case err != nil: // too few windows of this trace differ
				d.Absent("not divided", row, reproduce.Row{"why": err.Error()})
			case reports[0].Judge.Ratio == nil || reports[0].Profile.Ratio == nil:
				d.Absent("nothing moves", row)
			default:
				d.Set("profile", *reports[0].Profile.Ratio, row)
				d.Set("kept apart", *reports[0].Judge.Ratio, row)
			}
		}
	}
}

// warmUp computes section 7.1.
func (b *bench) warmUp() {
	d := b.Section("warm-up")
	files := b.which(func(f *source) bool {
		return f.selector == "exact" && f.HasScores() && f.Streams()[0].Windows >= 32
	})
	if len(files) == 0 {
		d.Absent("no trace")
	}
	for _, f := range files {
		misses := func(warmup string) float64 {
			return float64(b.counts([]*source{f}, []string{"lru"}, []string{"2x"}, warmup)["lru"].misses)
		}
		own := misses("importance:32")
		cold, lru := own/misses("cold"), own/misses("lru:32")
		d.Holds("cold", 100*cold, cold < 1, reproduce.Row{"trace": f.Name, "lru": 100 * lru})
	}
}
