package ruler

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// steps is a sample whose prompt of n units has cost[n] tokens.
type steps struct {
	least, most int
	cost        func(n int) int
	built       int
}

func (s *steps) sizes() (int, int) { return s.least, s.most }

func (s *steps) prompt(n int) draft {
	s.built++
	return draft{input: strings.Repeat("x", s.cost(n))}
}

func length(text string) int { return len(text) }

// TestFit compares with trying every size, where each unit makes a prompt longer or leaves
// it as long.
func TestFit(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 0))
	fits := 0
	for trial := range 3000 {
		costs := make([]int, 1+r.IntN(300))
		sum := r.IntN(20)
		for i := range costs {
			sum += r.IntN(1 + trial%40)
			costs[i] = sum
		}
		least := r.IntN(len(costs))
		s := &steps{least: least, most: len(costs) - 1, cost: func(n int) int { return costs[n] }}
		budget := r.IntN(sum + 5)
		want := -1
		for n := least; n < len(costs) && costs[n] <= budget; n++ {
			want = n
		}
		f, err := fit(s, budget, r.IntN(2*len(costs)), length)
		var tight *tightError
		switch {
		case want < 0 || want == s.most:
			if !errors.As(err, &tight) {
				t.Fatalf("seed %d trial %d: %v, %v, want a *tightError", seed, trial, f, err)
			}
		case err != nil || f.units != want || f.cost != costs[want] || f.cost != len(f.input):
			t.Fatalf("seed %d trial %d: %+v, %v, want %d units", seed, trial, f, err, want)
		}
		if err == nil {
			fits++
		}
		if s.built > 30 {
			t.Errorf("seed %d trial %d: %d prompts were built", seed, trial, s.built)
		}
	}
	if fits < 500 {
		t.Errorf("%d of 3000 trials had a size that fits, expected many", fits)
	}
}

// TestFitProbes: of a nearly linear sample few prompts are built, from wherever it starts.
func TestFitProbes(t *testing.T) {
	for _, guess := range []int{0, 1, 4321, 4323, 9000} {
		s := &steps{least: 1, most: unbounded, cost: func(n int) int { return 57 + n*30 + n%3 }}
		f, err := fit(s, 57+4321*30+2, guess, length)
		if err != nil || f.units != 4321 || s.built > 8 {
			t.Errorf("guess %d: %+v, %v after %d prompts", guess, f, err, s.built)
		}
	}
}
