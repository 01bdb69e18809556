package replaytest

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kvreplay/kvreplay/trace"
)

func draw(seed uint64, kind func(*rand.Rand) Options) (Options, *trace.Stream) {
	r := rand.New(rand.NewPCG(seed, 0))
	o := kind(r)
	return o, Stream(r, o)
}

// Streams keep the format's rules, which Checker implements independently.
func TestStreamIsValid(t *testing.T) {
	for seed := range uint64(600) {
		for _, kind := range []func(*rand.Rand) Options{Small, Medium} {
			o, s := draw(seed, kind)
			m := o.Meta(1)
			if e := trace.NewChecker("drawn", &m).First(s); e != nil {
				t.Fatalf("seed %d, %+v: %v", seed, o, e)
			}
			if s.Windows != o.Windows || s.Rows != o.Windows+o.Steps {
				t.Fatalf("seed %d: %d windows of %d rows, want %d of %d", seed, s.Windows, s.Rows, o.Windows, o.Windows+o.Steps)
			}
			for i := range s.Steps {
				if s.SeqLen(i) < 1 || i > 0 && s.Steps[i] <= s.Steps[i-1] {
					t.Fatalf("seed %d: steps %v of a prompt of %d tokens", seed, s.Steps, s.PromptLen)
				}
			}
		}
	}
}

// The same seed draws the same stream.
func TestStreamIsAFunctionOfItsSeed(t *testing.T) {
	for seed := range uint64(50) {
		_, a := draw(seed, Medium)
		_, b := draw(seed, Medium)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: two draws differ", seed)
		}
	}
}

// Every feature that tests rely on occurs among the draws.
func TestStreamCoversItsFeatures(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(300) {
		o, s := draw(seed, Medium)
		for i := range s.Steps {
			list, scores := s.List(i), s.ScoreList(i)
			mark(seen, "gap", i > 0 && s.Steps[i] > s.Steps[i-1]+1)
			mark(seen, "first step above 0", i == s.Windows && s.Steps[i] > 0)
			mark(seen, "shorter than M", len(list) < o.M)
			mark(seen, "window", s.Steps[i] < 0)
			for j, b := range list {
				mark(seen, "pinned listed", o.pins(int(b), s.SeqLen(i)))
				mark(seen, "score tie", j > 0 && scores != nil && scores[j] == scores[j-1])
				mark(seen, "ranked, not ascending", !o.Ascending && j > 0 && b < list[j-1])
			}
		}
	}
	for _, feature := range []string{"gap", "first step above 0", "shorter than M", "window", "pinned listed", "score tie", "ranked, not ascending"} {
		if seen[feature] < 30 {
			t.Errorf("%q occurs %d times in 300 streams", feature, seen[feature])
		}
	}
}

func mark(seen map[string]int, feature string, holds bool) {
	if holds {
		seen[feature]++
	}
}

// Locality has the intended effect: frozen scores repeat the list, and redrawn ones do not.
func TestLocalityIsADial(t *testing.T) {
	overlap := func(locality float64) (same int) {
		r := rand.New(rand.NewPCG(1, 2))
		s := Stream(r, Options{Prompt: 200, Steps: 50, M: 20, Locality: locality})
		for i := 1; i < s.Rows; i++ {
			before := map[int32]bool{}
			for _, b := range s.List(i - 1) {
				before[b] = true
			}
			for _, b := range s.List(i) {
				if before[b] {
					same++
				}
			}
		}
		return same
	}
	redrawn, local, frozen := overlap(0), overlap(0.99), overlap(1)
	if !(redrawn < local && local < frozen) {
		t.Errorf("overlaps of locality 0, 0.99, 1: %d, %d, %d, want them rising", redrawn, local, frozen)
	}
}
