package run

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// HostToDeviceBytes are the moved entries times the bytes of an entry. DeviceToHostBytes are the
// decoded entries times the bytes of an entry, with every policy, capacity and shape.
func TestRowBytes(t *testing.T) {
	f := manyStreams(t)
	bytes := 100
	base := Options{Policies: specs(t, "lru", "opt"), Capacities: capacities(t, "1x", "2x"), EntryBytes: &bytes}
	const decoded = 3 * 4 * 2 * 40 // requests, layers, heads, steps
	for name, change := range map[string]func(*Options){
		"as recorded":  func(*Options) {},
		"blocks":       func(o *Options) { o.Shape.BlockTokens = 4 },
		"shared heads": func(o *Options) { o.Shape.ShareHeads = true },
		"steps":        func(o *Options) { o.Shape.StepTokens = 4 },
		"all of them":  func(o *Options) { o.Shape = setting.Shape{BlockTokens: 4, ShareHeads: true, StepTokens: 4} },
	} {
		o := base
		change(&o)
		for _, r := range mustRun(t, f, o) {
			if *r.HostToDeviceBytes != r.MovedEntries*100 || *r.DeviceToHostBytes != decoded*100 {
				t.Errorf("%s, %s: %d and %d bytes, expected %d and %d", name, r.Policy, *r.HostToDeviceBytes, *r.DeviceToHostBytes, r.MovedEntries*100, decoded*100)
			}
			if r.MovedEntries != r.Misses*int64(r.BlockTokens)*int64(r.SharedHeads) || r.Misses == 0 {
				t.Errorf("%s, %s: %d entries of %d missed blocks", name, r.Policy, r.MovedEntries, r.Misses)
			}
		}
	}
}

// The bytes of a tier are those that it fetches from below and those that it receives from above.
func TestTierBytes(t *testing.T) {
	f := manyStreams(t)
	bytes := 100
	o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "1x"), EntryBytes: &bytes, Tiers: tiers(t, "dram=lru@2x"), Shape: setting.Shape{BlockTokens: 4, ShareHeads: true}}
	rows := mustRun(t, f, o)
	if len(rows) != 2 || rows[1].Tier != 1 {
		t.Fatalf("rows %+v", rows)
	}
	const block = 4 * 2 * 100
	if r := &rows[1]; *r.HostToDeviceBytes != r.Misses*block || *r.DeviceToHostBytes != r.Births*block || r.Births == 0 || r.Misses == 0 {
		t.Errorf("%d and %d bytes of %d misses and %d blocks given", *r.HostToDeviceBytes, *r.DeviceToHostBytes, r.Misses, r.Births)
	}
}

// A row states its capacity in entries only if all of its streams have the same.
func TestRowCapacityEntries(t *testing.T) {
	f := manyStreams(t) // prompts of 200, 240 and 280 tokens
	for _, c := range []struct {
		capacity string
		requests []string
		want     *int64
	}{{"0.2ctx", []string{"a"}, new(int64(40))}, {"0.2ctx", []string{"a", "c"}, nil}, {"0.2ctx", nil, nil}, {"2x", nil, new(int64(48))}} {
		r := mustRun(t, f, Options{Policies: specs(t, "lru"), Capacities: capacities(t, c.capacity), Requests: c.requests})[0]
		if (r.CapacityEntries == nil) != (c.want == nil) || c.want != nil && *r.CapacityEntries != *c.want {
			t.Errorf("%s of %v: %v entries, expected %v", c.capacity, c.requests, r.CapacityEntries, c.want)
		}
	}
}

// Rows warn of pins that differ from those of the trace.
func TestWarnsOfOtherPins(t *testing.T) {
	f := manyStreams(t) // sink 2, local 3
	for _, c := range []struct {
		sink, local int
		want        []string
	}{
		{2, 3, nil},
		{4, 3, []string{"replayed with sink 4, the trace states 2"}},
		{4, 1, []string{"replayed with sink 4, the trace states 2", "replayed with local 1, the trace states 3"}},
	} {
		r := mustRun(t, f, Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Sink: &c.sink, Local: &c.local})[0]
		if !slices.Equal(r.Warnings, c.want) {
			t.Errorf("sink %d, local %d: warnings %q, expected %q", c.sink, c.local, r.Warnings, c.want)
		}
	}
}

// A row states the selector recall that the capture noted, if the selector is approximate and the
// note is a number from 0 to 1. If the run has another K, the row has a warning.
func TestRowSelectorRecall(t *testing.T) {
	other := "selector_recall was measured at K = 4, not at 3"
	for _, c := range []struct {
		selector, note string
		topk           int
		want           float64 // -1: none
		warning        bool
	}{
		{"quest", "0.25", 4, 0.25, false}, {"quest", "0", 4, 0, false}, {"quest", "1", 4, 1, false}, {"quest", "0.25", 3, 0.25, true},
		{"quest", "", 4, -1, false}, {"quest", "high", 3, -1, false}, {"quest", "-0.1", 4, -1, false}, {"quest", "1.01", 4, -1, false}, {"quest", "NaN", 4, -1, false},
		{"exact", "0.25", 4, -1, false}, {"", "0.25", 4, -1, false},
	} {
		path := filepath.Join(t.TempDir(), "recall.parquet")
		w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 4, Candidates: 4, BlockTokens: 1, Selector: c.selector, Notes: map[string]string{"exact.recall": c.note}})
		fatal.If(t, err)
		s := replaytest.Stream(rand.New(rand.NewPCG(1, 2)), replaytest.Options{Prompt: 30, Steps: 4, M: 4})
		fatal.If(t, w.Write(s))
		r := mustRun(t, reopen(t, w, path), Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), TopK: c.topk, Warmup: setting.Warmup{Kind: setting.WarmupCold}})[0]
		got := -1.0
		if r.SelectorRecall != nil {
			got = *r.SelectorRecall
		}
		if got != c.want || slices.Contains(r.Warnings, other) != c.warning {
			t.Errorf("%s, %q at K = %d: recall %v, warnings %q", c.selector, c.note, c.topk, got, r.Warnings)
		}
	}
}

// A row warns of a capacity that holds the whole context, and of one below K. Rows of capacities in
// between and of tiers have no such warning.
func TestSizeWarnings(t *testing.T) {
	f := manyStreams(t) // three requests of 8 streams, with contexts of three lengths
	largest := 0
	for _, s := range f.Streams() {
		largest = max(largest, s.MaxSeqLen())
	}
	k := f.Meta().TopK
	o := Options{Policies: specs(t, "lru", "opt"), Capacities: capacities(t, fmt.Sprint(k-1), fmt.Sprint(k), "2x", fmt.Sprint(largest-1), fmt.Sprint(largest), fmt.Sprintf("%d+%d@4", k, largest)), Tiers: tiers(t, "dram=lru@64x")}
	result, err := Run(t.Context(), f, o)
	fatal.If(t, err)
	streams := len(f.Streams())
	for _, r := range result.Rows {
		text := strings.Join(r.Warnings, "\n")
		under, whole := strings.Contains(text, "is below K: a stream keeps "+fmt.Sprint(k-1)), strings.Contains(text, fmt.Sprintf("is larger than the context in %d of %d streams", streams, streams))
		if r.Tier > 0 && text != "" {
			t.Errorf("a tier warns: %s", text)
		}
		if want := *r.Capacity; r.Tier == 0 && (under != (want == fmt.Sprint(k-1)) || whole != (want == fmt.Sprint(largest))) {
			t.Errorf("at %s: %q", want, text)
		}
		if part := strings.Contains(text, fmt.Sprintf("in 16 of %d streams", streams)); r.Tier == 0 && part != (*r.Capacity == fmt.Sprint(largest-1)) {
			t.Errorf("at %s: %q", *r.Capacity, text)
		}
		if r.Tier == 0 && whole && r.Evictions > 0 {
			t.Errorf("at %s: %d evictions", *r.Capacity, r.Evictions)
		}
	}
}

// At a capacity above K, a Divider may give some streams less than K without a warning. A row warns
// if no stream gets K entries.
func TestSizeWarningsOfDividedBudgets(t *testing.T) {
	f, err := trace.Open("../../datasets/corpus/deep_vt.parquet")
	fatal.If(t, err)
	defer f.Close()
	result, err := Run(t.Context(), f, Options{Policies: specs(t, "pyramidkv", "streamingllm"), Capacities: capacities(t, "0.5x", "1.25x")})
	fatal.If(t, err)
	for _, r := range result.Rows {
		if under := strings.Contains(strings.Join(r.Warnings, "\n"), "is below K"); under != (*r.Capacity == "0.5x") {
			t.Errorf("%s at %s: %q", r.Policy, *r.Capacity, r.Warnings)
		}
	}
}
