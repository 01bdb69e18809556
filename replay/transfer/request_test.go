package transfer

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Blocks of four tokens, K and V apart: 7 blocks in 3 runs are 14 pieces alone, 6 merged;
// the bytes stay.
func TestLayout(t *testing.T) {
	l := Layout{EntryBytes: 512, BlockTokens: 4, Fragments: 2}
	if got, want := l.Request(7, 3), (Request{14, 7 * 2048, 1}); got != want {
		t.Errorf("alone %+v, expected %+v", got, want)
	}
	l.Merge = true
	if got, want := l.Request(7, 3), (Request{6, 7 * 2048, 1}); got != want {
		t.Errorf("merged %+v, expected %+v", got, want)
	}
	// Five tokens of each of 8 streams: entries, not blocks.
	if got, want := l.WriteBack(8, 5), (Request{16, 8 * 5 * 512, 1}); got != want {
		t.Errorf("written back merged %+v, expected %+v", got, want)
	}
	l.Merge = false
	if got, want := l.WriteBack(8, 5), (Request{80, 8 * 5 * 512, 1}); got != want {
		t.Errorf("written back alone %+v, expected %+v", got, want)
	}
	if l.Request(0, 0) != (Request{}) || l.WriteBack(0, 3) != (Request{}) || l.WriteBack(3, 0) != (Request{}) {
		t.Error("nothing makes a launch")
	}
}

func TestRuns(t *testing.T) {
	blocks := []int32{0, 1, 2, 5, 7, 8, 20}
	if got := Runs(blocks); got != 4 {
		t.Errorf("%d runs, expected 4", got)
	}
	if got, want := RunLengths(blocks, nil), []int64{0, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("lengths %v, expected %v", got, want)
	}
	if Runs(nil) != 0 || len(RunLengths(nil, nil)) != 0 {
		t.Error("no blocks have runs")
	}
}

// Priced by run length, the pieces and bytes of a request stay, and its launch is one.
func TestRequestsByLength(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	var counts []int64
	for range 200 {
		var blocks []int32
		for x := range int32(300) {
			if r.IntN(3) > 0 {
				blocks = append(blocks, x)
			}
		}
		l := Layout{EntryBytes: 656, Merge: true}
		counts = RunLengths(blocks, counts)
		var sum Request
		for _, q := range l.Requests(counts, nil) {
			sum = sum.Add(q)
		}
		if want := l.Request(int64(len(blocks)), Runs(blocks)); sum != want {
			t.Fatalf("%+v by length, %+v at once", sum, want)
		}
	}
}

// With regimes, mean sizes mislead: 100 single blocks and one run of 100 are 101 pieces of
// 2 blocks on average, below a regime that the run alone is in.
func TestByLengthIsExact(t *testing.T) {
	c := &Curve{Regimes: []Regime{{Rate: 1e9}, {From: 10000, Rate: 10e9}}}
	l := Layout{EntryBytes: 1000, Merge: true}
	counts := make([]int64, 101)
	counts[1], counts[100] = 100, 1
	near(t, "apart", CostOf(c, l.Requests(counts, nil)).Seconds, 100e-6+10e-6)
	near(t, "mean", c.Time(l.Request(200, 101)), 200e-6)
}
