package prompts

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/tokens"
)

// letters counts a token a letter.
type letters struct{ tokens.Tokenizer }

func (letters) Name() string { return "letters" }

func (letters) Encode(text string) []int { return make([]int, len(text)) }

// sampleOf is a sample whose prompt of n units has cost(n) tokens.
func sampleOf(least, most int, built *int, cost func(n int) int) Sample {
	return Sample{Least: least, Most: most, Prompt: func(n int) Draft {
		*built++
		return Draft{Input: strings.Repeat("x", cost(n))}
	}}
}

// TestFit compares with trying every size. Each unit makes a prompt longer or leaves its length.
func TestFit(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 0))
	m := NewMaker(Manifest{}, letters{}, nil)
	fits := 0
	for trial := range 3000 {
		costs := make([]int, 1+r.IntN(300))
		sum := r.IntN(20)
		for i := range costs {
			sum += r.IntN(1 + trial%40)
			costs[i] = sum
		}
		least := r.IntN(len(costs))
		built := 0
		s := sampleOf(least, len(costs)-1, &built, func(n int) int { return costs[n] })
		budget := r.IntN(sum + 5)
		want := -1
		for n := least; n < len(costs) && costs[n] <= budget; n++ {
			want = n
		}
		f, err := m.Fit(s, budget, r.IntN(2*len(costs)))
		var tight *TightError
		switch {
		case want < 0:
			if !errors.As(err, &tight) {
				t.Fatalf("seed %d trial %d: %v, %v, want a *TightError", seed, trial, f, err)
			}
		case err != nil || f.Units != want || f.Tokens != costs[want] || f.Tokens != len(f.Input):
			t.Fatalf("seed %d trial %d: %+v, %v, want %d units", seed, trial, f, err, want)
		}
		if err == nil {
			fits++
		}
		if built > 30 {
			t.Errorf("seed %d trial %d: %d prompts were built", seed, trial, built)
		}
	}
	if fits < 500 {
		t.Errorf("%d of 3000 trials had a size that fits, expected many", fits)
	}
}

// TestFitProbes checks that Fit builds few prompts of a nearly linear sample from any starting
// size.
func TestFitProbes(t *testing.T) {
	for _, guess := range []int{0, 1, 4321, 4323, 9000} {
		built := 0
		s := sampleOf(1, Unbounded, &built, func(n int) int { return 57 + n*30 + n%3 })
		f, err := NewMaker(Manifest{}, letters{}, nil).Fit(s, 57+4321*30+2, guess)
		if err != nil || f.Units != 4321 || built > 8 {
			t.Errorf("guess %d: %+v, %v after %d prompts", guess, f, err, built)
		}
	}
}
