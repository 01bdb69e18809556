package render_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// pageRows returns rows of five requests for LRU, OPT, a lossy policy and more exact policies, on
// some traces and capacities. name names the policies and traces. scale multiplies the counts.
func pageRows(policies, traces, capacities int, scale int64, name func(i int) string) []result.Row {
	rng := rand.New(rand.NewPCG(3, 4))
	var rows []result.Row
	for t := range traces {
		for c := range capacities {
			capacity, entries := fmt.Sprintf("%gx", 1+0.5*float64(c)), int64(10+5*c)
			for request := range 5 {
				least := (20 + rng.Int64N(20)) * scale / int64(c+1)
				for p := range policies {
					policy, misses := name(p), least+(int64(p)*least)/int64(2*policies)+rng.Int64N(1+scale/int64(p+1))
					switch p {
					case 0:
						policy, misses = board.OptPolicy, least
					case 1:
						policy = board.LRUPolicy
					}
					r := rowstest.Row(name(policies+t), policy, capacity, misses)
					if p == 2 {
						r = rowstest.LossyRow(name(policies+t), policy, capacity, misses, 0.5)
						r.Lossy, r.Lost, r.Recall, r.Misses = true, misses, rowstest.Ptr(1-float64(misses)/float64(100*scale)), 0
					}
					r.Demand, r.DemandMean, r.Hits = 100*scale, 10*float64(scale), 100*scale-r.Misses
					r.EntryBytes, r.CapacityEntries = rowstest.Ptr(64), &entries
					r.HostToDeviceBytes, r.DeviceToHostBytes = rowstest.Ptr(64*r.Misses), rowstest.Ptr(int64(0))
					r.DemandEntries = &r.Demand
					rows = append(rows, rowstest.ForRequest(r, fmt.Sprintf("r%d", request)))
				}
			}
		}
	}
	return rows
}

func plainName(i int) string { return fmt.Sprintf("name%c%c", 'a'+i/26, 'a'+i%26) }

// pageOf returns the page of rows, with an own number of resamples. With titles the rows make a
// board for each.
func pageOf(t testing.TB, rows []result.Row, resamples int, titles ...string) string {
	t.Helper()
	b, err := board.NewBoard(rows, board.Options{Resamples: resamples})
	fatal.If(t, err)
	boards := []render.PageBoard{{Board: b, Rows: rows}}
	for i, title := range titles {
		boards = append(boards[:i], render.PageBoard{Board: b, Title: title, Suffix: "-" + title})
	}
	var page bytes.Buffer
	source := render.PageSource{Command: "kvreplay leaderboard 'a b' --format html", Version: "v1\ncommit x"}
	fatal.If(t, render.Page(&page, boards, source, render.View{}))
	return page.String()
}

var (
	tag     = regexp.MustCompile(`<[!/a-zA-Z][^>]*>`)
	inQuote = regexp.MustCompile(`"[^"]*"`)
	scripts = regexp.MustCompile(`(?s)<(script|style)\b[^>]*>(.*?)</(script|style)>`)
)

// A page with hostile names has the elements of the page with plain names. Its data is JSON with
// the names as people see them.
func TestPageHostileNames(t *testing.T) {
	hostile := func(i int) string {
		return fmt.Sprintf("%s%d", tracetest.Hostile[i%len(tracetest.Hostile)], i)
	}
	const policies, traces = 12, 40
	shape := func(page string) (tags []string) {
		for _, found := range tag.FindAllString(scripts.ReplaceAllString(page, "<$1>"), -1) {
			tags = append(tags, inQuote.ReplaceAllString(found, `""`))
		}
		return tags
	}
	page := pageOf(t, pageRows(policies, traces, 2, 10, hostile), 20)
	got, want := shape(page), shape(pageOf(t, pageRows(policies, traces, 2, 10, plainName), 20))
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("element %d differs from that with plain names: %q, expected %q", i, got[min(i, len(got)-1)], want[min(i, len(want)-1)])
		}
	}
	if printable.Text(page) != page {
		t.Error("the page has characters that readers cannot see")
	}
	found := scripts.FindAllStringSubmatch(page, -1)
	if len(found) != 4 { // the style, the data, uPlot and the script
		t.Fatalf("%d scripts and styles, expected 4", len(found))
	}
	var data struct{ Policies, Traces []struct{ Name string } }
	fatal.If(t, json.Unmarshal([]byte(found[1][2]), &data))
	names := map[string]bool{}
	for _, p := range append(data.Policies, data.Traces...) {
		names[p.Name] = true
	}
	for i := 3; i < policies+traces; i++ {
		if !names[printable.Line(hostile(i))] {
			t.Errorf("the data lacks %q", hostile(i))
		}
	}
}

// The figures of the data are those of the rows: misses of a cell, × OPT of pooled lines, bytes.
func TestPageData(t *testing.T) {
	page := pageOf(t, rowstest.HandRows(), 0)
	var data struct {
		Policies []struct{ Name string }
		Places   []struct{ P, M []int64 }
		Lines    [][]*float64 // trace, capacity, policy, × OPT, …
	}
	fatal.If(t, json.Unmarshal([]byte(scripts.FindAllStringSubmatch(page, -1)[1][2]), &data))
	want := map[string][]int64{"opt": {40, 20, 10}, "p": {50, 30, 12}, "lru": {60, 40, 15}} // a 1x, a 2x, b 1x
	for i, place := range data.Places {
		if place.P == nil {
			place.P = data.Places[i-1].P
			data.Places[i].P = place.P
		}
		for j, p := range place.P {
			if name := data.Policies[p].Name; place.M[j] != want[name][i] {
				t.Errorf("place %d: %s misses %d, expected %d", i, name, place.M[j], want[name][i])
			}
		}
	}
	pooled := map[string]float64{"opt": 1, "p": math.Cbrt(50. / 40 * 30 / 20 * 12 / 10), "lru": math.Cbrt(60. / 40 * 40 / 20 * 15 / 10)}
	for _, l := range data.Lines {
		if name := data.Policies[int(*l[2])].Name; *l[0] < 0 && *l[1] < 0 && math.Abs(*l[3]/pooled[name]-1) > 1e-4 {
			t.Errorf("%s: × OPT %g, expected %g", name, *l[3], pooled[name])
		}
	}
	for _, text := range []string{"p is the closest to OPT of 2 exact policies: 1.31 × OPT, on average 21 % fewer misses than LRU, on 2 traces, and the lead is not tested for significance.", "same capacity: values</caption>", ">1.31  </text>", "kvreplay leaderboard &#39;a b&#39; --format html", "commit x"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
}

// largest is the page of 50 policies on 30 traces at 20 capacities, with large counts. The board is
// made up, because resampling takes a minute.
func largest(t testing.TB) string {
	const policies, traces, capacities = 50, 30, 20
	rng := rand.New(rand.NewPCG(5, 6))
	figures := func() *board.Figures {
		x, misses := 1+rng.Float64(), 10_000_000+rng.Int64N(80_000_000)
		low, high := x*0.98, x*1.02
		return &board.Figures{Demand: 123_456_789, Steps: 100, ExactFigures: &board.ExactFigures{
			XOpt:    &board.Figure{Value: x, Low: &low, High: &high},
			HitRate: &board.Figure{Value: rng.Float64()}, BytesPerStep: rowstest.Ptr(1e6 * rng.Float64()), Misses: misses,
		}}
	}
	b := &board.Board{Tables: []board.Ranking{{Key: board.MissesKey}}}
	r := &b.Tables[0]
	for i := range traces {
		b.Traces = append(b.Traces, board.TraceInfo{Setting: result.Setting{Trace: plainName(i), TraceDigest: strings.Repeat("0", 64), EntryBytes: rowstest.Ptr(64)}, Demand: 123_456_789, Streams: 1})
		r.Traces = append(r.Traces, plainName(i))
	}
	for c := range capacities {
		r.Capacities = append(r.Capacities, fmt.Sprintf("%gx", 1+float64(c)/4))
	}
	for p := range policies {
		line := board.Line{Rank: fmt.Sprint(p + 1), Letters: "a", Policy: "policy:option=" + plainName(p), Pooled: figures()}
		for range traces {
			line.Traces = append(line.Traces, figures())
		}
		for range capacities {
			line.Capacities = append(line.Capacities, figures())
		}
		r.Ranked = append(r.Ranked, line)
	}
	for _, trace := range r.Traces {
		for c, capacity := range r.Capacities {
			for _, l := range r.Ranked {
				k := 1 + float64(c)/4
				b.Cells = append(b.Cells, board.CellLine{CellRef: board.CellRef{Trace: trace, Capacity: capacity}, Policy: l.Policy, Figures: figures(),
					ExactCell: &board.ExactCell{Kind: board.ExactKind, CapacityOverK: &k, Entries: &k}})
			}
			r.Common = append(r.Common, board.CellRef{Trace: trace, Capacity: capacity})
		}
	}
	// OPT is one of the policies, so that scripts compute × OPT.
	r.Bounds, r.Ranked = r.Ranked[policies-1:], r.Ranked[:policies-1]
	for i := range b.Cells {
		if c := &b.Cells[i]; c.Policy == r.Bounds[0].Policy {
			c.Policy, c.Bound = board.OptPolicy, true
		}
	}
	r.Bounds[0].Policy = board.OptPolicy
	var page bytes.Buffer
	fatal.If(t, render.Page(&page, []render.PageBoard{{Board: b}}, render.PageSource{Command: "kvreplay leaderboard", Version: "v1"}, render.View{}))
	return page.String()
}

func TestPageSize(t *testing.T) {
	if n := len(largest(t)); n >= 1_000_000 {
		t.Errorf("the page of 50 policies, 30 traces and 20 capacities has %d bytes, expected less than 1,000,000", n)
	} else {
		t.Logf("%d bytes", n)
	}
}

// A heat map has the rows of streams, or those of layers if there are none. Rows of requests are
// summed.
func TestPageHeat(t *testing.T) {
	page := pageOf(t, heatRows(), 0)
	var data struct {
		Heat []struct {
			Layers, Heads []int32
			M, D          []int64
		}
		Policies []struct{ Name string }
	}
	fatal.If(t, json.Unmarshal([]byte(scripts.FindAllStringSubmatch(page, -1)[1][2]), &data))
	// OPT, in focus, misses 1 in layer 0 and 2 in layer 1 of each of two requests. p misses 1, 2, 3
	// and 4 in its streams of one request, and 5, 6, 7 and 8 in those of the other.
	want := "[{[0 1] [-1] [2 4] [400 400]} {[0 1] [0 1] [6 8 10 12] [200 200 200 200]}]"
	if got := fmt.Sprint(data.Heat); got != want {
		t.Errorf("heat maps %s of %v, expected %s", got, data.Policies, want)
	}
}

// heatRows are rows of p by stream, with 1 to 8 misses, and of OPT by layer, with 1 or 2.
func heatRows() (rows []result.Row) {
	misses := int64(0)
	for _, request := range []string{"x", "y"} {
		for layer := range int32(2) {
			for head := range int32(2) {
				misses++
				rows = append(rows, rowstest.PartRow(rowstest.Row("a", "p", "1x", 0), request, layer, head, 1, misses))
			}
			rows = append(rows, rowstest.PartRow(rowstest.Row("a", "opt", "1x", 0), request, layer, -1, 2, int64(layer)+1))
		}
	}
	return rows
}
