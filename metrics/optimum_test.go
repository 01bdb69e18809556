package metrics

import (
	"strings"
	"testing"
)

// TestBelowTheOptimum: what keeps its demand misses as much as opt at least, whatever may
// bypass as much as opt-bypass, in every part that both have; nothing else is bounded.
func TestBelowTheOptimum(t *testing.T) {
	bypasses := func(r *Row) { r.Bypasses = true }
	all := func(change func(*Row)) func([]Row) {
		return func(rows []Row) {
			for i := range rows {
				change(&rows[i])
			}
		}
	}
	layer := func(r Row, layer int32) Row { r.LayerID = &layer; return r }
	// Of each policy, rows of two layers.
	layers := func(p1, p2 int64) []Row {
		return []Row{layer(row("a", "p", "1x", p1), 0), layer(row("a", "p", "1x", p2), 1), layer(row("a", "opt", "1x", 20), 0), layer(row("a", "opt", "1x", 20), 1)}
	}
	for name, c := range map[string]struct {
		rows   []Row
		change func([]Row)
		want   string // empty: no error
	}{
		"as opt":      {[]Row{row("a", "p", "1x", 40), row("a", "opt", "1x", 40)}, nil, ""},
		"below opt":   {[]Row{row("a", "p", "1x", 39), row("a", "opt", "1x", 40)}, nil, "trace a, p at 1x (all): 39 misses, opt 40"},
		"at a peak":   {[]Row{row("a", "lru", "peak:window:2", 3), row("a", "opt", "peak:window:2", 4)}, nil, "lru at peak:window:2"},
		"a request":   {append(byRequest("p", []int64{50, 9}), byRequest("opt", []int64{20, 10})...), nil, "p at 1x (request r001): 9 misses, opt 10"},
		"a layer":     {layers(50, 19), nil, "p at 1x (layer 1): 19 misses, opt 20"},
		"bypasses":    {[]Row{row("a", "bypasser", "1x", 30), row("a", "opt", "1x", 40), row("a", "opt-bypass", "1x", 30)}, nil, ""},
		"opt-bypass":  {[]Row{row("a", "bypasser", "1x", 29), row("a", "opt", "1x", 40), row("a", "opt-bypass", "1x", 30)}, nil, "29 misses, opt-bypass 30"},
		"opt itself":  {[]Row{row("a", "p", "1x", 50), row("a", "opt", "1x", 29), row("a", "opt-bypass", "1x", 30)}, nil, "opt at 1x (all): 29 misses, opt-bypass 30"},
		"prefetches":  {[]Row{row("a", "p", "1x", 9), row("a", "opt", "1x", 40)}, all(func(r *Row) { r.Prefetch = "candidates:8" }), ""},
		"clusters":    {[]Row{row("a", "p", "1x", 9), row("a", "opt", "1x", 40)}, all(func(r *Row) { r.Clusters = "lists" }), ""},
		"lossy":       {[]Row{row("a", "lossy", "1x", 0), row("a", "opt", "1x", 40)}, nil, ""},
		"window":      {[]Row{row("a", "window:9", "", 3), row("a", "opt", "1x", 40)}, nil, ""},
		"many":        {append(byRequest("p", []int64{1, 1, 1, 1, 1, 1, 1}), byRequest("opt", []int64{2, 2, 2, 2, 2, 2, 2})...), nil, "and 3 more\nthese rows are false, or those of the optimum are: kvreplay leaderboard verify replays them; leave them out with --where policy!=p"},
		"pool":        {layers(50, 19), all(func(r *Row) { r.Pool = "request" }), ""},
		"pool, all":   {layers(20, 19), all(func(r *Row) { r.Pool = "request" }), "p at 1x (all): 39 misses, opt 40"},
		"pool, layer": {layers(50, 19), all(func(r *Row) { r.Pool = "layer" }), "p at 1x (layer 1)"},
		"says it may": {[]Row{row("a", "p", "1x", 9), row("a", "opt", "1x", 40)}, func(rows []Row) { bypasses(&rows[0]) }, ""},
	} {
		if c.change != nil {
			c.change(c.rows)
		}
		_, err := NewBoard(c.rows, Options{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	if _, err := Compare([]Row{row("a", "p", "1x", 39), row("a", "opt", "1x", 40)}, "p", "opt", Options{}); err == nil || !strings.Contains(err.Error(), "39 misses, opt 40") {
		t.Errorf("compare: error %v", err)
	}
}
