package result_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func TestLossyRowsAreChecked(t *testing.T) {
	for want, change := range map[string]func(*result.Row){
		"hits 70 + misses 1 + lost 30":           func(r *result.Row) { r.Misses = 1 },
		"a lossy policy has no misses":           func(r *result.Row) { r.Misses, r.Lost = 1, 29 },
		"recall 0.8 ≠":                           func(r *result.Row) { r.Recall = rowstest.Ptr(0.8) },
		"recall must be set":                     func(r *result.Row) { r.Recall = nil },
		"kept_mass 0.9 exceeds covered_mass 0.8": func(r *result.Row) { r.KeptMass = rowstest.Ptr(0.9) },
		"kept_mass needs covered_mass":           func(r *result.Row) { r.CoveredMass = nil },
		"an exact one loses nothing":             func(r *result.Row) { r.Lossy, r.Recall = false, nil },
		"covered_mass 1.2: expected":             func(r *result.Row) { r.CoveredMass = rowstest.Ptr(1.2) },
		"selector_recall 1.1 of selector":        func(r *result.Row) { r.Selector, r.SelectorRecall = "quest", rowstest.Ptr(1.1) },
		"resident_mean 8 > resident_peak 7":      func(r *result.Row) { r.ResidentMean, r.ResidentPeak = 8, 7 },
		`selector_recall 0.5 of selector ""`:     func(r *result.Row) { r.SelectorRecall = rowstest.Ptr(0.5) },
	} {
		r := rowstest.LossyRow("a", "snapkv", "1x", 30, 0.6)
		fatal.If(t, r.Check())
		change(&r)
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestCapacityTextIsChecked(t *testing.T) {
	for text, good := range map[string]bool{
		"1.5x": true, "0.2ctx": true, "6400": true, "64MiB": true, "peak:window:2": true, "plan:2d-greedy@2x": true, "1x+2x@64+4x@128": true,
		"1000TB": true, "1B": true, "0B": false, "0.5B": false, "1e3": false, "1e3x": false, "1x@5": false, "1x+2x": false, "2x+1x@64": false, "1x+2ctx@3": false, "1x+2x@0": false,
		"1x+2x@64+4x@3": false, "1x+2x@-1": false, "peak: ": false, "+": false, "4.x": false,
		"large": false, "x": false, "0x": false, "-1x": false, "infx": false, "NaN": false, "2.5": false, "peak:": false, "plan:": false, "1x+": false, "1x+2x@": false, "2 x": false,
	} {
		r := rowstest.Row("a", "lru", text, 40)
		if err := r.Check(); (err == nil) != good || !good && !strings.Contains(err.Error(), fmt.Sprintf("capacity %q: expected 1.5x", text)) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func TestEntriesAndBytesAreChecked(t *testing.T) {
	for want, change := range map[string]func(*result.Row){
		"host_to_device_bytes 81 ≠ moved_entries 40 × entry_bytes 2":  func(r *result.Row) { r.HostToDeviceBytes = rowstest.Ptr(int64(81)) },
		"≠ moved_entries 4611686018427387945 × entry_bytes 4":         func(r *result.Row) { r.MovedEntries, *r.EntryBytes = 1<<62+41, 4 }, // 2^64 + 164 in uint64
		"missed_entries 40 of demand_entries 100 contradict misses 0": func(r *result.Row) { r.Hits, r.Misses = 100, 0 },
	} {
		r := rowstest.Row("a", "lru", "1x", 40)
		r.EntryBytes, r.HostToDeviceBytes, r.DeviceToHostBytes = rowstest.Ptr(2), rowstest.Ptr(int64(80)), rowstest.Ptr(int64(20))
		r.MovedEntries, r.DemandEntries, r.MissedEntries, r.ReadAmplification = 40, rowstest.Ptr(int64(100)), rowstest.Ptr(int64(40)), nil
		fatal.If(t, r.Check())
		change(&r)
		if strings.HasPrefix(want, "≠") {
			*r.HostToDeviceBytes = 164
		}
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
