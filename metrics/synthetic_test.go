package metrics

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata")

func ptr[T any](x T) *T { return &x }

// row is a row whose counts are of one stream with ten steps and a demand of 10 each.
func row(trace, policy, capacity string, misses int64) Row {
	r := Row{
		Schema: RowSchema, Trace: trace, TraceDigest: "sha256:" + trace, Policy: policy, PolicyFingerprint: "f-" + policy, TopK: 10, Candidates: 10,
		Warmup: "lru:2", Local: 1, BlockTokens: 1, StepTokens: 1, SharedHeads: 1, Streams: 1, Steps: 10, Demand: 100, DemandMean: 10,
		Hits: 100 - misses, Misses: misses, Births: 10, Engine: "1",
		Offline: policy == "opt" || policy == "opt-bypass", Bypasses: policy == "opt-bypass" || policy == "bypasser", Lossy: policy == "lossy",
	}
	if r.Lossy {
		r.Misses, r.Lost, r.Recall = 0, misses, ptr(1-float64(misses)/100)
	}
	if capacity != "" {
		r.Capacity = &capacity
	}
	return r
}

// forRequest makes a row that of one request.
func forRequest(r Row, id string) Row {
	r.RequestID = &id
	return r
}

// synthetic makes the committed example: two traces, five requests each, counts drawn
// around a miss ratio that falls with capacity. No policy was run for it.
func synthetic() []Row {
	rng := rand.New(rand.NewPCG(1, 2))
	var rows []Row
	for _, trace := range []struct {
		name  string
		level float64
	}{{"synthetic-code.parquet", 0.20}, {"synthetic-qa.parquet", 0.14}} {
		for request := range 5 {
			noise := math.Exp(rng.NormFloat64() * 0.25)
			for _, c := range []float64{1, 1.5, 2, 4} {
				base := trace.level * noise * math.Pow(c, -0.9)
				for _, p := range syntheticPolicies {
					ratio := base * (1 + (p.factor-1)*math.Pow(c, 0.4)) * math.Exp(rng.NormFloat64()*0.01)
					rows = append(rows, syntheticRow(trace.name, p, fmt.Sprintf("%gx", c), request, c, ratio))
				}
			}
			rows = append(rows, syntheticWindow(trace.name, request, trace.level*noise)...)
		}
	}
	return rows
}

type syntheticPolicy struct {
	name              string
	factor            float64
	offline, bypasses bool
}

var syntheticPolicies = []syntheticPolicy{
	{name: "fifo", factor: 1.13}, {name: "lru", factor: 1}, {name: "s3fifo", factor: 0.94},
	{name: "admit", factor: 0.9, bypasses: true},
	{name: "opt", factor: 0.78, offline: true}, {name: "opt-bypass", factor: 0.74, offline: true, bypasses: true},
}

const syntheticK, syntheticSteps, syntheticBytes = 64, 256, 1152

func syntheticRow(trace string, p syntheticPolicy, capacity string, request int, overK, missRatio float64) Row {
	demand := int64(syntheticK*syntheticSteps - 37*request)
	misses := int64(missRatio * float64(demand))
	entries := int64(overK * syntheticK)
	labels := Labels{LabelSynthetic}
	if p.offline {
		labels = labels.With(LabelOraclePolicy)
	}
	r := Row{
		Schema: RowSchema, Labels: labels.String(), Trace: trace, TraceDigest: "synthetic:" + trace, Policy: p.name, PolicyFingerprint: "f-" + p.name, Offline: p.offline, Bypasses: p.bypasses,
		TopK: syntheticK, Candidates: 2 * syntheticK, Capacity: &capacity, CapacityEntries: &entries, Warmup: "lru:32",
		Sink: 4, Local: 16, BlockTokens: 1, StepTokens: 1, SharedHeads: 1, EntryBytes: ptr(syntheticBytes), RequestID: ptr(fmt.Sprintf("r%d", request)),
		Streams: 1, Steps: syntheticSteps, Demand: demand, DemandMean: float64(demand) / syntheticSteps, Hits: demand - misses, Misses: misses,
		Evictions: misses, Births: syntheticSteps, HostToDeviceBytes: ptr(misses * syntheticBytes), DeviceToHostBytes: ptr(int64(syntheticSteps * syntheticBytes)),
		DemandEntries: &demand, MissedEntries: &misses, MovedEntries: misses, ReadAmplification: ptr(1.0),
		ResidentMean: float64(entries), ResidentPeak: entries, Engine: "1", Warnings: []string{"synthetic: an example of the format, not a measurement"},
	}
	return r
}

// syntheticWindow is window:2 with its companions, LRU and OPT at its peak.
func syntheticWindow(trace string, request int, level float64) []Row {
	w := syntheticRow(trace, syntheticPolicy{name: "window:2"}, "", request, 1.9, level*math.Pow(1.6, -0.9))
	w.Options, w.Capacity, w.CapacityEntries, w.ResidentMean = "2", nil, nil, 1.6*syntheticK
	lru := syntheticRow(trace, syntheticPolicy{name: "lru"}, "peak:window:2", request, 1.9, level*math.Pow(1.9, -0.9))
	opt := syntheticRow(trace, syntheticPolicy{name: "opt", offline: true}, "peak:window:2", request, 1.9, level*math.Pow(1.9, -0.9)*0.7)
	return []Row{w, lru, opt}
}

// TestSyntheticRows keeps testdata/rows.jsonl, which the documents show, equal to what
// makes it.
func TestSyntheticRows(t *testing.T) {
	var out bytes.Buffer
	if err := WriteJSONL(&out, synthetic()); err != nil {
		t.Fatal(err)
	}
	golden(t, "rows.jsonl", out.Bytes())
}

// golden compares with a file of testdata; -update rewrites it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}
