package board

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func mustCompare(t *testing.T, rows []result.Row, a, b string) *Comparison {
	t.Helper()
	c, err := Compare(rows, a, b, Options{})
	fatal.If(t, err)
	return c
}

// wantVotes checks "wins:losses:ties".
func wantVotes(t *testing.T, what string, v *Votes, want string) {
	t.Helper()
	if got := fmt.Sprintf("%d:%d:%d", v.Wins, v.Losses, v.Ties); got != want {
		t.Errorf("%s: votes %s, want %s", what, got, want)
	}
}

// A stream's misses come from a row of one request and one layer that pools no other rows. A
// layer's row over all requests does not vote, nor does a layer's row over many heads.
func TestStreamMisses(t *testing.T) {
	base := rowstest.Row("a", "p", "1x", 0)
	rows := []result.Row{rowstest.PartRow(base, "x", 0, -1, 1, 3), rowstest.PartRow(base, "x", 1, 2, 1, 5), rowstest.PartRow(base, "", 0, -1, 1, 7), rowstest.PartRow(base, "x", -1, -1, 1, 11), rowstest.PartRow(base, "x", 2, -1, 2, 13)}
	var c cell
	for i := range rows {
		c.addPart(&rows[i])
	}
	got, want := streamMisses(&c), byPart{{Request: "x", Layered: true}: 3, {Request: "x", Layer: 1, Layered: true, Head: 2, Heads: true}: 5}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
}

// TestCompareByHand: p against lru of handRows misses 50/60, 30/40 and 12/15 as much. The product
// is 1/2. The rows are pooled over requests.
func TestCompareByHand(t *testing.T) {
	g := mustCompare(t, rowstest.HandRows(), "p", "lru").Groups[0]
	for i, want := range []float64{50.0 / 60, 30.0 / 40, 12.0 / 15} {
		wantFigure(t, g.Cells[i].Trace+" "+g.Cells[i].Capacity, g.Cells[i].Ratio, want)
	}
	d := g.Pooled
	wantFigure(t, "pooled", d.Ratio, math.Cbrt(0.5))
	if d.MissesA != 92 || d.MissesB != 115 || d.Cells != 3 {
		t.Errorf("pooled %d and %d over %d cells, want 92 and 115 over 3", d.MissesA, d.MissesB, d.Cells)
	}
	if d.Requests != nil || d.Ratio.Low != nil || d.Better != nil {
		t.Error("a test without requests")
	}
	if !strings.Contains(strings.Join(g.Notes, " "), "a (rows pooled over requests, so no test") {
		t.Errorf("notes %q", g.Notes)
	}
}

// TestSignificance: A misses less in all of n requests. Only the observed labels and their
// opposite, of 2ⁿ exchanges, are as far from 1: p = 2 ÷ 2ⁿ. A request that ties doubles both. A
// request that B wins by 1 can be exchanged too, with the same sum or less.
func TestSignificance(t *testing.T) {
	a, b := []int64{10, 21, 30, 41, 45, 50, 12}, []int64{20, 40, 60, 80, 90, 99, 11}
	for _, c := range []struct {
		n      int
		last   int64 // of B
		votes  string
		p      float64
		better string
	}{
		{1, 20, "1:0:0", 1, "n = 1"}, {4, 80, "4:0:0", 2. / 16, "n = 4"}, {5, 90, "5:0:0", 2. / 32, "n = 5"}, {6, 99, "6:0:0", 2. / 64, "p"},
		{7, 12, "6:0:1", 4. / 128, "p"}, {7, 11, "6:1:0", 4. / 128, "p"}, {7, 13, "7:0:0", 2. / 128, "p"},
	} {
		theirs := append(slices.Clone(b[:c.n-1]), c.last)
		d := mustCompare(t, append(rowstest.ByRequest("p", a[:c.n]), rowstest.ByRequest("q", theirs)...), "p", "q").Groups[0].Pooled
		wantVotes(t, fmt.Sprint(c.n, " requests"), d.Requests, c.votes)
		if d.P == nil || math.Abs(*d.P-c.p) > 1e-9 || d.Verdict(d.P, 1) != c.better {
			t.Errorf("%s: p %v and %q, want %v and %q", c.votes, d.P, d.Verdict(d.P, 1), c.p, c.better)
		}
		if (d.Better != nil) != (c.better == "p") {
			t.Errorf("%s: better %v", c.votes, d.Better)
		}
	}
}

// TestTheTestWeighsMisses: A wins eight of nine requests by a little and loses one by far. Its
// misses are 110 to 93. Every exchange leaves the large request ahead, so p is 1. Votes alone would
// call A better: 2 × (1 + 9) ÷ 2⁹ = 0.039.
func TestTheTestWeighsMisses(t *testing.T) {
	a, b := []int64{5, 5, 5, 5, 5, 5, 5, 5, 70}, []int64{6, 6, 6, 6, 6, 6, 6, 6, 45}
	d := mustCompare(t, append(rowstest.ByRequest("p", a), rowstest.ByRequest("q", b)...), "p", "q").Groups[0].Pooled
	wantVotes(t, "pooled", d.Requests, "8:1:0")
	if *d.P != 1 || *d.Ratio.Low >= 1 || *d.Ratio.High <= 1 || d.Verdict(d.P, 1) != "≈" {
		t.Errorf("p %v, interval %v–%v, better %v", *d.P, *d.Ratio.Low, *d.Ratio.High, d.Better)
	}
}

// TestRequestsVoteOnce: over two capacities a request has one vote, with its summed misses. r0 has
// 4+9 to 5+9, r1 8+8 to 8+8, r2 9+1 to 1+2.
func TestRequestsVoteOnce(t *testing.T) {
	var rows []result.Row
	for policy, misses := range map[string][2][]int64{"p": {{4, 8, 9}, {9, 8, 1}}, "q": {{5, 8, 1}, {9, 8, 2}}} {
		for i, capacity := range []string{"1x", "2x"} {
			for _, r := range rowstest.ByRequest(policy, misses[i]) {
				r.Capacity = &capacity
				rows = append(rows, r)
			}
		}
	}
	g := mustCompare(t, rows, "p", "q").Groups[0]
	wantVotes(t, "1x", g.Cells[0].Requests, "1:1:1")
	wantVotes(t, "2x", g.Cells[1].Requests, "1:0:2")
	wantVotes(t, "pooled", g.Pooled.Requests, "1:1:1")
}

// forStream turns a row into that of one stream.
func forStream(r result.Row, request string, layer int32) result.Row {
	r.RequestID, r.LayerID = &request, &layer
	return r
}

// TestStreamsVote: A has 3+9 misses to 5+5 of r0, and 2+2 to 4+2 of r1.
func TestStreamsVote(t *testing.T) {
	var rows []result.Row
	for policy, misses := range map[string][]int64{"p": {3, 9, 2, 2}, "q": {5, 5, 4, 2}} {
		for i, m := range misses {
			rows = append(rows, forStream(rowstest.Row("a", policy, "1x", m), fmt.Sprint("r", i/2), int32(i%2)))
		}
	}
	d := mustCompare(t, rows, "p", "q").Groups[0].Pooled
	wantVotes(t, "streams", d.Streams, "2:1:1")
	wantVotes(t, "requests", d.Requests, "1:1:0")
}

// TestWindowsAtTheirPeak: a policy without capacity is compared where the other has its peak, and
// no other pair is compared there.
func TestWindowsAtTheirPeak(t *testing.T) {
	rows := []result.Row{
		rowstest.Row("a", "window:2", "", 30), rowstest.Row("a", "lru", "peak:window:2", 20), rowstest.Row("a", "lru", "1x", 50), rowstest.Row("a", "lru", "peak:window:3", 15),
		rowstest.Row("a", "opt", "peak:window:2", 10), rowstest.Row("a", "opt", "1x", 40), rowstest.Row("a", "window:3", "", 25),
	}
	g := mustCompare(t, rows, "window:2", "lru").Groups[0]
	if len(g.Cells) != 1 || g.Cells[0].Capacity != "peak:window:2" || refsText(g.Unpaired) != "a 1x" {
		t.Fatalf("cells %+v, unpaired %v", g.Cells, g.Unpaired)
	}
	wantFigure(t, "at the peak", g.Pooled.Ratio, 1.5)
	rowstest.WantNote(t, g.Notes, "window:2: has no capacity: the other was given its peak size")
	if g = mustCompare(t, rows, "lru", "opt").Groups[0]; len(g.Cells) != 1 || g.Cells[0].Capacity != "1x" {
		t.Errorf("lru and opt are compared at %+v", g.Cells)
	}
	if _, err := Compare(rows, "window:2", "window:3", Options{}); err == nil || !strings.Contains(err.Error(), "no trace and capacity has rows of both") {
		t.Errorf("two windows: %v", err)
	}
}

func TestColdIsNotComparedWithWarmed(t *testing.T) {
	rows := []result.Row{rowstest.Row("a", "p", "1x", 10), rowstest.Row("a", "q", "1x", 20)}
	rows[1].Warmup = result.ColdStart
	if _, err := Compare(rows, "p", "q", Options{}); err == nil || !strings.Contains(err.Error(), "only cold starts: replay both with the same --warmup") {
		t.Errorf("error %v", err)
	}
}

func TestColdIsComparedApart(t *testing.T) {
	rows := rowstest.HandRows()
	for _, r := range rowstest.HandRows() {
		r.Trace, r.TraceDigest, r.Warmup = r.Trace+"-cold", "", result.ColdStart
		rows = append(rows, r)
	}
	c := mustCompare(t, rows, "p", "lru")
	if len(c.Groups) != 2 || c.Groups[0].Start != "warmed" || c.Groups[1].Start != "cold" || c.Groups[0].Pooled.Cells != 3 || c.Groups[1].Pooled.Cells != 3 {
		t.Errorf("groups %+v", c.Groups)
	}
}

// TestNoMisses: if one side misses nothing, there is no ratio to pool, but it still has the vote.
func TestNoMisses(t *testing.T) {
	rows := []result.Row{rowstest.Row("a", "p", "1x", 10), rowstest.Row("a", "q", "1x", 20), rowstest.Row("a", "p", "2x", 5), rowstest.Row("a", "q", "2x", 0), rowstest.Row("a", "p", "4x", 0), rowstest.Row("a", "q", "4x", 7)}
	g := mustCompare(t, rows, "p", "q").Groups[0]
	wantFigure(t, "pooled", g.Pooled.Ratio, 0.5)
	wantFigure(t, "4x", g.Cells[2].Ratio, 0)
	if g.Cells[1].Ratio != nil || !strings.Contains(strings.Join(g.Notes, " "), "no misses: 2 cells") {
		t.Errorf("2x: %+v; notes %q", g.Cells[1].Ratio, g.Notes)
	}
}

// TestTiersAreNotCompared: an lru of 4x lies below each of the two caches and is neither of them.
func TestTiersAreNotCompared(t *testing.T) {
	rows := append(rowstest.HandRows(), rowstest.Row("a", "lru", "4x", 7), rowstest.Row("a", "lru", "4x", 9))
	for i := range rows {
		rows[i].Tiers = "dram=lru@4x"
	}
	for i, above := range []string{"lru@1x", "p@1x"} {
		r := &rows[len(rowstest.HandRows())+i]
		r.Tier, r.Above = 1, above
	}
	g := mustCompare(t, rows, "p", "lru").Groups[0]
	if g.Pooled.MissesA != 92 || g.Pooled.MissesB != 115 || len(g.Unpaired) > 0 {
		t.Errorf("%d and %d misses, unpaired %v; want 92 and 115 and none", g.Pooled.MissesA, g.Pooled.MissesB, g.Unpaired)
	}
	rowstest.WantNote(t, g.Notes, "Only the GPU's caches are compared")
}

func TestCompareRefuses(t *testing.T) {
	lossy := append(rowstest.HandRows(), rowstest.Row("a", "lossy", "1x", 9))
	settings := rowstest.HandRows()
	settings[6].Sink = 4
	work := rowstest.HandRows()
	work[6].Steps, work[6].DemandMean = 5, 20
	for _, c := range []struct {
		rows []result.Row
		a, b string
		want string
	}{
		{rowstest.HandRows(), "p", "p", "both names are the same policy"},
		{lossy, "p", "lossy", "misses of exact and lossy policies cannot be compared"},
		{[]result.Row{rowstest.Row("a", "lossy", "1x", 9), rowstest.LossyRow("a", "snapkv", "1x", 30, 0.5)}, "snapkv", "lossy", "snapkv and lossy are lossy"},
		{settings, "p", "lru", "sink=4"},
		{work, "p", "lru", "replayed different work: steps 10 and 5"},
		{[]result.Row{rowstest.Row("a", "p", "1x", 1), rowstest.Row("a", "q", "2x", 1)}, "p", "q", "only a 1x 2x"},
	} {
		if _, err := Compare(c.rows, c.a, c.b, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: error %v, want %q", c.a, c.b, err, c.want)
		}
	}
	if _, err := Compare(settings, "opt", "lru", Options{}); err != nil {
		t.Errorf("a setting of a third policy: %v", err)
	}
	var unknown *UnknownPolicy
	if _, err := Compare(rowstest.HandRows(), "lru", "lrv", Options{}); !errors.As(err, &unknown) || unknown.Name != "lrv" || !slices.Equal(unknown.Known, []string{"lru", "opt", "p"}) {
		t.Errorf("unknown policy: %v", err)
	}
}

// TestCompareIsSymmetric: exchanging A and B inverts ratios and swaps votes. The order of rows
// changes nothing.
func TestCompareIsSymmetric(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		n := 5 + rng.IntN(8)
		a, b := make([]int64, n), make([]int64, n)
		for i := range a {
			a[i], b[i] = 1+rng.Int64N(60), 1+rng.Int64N(90)
		}
		rows := append(rowstest.ByRequest("p", a), rowstest.ByRequest("q", b)...)
		d, e := mustCompare(t, rows, "p", "q").Groups[0].Pooled, mustCompare(t, rows, "q", "p").Groups[0].Pooled
		if math.Abs(d.Ratio.Value*e.Ratio.Value-1) > 1e-8 || d.Requests.Wins != e.Requests.Losses || *d.P != *e.P || (d.Better == nil) != (e.Better == nil) {
			t.Errorf("seed %d: %+v and %+v", seed, d, e)
		}
		rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		if f := mustCompare(t, rows, "p", "q").Groups[0].Pooled; *f.Ratio.Low != *d.Ratio.Low || *f.Requests != *d.Requests || *f.P != *d.P {
			t.Errorf("seed %d: the order of rows matters", seed)
		}
	}
}

func TestComparisonFieldsAreDocumented(t *testing.T) {
	text := rowstest.Document(t, "BOARD.md")
	for _, name := range rowstest.JSONNames(reflect.TypeFor[Comparison]()) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("BOARD.md does not document `%s`", name)
		}
	}
}
