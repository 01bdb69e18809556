// Package rowstest makes the result rows that the tests of metrics share. It compares them with
// their documents and golden files.
package rowstest

import (
	"fmt"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// Ptr returns a pointer to a copy of x.
func Ptr[T any](x T) *T { return &x }

// Row returns a row with the counts of one stream, with ten steps and a demand of 10 each.
func Row(trace, policy, capacity string, misses int64) result.Row {
	r := result.Row{
		Setting: result.Setting{Trace: trace, TraceDigest: "sha256:" + trace, TopK: 10, Candidates: 10,
			Warmup: "lru:2", Local: 1, BlockTokens: 1, StepTokens: 1, SharedHeads: 1, Engine: "1"},
		Schema: result.RowSchema, Policy: policy, PolicyFingerprint: "f-" + policy, Streams: 1, Steps: 10,
		Demand: 100, DemandMean: 10, Hits: 100 - misses, Misses: misses, Births: 10,
		Offline:  policy == "opt" || policy == "opt-bypass",
		Bypasses: policy == "opt-bypass" || policy == "bypasser", Lossy: policy == "lossy",
	}
	if r.Lossy {
		r.Misses, r.Lost, r.Recall = 0, misses, Ptr(1-float64(misses)/100)
	}
	if capacity != "" {
		r.Capacity = &capacity
	}
	return r
}

// ForRequest turns a row into that of one request.
func ForRequest(r result.Row, id string) result.Row {
	r.RequestID = &id
	return r
}

// HandRows is the board that the tests work out by hand: demand 100 in every cell.
//
//	misses   a 1x  a 2x  b 1x   sum
//	opt        40    20    10    70
//	p          50    30    12    92
//	lru        60    40    15   115
func HandRows() []result.Row {
	return []result.Row{
		Row("a", "opt", "1x", 40), Row("a", "opt", "2x", 20), Row("b", "opt", "1x", 10),
		Row("a", "lru", "1x", 60), Row("a", "lru", "2x", 40), Row("b", "lru", "1x", 15),
		Row("a", "p", "1x", 50), Row("a", "p", "2x", 30), Row("b", "p", "1x", 12),
	}
}

// ByRequest is a cell of trace a with one row per request.
func ByRequest(policy string, misses []int64) []result.Row {
	var rows []result.Row
	for i, m := range misses {
		rows = append(rows, ForRequest(Row("a", policy, "1x", m), fmt.Sprintf("r%03d", i)))
	}
	return rows
}

// PartRow turns a row into a part of its cell with other counts.
func PartRow(r result.Row, request string, layer, head int32, streams, misses int64) result.Row {
	if request != "" {
		r.RequestID = &request
	}
	if layer >= 0 {
		r.LayerID = &layer
	}
	if head >= 0 {
		r.Head = &head
	}
	r.Streams, r.Steps, r.Demand = streams, 10*streams, 100*streams
	r.Misses, r.Hits = misses, r.Demand-misses
	return r
}

// Detailed returns one cell, 8 streams and 80 misses, at every level of detail: pooled, by layer,
// by request, by request and layer, by stream.
func Detailed() []result.Row {
	base := Row("a", "p", "1x", 0)
	rows := []result.Row{
		PartRow(base, "", -1, -1, 8, 80),
		PartRow(base, "", 0, -1, 4, 30), PartRow(base, "", 1, -1, 4, 50),
		PartRow(base, "x", -1, -1, 4, 20), PartRow(base, "y", -1, -1, 4, 60),
	}
	// Layer 0 has heads 0 and 1 in x. Elsewhere a layer's row pools two streams.
	return append(rows,
		PartRow(base, "x", 0, -1, 2, 8), PartRow(base, "x", 1, -1, 2, 12),
		PartRow(base, "y", 0, -1, 2, 22), PartRow(base, "y", 1, -1, 2, 38),
		PartRow(base, "x", 0, 0, 1, 3), PartRow(base, "x", 0, 1, 1, 5))
}

// LabelledRows are HandRows in which trace a is synthetic and has one request.
func LabelledRows() []result.Row {
	rows := HandRows()
	for i := range rows {
		if rows[i].Trace == "a" {
			rows[i].Labels = result.Labels{}.With(result.LabelOneRequest, result.LabelSynthetic).String()
		}
		if rows[i].Offline {
			rows[i].Labels = result.ParseLabels(rows[i].Labels).With(result.LabelOraclePolicy).String()
		}
	}
	return rows
}

// LetteredRows are rows of seven requests, the fewest that can distinguish one of three pairs. best
// and close win some requests each, and worse misses more in each.
func LetteredRows() []result.Row {
	rows := ByRequest("opt", []int64{10, 20, 30, 40, 50, 30, 20})
	rows = append(rows, ByRequest("best", []int64{15, 30, 45, 60, 75, 44, 30})...)
	rows = append(rows, ByRequest("close", []int64{20, 25, 51, 50, 80, 46, 31})...)
	return append(rows, ByRequest("worse", []int64{30, 60, 80, 90, 99, 77, 61})...)
}

// LossyRow returns a row of a lossy policy. Some of 100 demanded blocks are lost. The list covers
// 80 % of each step's attention.
func LossyRow(trace, policy, capacity string, lost int64, kept float64) result.Row {
	r := Row(trace, "lossy", capacity, lost)
	r.Policy, r.KeptMass, r.CoveredMass = policy, &kept, Ptr(0.8)
	r.ResidentMean, r.ResidentPeak = 9.5, 10
	return r
}

// RenderRows are HandRows with further cases for renderings: a tie, a bypassing policy, warnings, a
// policy that lacks a trace, a window, a lossy policy.
func RenderRows() []result.Row {
	rows := append(HandRows(), Row("a", "bypasser", "1x", 45), Row("a", "bypasser", "2x", 30), Row("b", "bypasser", "1x", 12),
		Row("a", "lossy", "1x", 20), Row("b", "opt", "2x", 0), Row("b", "lru", "2x", 3),
		Row("c", "late|r", "1x", 9), Row("c", "opt", "1x", 8), Row("a", "lru", "peak:window:2", 24))
	window := Row("a", "window:2", "", 30)
	window.Options, window.ResidentMean, window.ResidentPeak = "2", 12.5, 20
	rows = append(rows, window)
	rows[6].Warnings = []string{"overflow by 3 blocks"}
	rows[7].Warnings = []string{"overflow by 17 blocks"}
	return rows
}
