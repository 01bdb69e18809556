package rowstest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// Synthetic makes the committed example: two traces with five requests each. Counts are drawn
// around a miss ratio that falls with capacity. No policy was run for it.
func Synthetic() []result.Row { return SyntheticOf(5) }

// SyntheticOf makes rows as Synthetic does, with any number of requests per trace. A request has 27
// rows.
func SyntheticOf(requests int) []result.Row {
	rng := rand.New(rand.NewPCG(1, 2))
	var rows []result.Row
	for _, trace := range []struct {
		name  string
		level float64
	}{{"synthetic-code.parquet", 0.20}, {"synthetic-qa.parquet", 0.14}} {
		for request := range requests {
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

func syntheticRow(trace string, p syntheticPolicy, capacity string, request int, overK, missRatio float64) result.Row {
	demand := int64(syntheticK*syntheticSteps - 37*(request%400))
	misses := int64(missRatio * float64(demand))
	entries := int64(overK * syntheticK)
	labels := result.Labels{result.LabelSynthetic}
	if p.offline {
		labels = labels.With(result.LabelOraclePolicy)
	}
	r := result.Row{
		Setting: result.Setting{Trace: trace, TraceDigest: "synthetic:" + trace, TopK: syntheticK,
			Candidates: 2 * syntheticK, Warmup: "lru:32", Sink: 4, Local: 16, BlockTokens: 1, StepTokens: 1,
			SharedHeads: 1, EntryBytes: Ptr(syntheticBytes), Engine: "1"},
		Schema: result.RowSchema, Labels: labels.String(), Policy: p.name, PolicyFingerprint: "f-" + p.name,
		Offline: p.offline, Bypasses: p.bypasses, Capacity: &capacity, CapacityEntries: &entries,
		RequestID: Ptr(fmt.Sprintf("r%d", request)), Streams: 1, Steps: syntheticSteps, Demand: demand,
		DemandMean: float64(demand) / syntheticSteps, Hits: demand - misses, Misses: misses, Evictions: misses,
		Births: syntheticSteps, HostToDeviceBytes: Ptr(misses * syntheticBytes),
		DeviceToHostBytes: Ptr(int64(syntheticSteps * syntheticBytes)), DemandEntries: &demand,
		MissedEntries: &misses, MovedEntries: misses, ReadAmplification: Ptr(1.0),
		ResidentMean: float64(entries), ResidentPeak: entries,
		Warnings: []string{"synthetic: an example of the format, not a measurement"},
	}
	return r
}

// syntheticWindow returns rows of window:2 and of LRU and OPT at its peak.
func syntheticWindow(trace string, request int, level float64) []result.Row {
	w := syntheticRow(trace, syntheticPolicy{name: "window:2"}, "", request, 1.9, level*math.Pow(1.6, -0.9))
	w.Options, w.Capacity, w.CapacityEntries, w.ResidentMean = "2", nil, nil, 1.6*syntheticK
	lru := syntheticRow(trace, syntheticPolicy{name: "lru"}, "peak:window:2", request, 1.9, level*math.Pow(1.9, -0.9))
	opt := syntheticRow(trace, syntheticPolicy{name: "opt", offline: true}, "peak:window:2", request, 1.9, level*math.Pow(1.9, -0.9)*0.7)
	return []result.Row{w, lru, opt}
}
