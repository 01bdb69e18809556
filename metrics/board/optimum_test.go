package board

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// TestBelowTheOptimum: a policy that keeps its demand misses at least as much as opt. One that may
// bypass misses at least as much as opt-bypass. Both hold in every part that both have. Nothing
// else is bounded.
func TestBelowTheOptimum(t *testing.T) {
	bypasses := func(r *result.Row) { r.Bypasses = true }
	all := func(change func(*result.Row)) func([]result.Row) {
		return func(rows []result.Row) {
			for i := range rows {
				change(&rows[i])
			}
		}
	}
	layer := func(r result.Row, layer int32) result.Row { r.LayerID = &layer; return r }
	// Each policy has rows of two layers.
	layers := func(p1, p2 int64) []result.Row {
		return []result.Row{layer(rowstest.Row("a", "p", "1x", p1), 0), layer(rowstest.Row("a", "p", "1x", p2), 1), layer(rowstest.Row("a", "opt", "1x", 20), 0), layer(rowstest.Row("a", "opt", "1x", 20), 1)}
	}
	for name, c := range map[string]struct {
		rows   []result.Row
		change func([]result.Row)
		want   string // empty: no error
	}{
		"as opt":      {[]result.Row{rowstest.Row("a", "p", "1x", 40), rowstest.Row("a", "opt", "1x", 40)}, nil, ""},
		"below opt":   {[]result.Row{rowstest.Row("a", "p", "1x", 39), rowstest.Row("a", "opt", "1x", 40)}, nil, "trace a, p at 1x (all): 39 misses, opt 40"},
		"at a peak":   {[]result.Row{rowstest.Row("a", "lru", "peak:window:2", 3), rowstest.Row("a", "opt", "peak:window:2", 4)}, nil, "lru at peak:window:2"},
		"a request":   {append(rowstest.ByRequest("p", []int64{50, 9}), rowstest.ByRequest("opt", []int64{20, 10})...), nil, "p at 1x (request r001): 9 misses, opt 10"},
		"a layer":     {layers(50, 19), nil, "p at 1x (layer 1): 19 misses, opt 20"},
		"bypasses":    {[]result.Row{rowstest.Row("a", "bypasser", "1x", 30), rowstest.Row("a", "opt", "1x", 40), rowstest.Row("a", "opt-bypass", "1x", 30)}, nil, ""},
		"opt-bypass":  {[]result.Row{rowstest.Row("a", "bypasser", "1x", 29), rowstest.Row("a", "opt", "1x", 40), rowstest.Row("a", "opt-bypass", "1x", 30)}, nil, "29 misses, opt-bypass 30"},
		"opt itself":  {[]result.Row{rowstest.Row("a", "p", "1x", 50), rowstest.Row("a", "opt", "1x", 29), rowstest.Row("a", "opt-bypass", "1x", 30)}, nil, "opt at 1x (all): 29 misses, opt-bypass 30"},
		"prefetches":  {[]result.Row{rowstest.Row("a", "p", "1x", 9), rowstest.Row("a", "opt", "1x", 40)}, all(func(r *result.Row) { r.Prefetch = "candidates:8" }), ""},
		"clusters":    {[]result.Row{rowstest.Row("a", "p", "1x", 9), rowstest.Row("a", "opt", "1x", 40)}, all(func(r *result.Row) { r.Clusters = "lists" }), ""},
		"lossy":       {[]result.Row{rowstest.Row("a", "lossy", "1x", 0), rowstest.Row("a", "opt", "1x", 40)}, nil, ""},
		"window":      {[]result.Row{rowstest.Row("a", "window:9", "", 3), rowstest.Row("a", "opt", "1x", 40)}, nil, ""},
		"many":        {append(rowstest.ByRequest("p", []int64{1, 1, 1, 1, 1, 1, 1}), rowstest.ByRequest("opt", []int64{2, 2, 2, 2, 2, 2, 2})...), nil, "and 3 more\nthey are wrong, or the optimum's are: replay them with kvreplay leaderboard verify, or leave them out with --where policy!=p"},
		"pool":        {layers(50, 19), all(func(r *result.Row) { r.Pool = "request" }), ""},
		"pool, all":   {layers(20, 19), all(func(r *result.Row) { r.Pool = "request" }), "p at 1x (all): 39 misses, opt 40"},
		"pool, layer": {layers(50, 19), all(func(r *result.Row) { r.Pool = "layer" }), "p at 1x (layer 1)"},
		"says it may": {[]result.Row{rowstest.Row("a", "p", "1x", 9), rowstest.Row("a", "opt", "1x", 40)}, func(rows []result.Row) { bypasses(&rows[0]) }, ""},
	} {
		if c.change != nil {
			c.change(c.rows)
		}
		_, err := NewBoard(c.rows, Options{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	if _, err := Compare([]result.Row{rowstest.Row("a", "p", "1x", 39), rowstest.Row("a", "opt", "1x", 40)}, "p", "opt", Options{}); err == nil || !strings.Contains(err.Error(), "39 misses, opt 40") {
		t.Errorf("compare: error %v", err)
	}
}
