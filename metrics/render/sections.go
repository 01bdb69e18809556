package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// windows shows the policies without capacity, if there are any.
func (v *boardView) windows() {
	if len(v.Windows) == 0 {
		return
	}
	const title = "Policies without capacity: against LRU and OPT given their peak size"
	notes := []string{"Sizes are blocks of a stream after a step. These rows are not ranked"}
	if slices.ContainsFunc(v.Windows, func(w board.WindowLine) bool { return w.Figures.LRUMisses == nil || w.Figures.OptMisses == nil }) {
		notes = append(notes, "n/a: no row of lru or opt at capacity peak:POLICY")
	}
	if !v.Wide {
		v.add(v.narrowWindows(), title, v.Labels, notes...)
		return
	}
	header := []string{"trace", "policy", "mean size", "peak size", "misses", "LRU at peak", "OPT at peak", "× LRU", "× OPT", "hit rate", "H2D/step"}
	labels := v.Labels
	timed := slices.ContainsFunc(v.Windows, func(w board.WindowLine) bool { return w.Figures.TPOT != nil })
	if timed {
		header = append(header, "TPOT")
		labels = limitLabels(v.Time, labels, labelledTPOT)
	}
	tab := table.New(header...).RightFrom(2)
	for _, w := range v.Windows {
		f := w.Figures
		cells := []string{v.traceName(w.Trace), w.Policy + v.marks.text(w.Notes), threeDigits(w.ResidentMean), fmt.Sprint(w.ResidentPeak), fmt.Sprint(f.Misses),
			intText(f.LRUMisses, notAvailable), intText(f.OptMisses, notAvailable), timesWithInterval(f.XLRU), timesWithInterval(f.XOpt), percentUnit.cell(f.HitRate), bytesText(f.BytesPerStep)}
		if timed {
			cells = append(cells, timeText(f.TPOT))
		}
		tab.AddTexts(cells)
	}
	v.add(tab, title, labels, notes...)
}

// narrowWindows shows the policies without capacity by their peak, which LRU and OPT are given.
func (v *boardView) narrowWindows() *table.Table {
	ofLRU, ofOpt := make([]*board.Figure, len(v.Windows)), make([]*board.Figure, len(v.Windows))
	for i, w := range v.Windows {
		ofLRU[i], ofOpt[i] = w.Figures.XLRU, w.Figures.XOpt
	}
	headerLRU, xLRU := withInterval("× LRU", ratioUnit, ofLRU)
	headerOpt, xOpt := withInterval("× OPT", ratioUnit, ofOpt)
	tab := table.New("trace", "policy", "peak", headerLRU, headerOpt, "hit rate", "H2D/step").RightFrom(2)
	for i, w := range v.Windows {
		tab.Add(v.shortTraceName(w.Trace), v.policy(w.Policy, w.Notes), w.ResidentPeak, xLRU[i], xOpt[i], percentUnit.cell(w.Figures.HitRate), bytesText(w.Figures.BytesPerStep))
	}
	return tab
}

// settings shows the traces and the settings of their rows.
func (v *boardView) settings() {
	tab := table.New("trace", "digest", "requests", "streams", "steps", "demand/step", "K", "M", "warm-up", "sink", "local", "block", "entry bytes", "selection").RightFrom(2)
	for _, t := range v.Traces {
		tab.Add(v.traceName(t.Trace), result.ShortDigest(t.TraceDigest), intText(t.RequestCount, "pooled"), t.Streams, t.Steps, fmt.Sprintf("%.1f", result.PerStep(float64(t.Demand), t.Steps)),
			t.TopK, t.Candidates, t.Warmup, t.Sink, t.Local, t.BlockTokens, intText(t.EntryBytes, notAvailable), cmp.Or(strings.Join(t.Words(), ", "), "all"))
	}
	notes := slices.Clone(v.Board.Notes)
	if len(v.Traces) > 0 {
		notes = append(notes, fmt.Sprintf("Replay engine %s, seed %d. Intervals: %d resamples of the requests of each trace, seed %d", v.Traces[0].Engine, v.Traces[0].Seed, v.Resamples, v.Seed))
	}
	v.add(tab, "Traces", v.Labels, notes...)
}

// intText returns the number that n points to, or none for nil.
func intText[N int | int64](n *N, none string) string {
	if n == nil {
		return none
	}
	return fmt.Sprint(*n)
}

// tiers shows the caches below the GPU's, if there are any.
func (v *boardView) tiers() {
	if len(v.Tiers) == 0 {
		return
	}
	header := []string{"trace", "above", "tier", "misses", "hit rate", "read/step", "written/step"}
	if v.Wide {
		header = slices.Insert(header, 3, "demand")
	}
	tab := table.New(header...).RightFrom(3)
	for _, l := range v.Tiers {
		rate := notAvailable
		if l.HitRate != nil {
			rate = percentUnit.cell(&board.Figure{Value: *l.HitRate})
		}
		cells := []string{v.shortTraceName(l.Trace), l.Above, l.Name, fmt.Sprint(l.Misses), rate, bytesText(l.ReadPerStep), bytesText(l.WrittenPerStep)}
		if v.Wide {
			cells[0] = v.traceName(l.Trace)
			cells = slices.Insert(cells, 3, fmt.Sprint(l.Demand))
		}
		tab.AddTexts(cells)
	}
	v.add(tab, "Tiers below the GPU's cache", v.Labels, "A tier's demand is the misses of the one above. These rows are not ranked. "+
		"read: bytes that go to the cache above. written: bytes that come from it")
}
