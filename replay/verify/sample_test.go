package verify

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// rowsOf makes n rows of each policy and lists their positions.
func rowsOf(n int, policies ...string) (rows []result.Row, among []int) {
	for range n {
		for _, p := range policies {
			among = append(among, len(rows))
			rows = append(rows, result.Row{Policy: p})
		}
	}
	return rows, among
}

func TestSample(t *testing.T) {
	rows, among := rowsOf(25, "a", "b", "c", "d")
	a, again, other := sample(rows, among, 10, 1), sample(rows, among, 10, 1), sample(rows, among, 10, 2)
	if !slices.Equal(a, again) || slices.Equal(a, other) {
		t.Errorf("seed 1: %v and %v; seed 2: %v", a, again, other)
	}
	if len(a) != 10 || !slices.IsSorted(a) || len(slices.Compact(slices.Clone(a))) != 10 || a[9] >= 100 {
		t.Errorf("sample %v", a)
	}
	for _, c := range []struct{ n, k, want int }{{25, 0, DefaultSample}, {25, All, 100}, {25, 3, 4}, {3, 20, 12}, {3, 11, 11}, {0, 5, 0}} {
		rows, among := rowsOf(c.n, "a", "b", "c", "d")
		if got := len(sample(rows, among, c.k, 0)); got != c.want {
			t.Errorf("%d of 4 × %d: drew %d, expected %d", c.k, c.n, got, c.want)
		}
	}
}

// Every sample includes every policy, for any number of its rows and any seed.
func TestSampleHasEveryPolicy(t *testing.T) {
	rows, _ := rowsOf(500, "a", "b")
	for n := range 30 {
		rows = append(rows, result.Row{Policy: fmt.Sprint(n)})
	}
	var among []int
	for i := range rows {
		among = append(among, i)
	}
	for seed := range uint64(50) {
		seen := map[string]int{}
		for _, i := range sample(rows, among, DefaultSample, seed) {
			seen[rows[i].Policy]++
		}
		if len(seen) != 32 {
			t.Fatalf("seed %d: rows of %d policies, expected all 32", seed, len(seen))
		}
	}
}

// TestSampleIsFair checks 4000 seeds. Each of 8 rows is drawn in half of the samples of 4, to
// within six standard deviations (√(4000/4) = 32). Every sample has two rows of each policy.
func TestSampleIsFair(t *testing.T) {
	rows, among := rowsOf(4, "a", "b")
	drawn := make([]int, 8)
	for seed := range uint64(4000) {
		of := map[string]int{}
		for _, i := range sample(rows, among, 4, seed) {
			drawn[i]++
			of[rows[i].Policy]++
		}
		if of["a"] != 2 || of["b"] != 2 {
			t.Fatalf("seed %d: %v", seed, of)
		}
	}
	for i, n := range drawn {
		if n < 2000-6*32 || n > 2000+6*32 {
			t.Errorf("row %d is in %d of 4000 samples, expected about 2000", i, n)
		}
	}
}
