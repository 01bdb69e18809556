package board

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// tierRow is a row of the only tier below a cache.
func tierRow(above string, demand, misses, bytes int64) result.Row {
	r := rowstest.Row("a", "lru", "8x", misses)
	r.Tiers, r.Tier, r.Above = "dram=lru@8x", 1, above
	r.Demand, r.Hits, r.DemandMean = demand, demand-misses, float64(demand)/float64(r.Steps)
	r.DemandEntries, r.MissedEntries = nil, nil
	r.EntryBytes, r.HostToDeviceBytes, r.DeviceToHostBytes = rowstest.Ptr(4), rowstest.Ptr(bytes), rowstest.Ptr(2*bytes)
	return r
}

// tiered returns rows of lru and opt at 1x, and the given rows of the tier below lru.
func tiered(tiers ...result.Row) []result.Row {
	rows := []result.Row{rowstest.Row("a", "lru", "1x", 50), rowstest.Row("a", "opt", "1x", 40)}
	for i := range rows {
		rows[i].Tiers, rows[i].EntryBytes = "dram=lru@8x", rowstest.Ptr(4)
		rows[i].HostToDeviceBytes, rows[i].DeviceToHostBytes = rowstest.Ptr(int64(400)), rowstest.Ptr(int64(400))
	}
	return append(rows, tiers...)
}

// TestTierRowsCountOnce: a tier's cell that a folder has twice, or pooled and by request, counts
// once.
func TestTierRowsCountOnce(t *testing.T) {
	whole := tierRow("lru@1x", 80, 20, 100)
	first, second := tierRow("lru@1x", 50, 15, 60), tierRow("lru@1x", 30, 5, 40)
	for i, r := range []*result.Row{&first, &second} {
		r.RequestID, r.Steps = rowstest.Ptr([]string{"r1", "r2"}[i]), whole.Steps/2
		r.DemandMean, r.Streams = float64(r.Demand)/float64(r.Steps), 1
	}
	whole.Streams = 2
	for name, rows := range map[string][]result.Row{"once": {whole}, "twice": {whole, whole}, "by request": {first, second}, "pooled and by request": {first, whole, second}} {
		lines, err := linesOfTiers(rows)
		if err != nil || len(lines) != 1 {
			t.Fatalf("%s: %v, %v", name, lines, err)
		}
		l := lines[0]
		if l.Demand != 80 || l.Misses != 20 || *l.HitRate != 0.75 || *l.ReadPerStep != 100/float64(whole.Steps) || *l.WrittenPerStep != 200/float64(whole.Steps) {
			t.Errorf("%s: demand %d, misses %d, hit rate %v, bytes a step %v and %v", name, l.Demand, l.Misses, *l.HitRate, *l.ReadPerStep, *l.WrittenPerStep)
		}
	}
	other := tierRow("lru@1x", 80, 21, 100)
	other.Streams = 2
	if _, err := NewBoard(tiered(whole, other), Options{}); err == nil || !strings.Contains(err.Error(), "two rows of trace a, lru at 8x below lru@1x (all) with different counts") {
		t.Errorf("two rows of a tier that differ: %v", err)
	}
}

// TestTiersComeByTheSizeAbove: 1.25x is less than 1.5x, and 10x more.
func TestTiersComeByTheSizeAbove(t *testing.T) {
	var rows []result.Row
	for _, above := range []string{"lru@10x", "lru@1.5x", "opt@1x", "lru@1x", "lru@1.25x", "lru@2x"} {
		rows = append(rows, tierRow(above, 80, 20, 100))
	}
	lines, err := linesOfTiers(rows)
	fatal.If(t, err)
	var got []string
	for _, l := range lines {
		got = append(got, l.Above)
	}
	if want := []string{"lru@1x", "lru@1.25x", "lru@1.5x", "lru@2x", "lru@10x", "opt@1x"}; !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
}

// belowLRU turns a row into one of tier n below lru@1x, with bytes.
func belowLRU(r result.Row, n int) result.Row {
	r.Tiers, r.Tier, r.Above = "dram=p@1x ssd=p@1x", n, []string{"", "lru@1x", "lru@1x > dram=p@1x"}[n]
	r.EntryBytes, r.HostToDeviceBytes, r.DeviceToHostBytes = rowstest.Ptr(8), rowstest.Ptr(8*r.Misses), rowstest.Ptr(16*r.Misses)
	return r
}

// Tiers are distinguished. Any level of detail alone, and all of them together, make one line: 8
// streams with 80 misses, a demand of 800 and 80 steps.
func TestTiersAreCountedOnce(t *testing.T) {
	var all []result.Row
	for _, r := range rowstest.Detailed() {
		all = append(all, belowLRU(r, 1), belowLRU(r, 2))
	}
	for name, rows := range map[string][]result.Row{
		"pooled": all[:2], "by layer": all[2:6], "by request": all[6:10], "by request and layer": all[10:18],
		"all": all, "twice": slices.Concat(all, all),
	} {
		lines, err := linesOfTiers(rows)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, l := range lines {
			got = append(got, fmt.Sprint(l.Tier, l.Name, l.Above, l.Capacity, l.Demand, l.Misses, *l.HitRate, *l.ReadPerStep, *l.WrittenPerStep))
		}
		want := []string{fmt.Sprint(1, "dram=p@1x", "lru@1x", "1x", 800, 80, 0.9, 8.0, 16.0), fmt.Sprint(2, "ssd=p@1x", "lru@1x > dram=p@1x", "1x", 800, 80, 0.9, 8.0, 16.0)}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	all[0].Misses, all[0].Hits = 79, 721
	if _, err := linesOfTiers(all); err == nil || !strings.Contains(err.Error(), "trace a, p at 1x below lru@1x: pooled row and rows by layer disagree: misses 79 and 80") {
		t.Errorf("levels that disagree: %v", err)
	}
}

// A tier without demand, steps or bytes lacks the figures that need them.
func TestTiersWithoutFigures(t *testing.T) {
	r := belowLRU(rowstest.Row("a", "p", "1x", 0), 1)
	r.Demand, r.Hits, r.Steps = 0, 0, 0
	plain := belowLRU(rowstest.Row("b", "p", "1x", 40), 1)
	plain.HostToDeviceBytes, plain.DeviceToHostBytes = nil, nil
	lines, err := linesOfTiers([]result.Row{r, plain})
	if err != nil || len(lines) != 2 {
		t.Fatalf("%+v, %v", lines, err)
	}
	if l := lines[0]; l.HitRate != nil || l.ReadPerStep != nil || l.WrittenPerStep != nil {
		t.Errorf("without demand: %+v", l)
	}
	if l := lines[1]; *l.HitRate != 0.6 || l.ReadPerStep != nil || l.WrittenPerStep != nil {
		t.Errorf("without bytes: %+v", l)
	}
}

func linesOfTiers(rows []result.Row) ([]TierLine, error) {
	cells, err := newCells(result.Pointers(rows))
	if err != nil {
		return nil, err
	}
	return tierLines(cells), nil
}
