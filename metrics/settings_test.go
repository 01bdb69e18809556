package metrics

import (
	"strings"
	"testing"
)

// TestHiddenSettings: rows that differ in any setting are refused, with the setting,
// its values and the filter.
func TestHiddenSettings(t *testing.T) {
	for name, change := range map[string]func(*Row){
		"topk": func(r *Row) { r.TopK = 20 }, "candidates": func(r *Row) { r.Candidates = 99 },
		"warmup": func(r *Row) { r.Warmup = "lru:3" }, "sink": func(r *Row) { r.Sink = 4 },
		"local": func(r *Row) { r.Local = 9 }, "block_tokens": func(r *Row) { r.BlockTokens = 2 },
		"step_tokens": func(r *Row) { r.StepTokens = 2 }, "shared_heads": func(r *Row) { r.SharedHeads = 3 },
		"pool":     func(r *Row) { r.Pool = "request" },
		"prefetch": func(r *Row) { r.Prefetch = "candidates:8" }, "tiers": func(r *Row) { r.Tiers = "dram=lru@8x" },
		"outliers": func(r *Row) { r.Outliers = "windows:48" }, "clusters": func(r *Row) { r.Clusters = "lists" },
		"layers": func(r *Row) { r.Layers = "0" }, "requests": func(r *Row) { r.Requests = "x" },
		"engine": func(r *Row) { r.Engine = "2" }, "seed": func(r *Row) { r.Seed = 7 },
		"selector": func(r *Row) { r.Selector = "quest" }, "selector_recall": func(r *Row) { r.Selector, r.SelectorRecall = "", ptr(0.5) },
		"trace_digest": func(r *Row) { r.TraceDigest = "sha256:other" }, "model": func(r *Row) { r.Model = "other" }, "options": func(r *Row) { r.Options = "q" },
		"allocation": func(r *Row) { r.Allocation = "sha256:plan" }, "reallocation": func(r *Row) { r.Reallocation = "64:2d-greedy" },
		"capacity_entries": func(r *Row) { r.CapacityEntries = ptr(int64(20)) },
		"lossy":            func(r *Row) { r.Lossy = true }, "offline": func(r *Row) { r.Offline = true },
		"bypasses": func(r *Row) { r.Bypasses = true },
		"entry_bytes": func(r *Row) {
			r.EntryBytes, r.HostToDeviceBytes, r.DeviceToHostBytes = ptr(2), ptr(int64(0)), ptr(int64(0))
		},
	} {
		rows := handRows()
		last := &rows[len(rows)-2] // p on a at 2x
		f, err := fieldNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		old := f.text(last)
		change(last)
		_, err = NewBoard(rows, Options{})
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range []string{name + "=" + old, name + "=" + f.text(last), "a, p at 2x", "--where " + name + "="} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error lacks %q:\n%v", name, want, err)
			}
		}
	}
}

// TestEditedPolicy: rows of a policy that was edited between two replays are refused, and so
// are those that depend on it, with both fingerprints and a filter that leaves one out.
func TestEditedPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*Row)
		wants []string
	}{
		"policy_fingerprint!=f-another": {func(r *Row) { r.PolicyFingerprint = "f-another" },
			[]string{"policy p was edited between these replays", "policy_fingerprint=f-p in 2 rows", "policy_fingerprint=f-another in 1 rows, as b, p at 1x"}},
		"depends_on!=window:2=f": {func(r *Row) { r.DependsOn = "window:2=f" },
			[]string{"policies on which p depends were edited between these replays", "depends_on=window:2=f in 1 rows, as b, p at 1x"}},
	} {
		rows := handRows()
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
		w, err := ParseWhere([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		if rows, err = w.Filter(rows); err == nil {
			_, err = NewBoard(rows, Options{})
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestColdIsNeverPooledWithWarmed(t *testing.T) {
	rows := handRows()
	for i := range rows {
		if rows[i].Trace == "b" {
			rows[i].Warmup = "cold"
		}
	}
	_, err := NewBoard(rows, Options{})
	if err == nil || !strings.Contains(err.Error(), "cold rows are never pooled with warmed ones") {
		t.Errorf("error %v", err)
	}
	w, err := ParseWhere([]string{"warmup!=cold"})
	if err != nil {
		t.Fatal(err)
	}
	warm, err := w.Filter(rows)
	if err != nil || len(warm) != 6 {
		t.Fatalf("%d rows, %v; want the 6 of trace a", len(warm), err)
	}
	mustBoard(t, warm)
}

func TestOneTraceUnderTwoNames(t *testing.T) {
	rows := handRows()
	for i := range rows {
		rows[i].TraceDigest = "sha256:same"
	}
	if _, err := NewBoard(rows, Options{}); err == nil || !strings.Contains(err.Error(), "under several names") {
		t.Errorf("error %v", err)
	}
}

func TestWhere(t *testing.T) {
	rows := append(handRows(), row("a", "lfu-decay:half_life=4", "2x", 5), row("a", "lfu-decay:half_life=8", "3x", 5), row("a", "lfu", "3x", 5))
	for _, c := range []struct {
		where string
		want  int
	}{
		{"policy=lfu-decay", 2}, {"policy!=lfu-decay", 10}, {"policy=lfu", 1}, {"policy=lfu-decay:half_life=4", 1},
		{"", 12}, {"policy=lru", 3}, {"policy=lru policy=opt", 6}, {"policy=lru trace=b", 1}, {"policy!=lru", 9},
		{"policy!=lru policy!=opt", 6}, {"capacity=2x", 4}, {"demand_mean=10.0", 12}, {"request_id=null", 12}, {"offline=true", 3},
	} {
		w, err := ParseWhere(strings.Fields(c.where))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.Filter(rows); err != nil || len(got) != c.want {
			t.Errorf("%q: %d rows, %v; want %d", c.where, len(got), err, c.want)
		}
	}
}

func TestWhereErrors(t *testing.T) {
	for text, want := range map[string]string{
		"policy": "want key=value", "polcy=lru": `unknown field "polcy", did you mean policy?`,
		"topk=many": `field topk: "many" is not an integer`, "warnings=x": "is a list",
	} {
		if _, err := ParseWhere([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want %q", text, err, want)
		}
	}
	w, err := ParseWhere([]string{"policy=fifo"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Filter(handRows()); err == nil || !strings.Contains(err.Error(), "the rows have policy: lru, opt, p") {
		t.Errorf("error %v", err)
	}
}

// TestPlansBySide: other capacities, windows and tiers below another cache may have plans of
// their own, and lossy methods divide a budget as they see fit.
func TestPlansBySide(t *testing.T) {
	rows := handRows()
	for i, p := range []string{"opt", "lru"} {
		rows = append(rows, row("a", p, "plan:2d-greedy@2x", int64(20+i)))
		rows[len(rows)-1].Allocation = "sha256:plan"
	}
	windows := []Row{row("a", "window:2", "", 30), row("a", "window:plan", "", 30)}
	windows[1].Allocation = "sha256:windows"
	divided := []Row{row("a", "lossy", "1x", 9)}
	divided[0].CapacityEntries = ptr(int64(7))
	mustBoard(t, append(append(rows, windows...), divided...))
}

// TestMemoryIsComparedAcrossDetail: one policy's rows are by request, the other's pooled.
func TestMemoryIsComparedAcrossDetail(t *testing.T) {
	opt := row("a", "opt", "1x", 10)
	opt.Streams, opt.Demand, opt.Hits, opt.Steps, opt.CapacityEntries = 2, 200, 190, 20, ptr(int64(10))
	rows := append(byRequest("p", []int64{8, 9}), opt)
	for i := range 2 {
		rows[i].CapacityEntries = ptr(int64(10 + i))
	}
	if _, err := NewBoard(rows, Options{}); err == nil || !strings.Contains(err.Error(), "were not given the same memory: capacity_entries sum to 20 and 21") {
		t.Errorf("error %v", err)
	}
}
