package board

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// collect makes a board of rows one at a time.
func collect(rows []result.Row, o Options) (*Board, error) {
	var c Collector
	var r result.Row // one for all, as a reader has it
	for i := range rows {
		r = rows[i]
		if err := c.Add(&r, i > 0 && i%2 == 0 && result.SameKind(&rows[i-1], &rows[i])); err != nil {
			return nil, err
		}
	}
	return c.Board(o)
}

// boardText returns the JSON of a board, empty for an error.
func boardText(t *testing.T, b *Board, err error) string {
	if err != nil {
		return ""
	}
	text, err := json.Marshal(b)
	fatal.If(t, err)
	return string(text)
}

// collectorRows are rows of many forms: by request, by layer, tiers, lossy policies, windows.
func collectorRows() map[string][]result.Row {
	sets := map[string][]result.Row{
		"hand": rowstest.HandRows(), "synthetic": rowstest.Synthetic(), "lettered": rowstest.LetteredRows(),
		"render": rowstest.RenderRows(), "labelled": rowstest.LabelledRows(),
		"request": slices.Concat(rowstest.ByRequest("opt", []int64{9, 8, 7, 6, 5}), rowstest.ByRequest("p", []int64{19, 8, 7, 16, 5})),
	}
	var detailed []result.Row
	for _, policy := range []string{"lru", "opt"} {
		whole := rowstest.Row("a", policy, "1x", 40)
		detailed = append(detailed, rowstest.PartRow(whole, "x", 0, -1, 1, 20), rowstest.PartRow(whole, "x", 1, -1, 1, 20),
			rowstest.PartRow(whole, "y", 0, -1, 1, 20), rowstest.PartRow(whole, "y", 1, -1, 1, 20))
	}
	sets["layers"] = detailed
	return sets
}

// TestCollector: a Collector makes the board of NewBoard, or none, from rows that are changed, left
// out, repeated and moved.
func TestCollector(t *testing.T) {
	for name, rows := range collectorRows() {
		o := Options{Resamples: 50}
		sorted := result.MergeRows(rows, nil)
		b, err := NewBoard(sorted, o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		whole := boardText(t, b, err)
		if b, err := collect(sorted, o); boardText(t, b, err) != whole {
			t.Errorf("%s: another board, or %v", name, err)
		}
		if len(rows) > 60 { // of a part of the requests, so that the trials are quick
			sorted = slices.DeleteFunc(sorted, func(r result.Row) bool { return r.Trace != sorted[0].Trace })
		}
		made := 0
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 5))
			changed := change(r, sorted)
			b, err := collect(changed, o)
			if err != nil {
				continue
			}
			made++
			want, err := NewBoard(changed, o)
			if err != nil || boardText(t, b, nil) != boardText(t, want, nil) {
				t.Fatalf("%s, seed %d: another board, or NewBoard has none: %v", name, seed, err)
			}
		}
		if made == 0 {
			t.Errorf("%s: no board of changed rows", name)
		}
	}
}

// change returns rows with some random changes, most of which make no contradiction.
func change(r *rand.Rand, rows []result.Row) []result.Row {
	rows = slices.Clone(rows)
	for range 1 + r.IntN(2) {
		i, j := r.IntN(len(rows)), r.IntN(len(rows))
		switch r.IntN(8) {
		case 0: // other counts
			if x := &rows[i]; x.Misses > 0 && !x.Lossy {
				x.Misses, x.Hits = x.Misses-1, x.Hits+1
			}
		case 1: // other memory of a part
			rows[i].CapacityEntries = rowstest.Ptr(int64(1 + r.IntN(3)))
		case 2: // of each request its own memory
			for k := range rows {
				n := int64(len(result.OrDash(rows[k].RequestID)) + 2*len(result.OrDash(rows[k].Capacity)))
				if rows[k].RequestID != nil {
					n += int64((*rows[k].RequestID)[len(*rows[k].RequestID)-1])
				}
				if rows[k].Capacity != nil {
					rows[k].CapacityEntries = &n
				}
			}
		case 3:
			rows = slices.Delete(rows, i, i+1)
			if len(rows) == 0 {
				return rows
			}
		case 4: // the same row again
			rows = slices.Insert(rows, i, rows[j])
		case 5:
			rows[i], rows[j] = rows[j], rows[i]
		case 6:
			rows[i].Warnings = append(slices.Clone(rows[i].Warnings), fmt.Sprint("changed ", r.IntN(2)))
		case 7: // a setting
			rows[i].TopK++
		}
	}
	return rows
}

// starts reads rows one at a time.
func starts(rows []result.Row) (*Starts, error) {
	var warmed, cold Collector
	for _, r := range rows {
		of := &warmed
		if r.Warmup == result.ColdStart {
			of = &cold
		}
		if err := of.Add(&r, false); err != nil {
			return nil, err
		}
	}
	return NewStarts(&warmed, &cold)
}

// TestStartsCompare: rows one at a time give the comparisons of all rows, or none, as in TestCollector.
// Some rows are of cold starts.
func TestStartsCompare(t *testing.T) {
	o := Options{Resamples: 50}
	for name, rows := range collectorRows() {
		rows = result.MergeRows(rows, nil)
		if len(rows) > 60 {
			rows = slices.DeleteFunc(rows, func(r result.Row) bool { return r.Trace != rows[0].Trace })
		}
		for _, r := range slices.Clone(rows) {
			if r.Tier == 0 && r.Capacity != nil && *r.Capacity == "1x" {
				r.Warmup = result.ColdStart
				rows = append(rows, r)
			}
		}
		ran := slices.Sorted(maps.Keys(newComparer(rows, o).samples))
		made := 0
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 7))
			changed := rows
			if seed > 0 {
				changed = change(r, rows)
			}
			a, b := ran[r.IntN(len(ran))], ran[r.IntN(len(ran))]
			var want, got any
			var failed error
			s, err := starts(changed)
			switch {
			case err != nil:
				continue
			case seed%2 == 0:
				want, failed = StartsOf(changed).CompareAll(b, o)
				got, err = s.CompareAll(b, o)
			default:
				want, failed = Compare(changed, a, b, o)
				got, err = s.Compare(a, b, o)
			}
			if seed == 0 && !slices.Equal(s.Policies(), ran) {
				t.Errorf("%s: policies %v, expected %v", name, s.Policies(), ran)
			}
			if err != nil {
				continue
			}
			made++
			if failed != nil {
				t.Fatalf("%s, seed %d: a comparison, although all rows have none: %v", name, seed, failed)
			}
			one, err := json.Marshal(got)
			fatal.If(t, err)
			all, err := json.Marshal(want)
			fatal.If(t, err)
			if string(one) != string(all) {
				t.Fatalf("%s, seed %d: %s against %s differs from that of all rows", name, seed, a, b)
			}
		}
		if made == 0 {
			t.Errorf("%s: no comparison", name)
		}
	}
}
