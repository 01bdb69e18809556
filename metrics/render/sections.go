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
	notes := []string{"sizes are blocks of a stream after a step; these rows are no part of the rankings"}
	if slices.ContainsFunc(v.Windows, func(w board.WindowLine) bool { return w.Figures.LRUMisses == nil || w.Figures.OptMisses == nil }) {
		notes = append(notes, "n/a at peak: there is no row of lru or opt at capacity peak:POLICY")
	}
	v.add(tab, "Policies without capacity: against LRU and OPT given their peak size", labels, notes...)
}

// settings shows the traces and the settings of their rows.
func (v *boardView) settings() {
	tab := table.New("trace", "digest", "requests", "streams", "steps", "demand/step", "K", "M", "warm-up", "sink", "local", "block", "entry bytes", "selection").RightFrom(2)
	for _, t := range v.Traces {
		tab.Add(v.traceName(t.Trace), result.ShortDigest(t.TraceDigest), intText(t.RequestCount, "pooled"), t.Streams, t.Steps, fmt.Sprintf("%.1f", result.PerStep(float64(t.Demand), t.Steps)),
			t.TopK, t.Candidates, t.Warmup, t.Sink, t.Local, t.BlockTokens, intText(t.EntryBytes, notAvailable), selection(t))
	}
	notes := slices.Clone(v.Notes)
	if len(v.Traces) > 0 {
		notes = append(notes, fmt.Sprintf("replay engine %s, seed %d", v.Traces[0].Engine, v.Traces[0].Seed))
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

func selection(t board.TraceInfo) string {
	return cmp.Or(strings.Join(t.Words(), ", "), "all")
}

// tiers shows the caches below the GPU's, if there are any.
func (v *boardView) tiers() {
	if len(v.Tiers) == 0 {
		return
	}
	tab := table.New("trace", "above", "tier", "demand", "misses", "hit rate", "read/step", "written/step").RightFrom(3)
	for _, l := range v.Tiers {
		rate := notAvailable
		if l.HitRate != nil {
			rate = percentUnit.cell(&board.Figure{Value: *l.HitRate})
		}
		tab.Add(v.traceName(l.Trace), l.Above, l.Name, l.Demand, l.Misses, rate, bytesText(l.ReadPerStep), bytesText(l.WrittenPerStep))
	}
	v.add(tab, "Tiers below the GPU's cache", v.Labels, "a tier's demand is what the one above misses; read from below, written from above; these rows are no part of the rankings")
}
