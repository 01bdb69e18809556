package slice

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// By hand: 9 of 10 values are at most 9, and half of them at most 5.
func TestQuantile(t *testing.T) {
	ten := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for share, want := range map[float64]float64{0: 1, 0.1: 1, 0.5: 5, 0.51: 6, 0.9: 9, 0.95: 10, 1: 10} {
		if got := Quantile(ten, share); got != want {
			t.Errorf("quantile %g is %g, expected %g", share, got, want)
		}
	}
	if got := Quantile([]float64{7}, 0.5); got != 7 {
		t.Errorf("the median of 7 is %g", got)
	}
}

// Sort orders as slices.SortFunc does.
func TestSort(t *testing.T) {
	type pair struct{ a, b int }
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		list := make([]pair, r.IntN(300))
		for i := range list {
			list[i] = pair{r.IntN(20), i}
		}
		compare := func(x, y pair) int { return cmp.Or(x.a-y.a, y.b-x.b) }
		want := slices.Clone(list)
		slices.SortFunc(want, compare)
		if Sort(list, compare); !slices.Equal(list, want) {
			t.Fatalf("seed %d: %v", seed, list)
		}
	}
}

func TestSums(t *testing.T) {
	list := []int{3, 1, 4, 1, 5}
	odd := func(x int) bool { return x%2 == 1 }
	if got := Filter(list, odd); !slices.Equal(got, []int{3, 1, 1, 5}) {
		t.Errorf("odd numbers %v", got)
	}
	if got := Runs([]int{3, 3, 1, 3}, func(a, b int) bool { return a == b }); fmt.Sprint(got) != "[[3 3] [1] [3]]" {
		t.Errorf("runs %v", got)
	}
	if got := Add([]int{1, 1}, list...); !slices.Equal(got, []int{1, 1, 3, 4, 5}) {
		t.Errorf("missing numbers added: %v", got)
	}
	if got := Indices(3); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("indices %v", got)
	}
	if n := Count(list, odd); n != 4 {
		t.Errorf("%d odd numbers", n)
	}
	if sum := Sum(list, func(x int) float64 { return float64(x) / 2 }); sum != 7 {
		t.Errorf("the halves sum to %g", sum)
	}
}
