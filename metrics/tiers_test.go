package metrics

import (
	"slices"
	"strings"
	"testing"
)

// tierRow is a row of the only tier below a cache.
func tierRow(above string, demand, misses, bytes int64) Row {
	r := row("a", "lru", "8x", misses)
	r.Tiers, r.Tier, r.Above = "dram=lru@8x", 1, above
	r.Demand, r.Hits, r.DemandMean = demand, demand-misses, float64(demand)/float64(r.Steps)
	r.DemandEntries, r.MissedEntries = nil, nil
	r.EntryBytes, r.HostToDeviceBytes, r.DeviceToHostBytes = ptr(4), ptr(bytes), ptr(2*bytes)
	return r
}

// tiered are rows of lru and opt at 1x, and of the tier below lru there as tierRow gives it.
func tiered(tiers ...Row) []Row {
	rows := []Row{row("a", "lru", "1x", 50), row("a", "opt", "1x", 40)}
	for i := range rows {
		rows[i].Tiers, rows[i].EntryBytes = "dram=lru@8x", ptr(4)
		rows[i].HostToDeviceBytes, rows[i].DeviceToHostBytes = ptr(int64(400)), ptr(int64(400))
	}
	return append(rows, tiers...)
}

// TestTierRowsCountOnce: a folder that has a cell of a tier twice, or pooled and by request,
// has it once.
func TestTierRowsCountOnce(t *testing.T) {
	whole := tierRow("lru@1x", 80, 20, 100)
	first, second := tierRow("lru@1x", 50, 15, 60), tierRow("lru@1x", 30, 5, 40)
	for i, r := range []*Row{&first, &second} {
		r.RequestID, r.Steps = ptr([]string{"r1", "r2"}[i]), whole.Steps/2
		r.DemandMean, r.Streams = float64(r.Demand)/float64(r.Steps), 1
	}
	whole.Streams = 2
	for name, rows := range map[string][]Row{"once": {whole}, "twice": {whole, whole}, "by request": {first, second}, "pooled and by request": {first, whole, second}} {
		lines, err := tierLines(rows)
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
	var rows []Row
	for _, above := range []string{"lru@10x", "lru@1.5x", "opt@1x", "lru@1x", "lru@1.25x", "lru@2x"} {
		rows = append(rows, tierRow(above, 80, 20, 100))
	}
	lines, err := tierLines(rows)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range lines {
		got = append(got, l.Above)
	}
	if want := []string{"lru@1x", "lru@1.25x", "lru@1.5x", "lru@2x", "lru@10x", "opt@1x"}; !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
}
