package board

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// TestHiddenSettings: rows that differ in any setting are rejected. The error names the setting,
// its values and the filter.
func TestHiddenSettings(t *testing.T) {
	for name, change := range map[string]func(*result.Row){
		"topk": func(r *result.Row) { r.TopK = 20 }, "candidates": func(r *result.Row) { r.Candidates = 99 },
		"warmup": func(r *result.Row) { r.Warmup = "lru:3" }, "sink": func(r *result.Row) { r.Sink = 4 },
		"local": func(r *result.Row) { r.Local = 9 }, "block_tokens": func(r *result.Row) { r.BlockTokens = 2 },
		"step_tokens": func(r *result.Row) { r.StepTokens = 2 }, "shared_heads": func(r *result.Row) { r.SharedHeads = 3 },
		"pool":     func(r *result.Row) { r.Pool = "request" },
		"prefetch": func(r *result.Row) { r.Prefetch = "candidates:8" }, "tiers": func(r *result.Row) { r.Tiers = "dram=lru@8x" },
		"outliers": func(r *result.Row) { r.Outliers = "windows:48" }, "clusters": func(r *result.Row) { r.Clusters = "lists" },
		"layers": func(r *result.Row) { r.Layers = "0" }, "requests": func(r *result.Row) { r.Requests = "x" },
		"engine": func(r *result.Row) { r.Engine = "2" }, "seed": func(r *result.Row) { r.Seed = 7 },
		"selector": func(r *result.Row) { r.Selector = "quest" }, "selector_recall": func(r *result.Row) { r.Selector, r.SelectorRecall = "", rowstest.Ptr(0.5) },
		"trace_digest": func(r *result.Row) { r.TraceDigest = "sha256:other" }, "model": func(r *result.Row) { r.Model = "other" }, "options": func(r *result.Row) { r.Options = "q" },
		"allocation": func(r *result.Row) { r.Allocation = "sha256:plan" }, "reallocation": func(r *result.Row) { r.Reallocation = "64:2d-greedy" },
		"capacity_entries": func(r *result.Row) { r.CapacityEntries = rowstest.Ptr(int64(20)) },
		"lossy":            func(r *result.Row) { r.Lossy = true }, "offline": func(r *result.Row) { r.Offline = true },
		"bypasses": func(r *result.Row) { r.Bypasses = true },
		"entry_bytes": func(r *result.Row) {
			r.EntryBytes, r.HostToDeviceBytes, r.DeviceToHostBytes = rowstest.Ptr(2), rowstest.Ptr(int64(0)), rowstest.Ptr(int64(0))
		},
	} {
		rows := rowstest.HandRows()
		last := &rows[len(rows)-2] // p on a at 2x
		old := *last
		change(last)
		var changed result.Difference
		for _, d := range old.Differences(last) {
			if d.Field == name {
				changed = d
			}
		}
		_, err := NewBoard(rows, Options{})
		if err == nil || changed.Field == "" {
			t.Errorf("%s: no error, or no difference", name)
			continue
		}
		for _, want := range []string{name + "=" + changed.This, name + "=" + changed.Other, "a, p at 2x", "--where " + name + "="} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error lacks %q:\n%v", name, want, err)
			}
		}
	}
}

// TestEditedPolicy: rows of a policy that was edited between two replays are rejected, and so are
// those that depend on it. The error names both fingerprints and a filter that leaves one out.
func TestEditedPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*result.Row)
		wants []string
	}{
		"policy_fingerprint!=f-another": {func(r *result.Row) { r.PolicyFingerprint = "f-another" },
			[]string{"policy p was edited between these replays", "policy_fingerprint=f-p in 2 rows", "policy_fingerprint=f-another in 1 rows, as b, p at 1x"}},
		"depends_on!=window:2=f": {func(r *result.Row) { r.DependsOn = "window:2=f" },
			[]string{"policies on which p depends were edited between these replays", "depends_on=window:2=f in 1 rows, as b, p at 1x"}},
	} {
		rows := rowstest.HandRows()
		for i := range rows {
			if rows[i].DependsOn = "window:2=g"; rows[i].Policy == "p" && rows[i].Trace == "b" {
				c.edit(&rows[i])
			}
		}
		_, err := NewBoard(rows, Options{})
		_, compared := Compare(rows, "p", "lru", Options{})
		for _, err := range []error{err, compared} {
			for _, want := range append(c.wants, "replay the older rows again", "--where '"+name+"'") {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: the error lacks %q:\n%v", name, want, err)
				}
			}
		}
		w, err := result.ParseWhere([]string{name})
		fatal.If(t, err)
		if rows, err = w.Filter(rows); err == nil {
			_, err = NewBoard(rows, Options{})
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestColdIsNeverPooledWithWarmed(t *testing.T) {
	rows := rowstest.HandRows()
	for i := range rows {
		if rows[i].Trace == "b" {
			rows[i].Warmup = "cold"
		}
	}
	_, err := NewBoard(rows, Options{})
	if err == nil || !strings.Contains(err.Error(), "cold rows cannot be pooled with warmed ones") {
		t.Errorf("error %v", err)
	}
	w, err := result.ParseWhere([]string{"warmup!=cold"})
	fatal.If(t, err)
	warm, err := w.Filter(rows)
	if err != nil || len(warm) != 6 {
		t.Fatalf("%d rows, %v; want the 6 of trace a", len(warm), err)
	}
	mustBoard(t, warm)
}

func TestOneTraceUnderTwoNames(t *testing.T) {
	rows := rowstest.HandRows()
	for i := range rows {
		rows[i].TraceDigest = "sha256:same"
	}
	if _, err := NewBoard(rows, Options{}); err == nil || !strings.Contains(err.Error(), "has several names") {
		t.Errorf("error %v", err)
	}
}

// TestPlansBySide: other capacities, windows and tiers below another cache may have their own
// plans. Lossy methods divide a budget in their own way.
func TestPlansBySide(t *testing.T) {
	rows := rowstest.HandRows()
	for i, p := range []string{"opt", "lru"} {
		rows = append(rows, rowstest.Row("a", p, "plan:2d-greedy@2x", int64(20+i)))
		rows[len(rows)-1].Allocation = "sha256:plan"
	}
	windows := []result.Row{rowstest.Row("a", "window:2", "", 30), rowstest.Row("a", "window:plan", "", 30)}
	windows[1].Allocation = "sha256:windows"
	divided := []result.Row{rowstest.Row("a", "lossy", "1x", 9)}
	divided[0].CapacityEntries = rowstest.Ptr(int64(7))
	mustBoard(t, append(append(rows, windows...), divided...))
}

// TestMemoryIsComparedAcrossDetail: one policy has rows by request, the other pooled rows.
func TestMemoryIsComparedAcrossDetail(t *testing.T) {
	opt := rowstest.Row("a", "opt", "1x", 10)
	opt.Streams, opt.Demand, opt.Hits, opt.Steps, opt.CapacityEntries = 2, 200, 190, 20, rowstest.Ptr(int64(10))
	rows := append(rowstest.ByRequest("p", []int64{8, 9}), opt)
	for i := range 2 {
		rows[i].CapacityEntries = rowstest.Ptr(int64(10 + i))
	}
	if _, err := NewBoard(rows, Options{}); err == nil || !strings.Contains(err.Error(), "had different memory: capacity_entries sum to 20 and 21") {
		t.Errorf("error %v", err)
	}
}
