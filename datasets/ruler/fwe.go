package ruler

import (
	"math"
	"slices"
	"strings"
)

// Frequent words extraction (scripts/data/synthetic/freq_words_extraction.py): coded
// words whose counts follow Zipf's law with exponent 2, ⌊n / (rank² ζ(2))⌋ of each rank.
// Rank 1 is written as dots; ranks 2 … 4 are the answer.
const (
	fweLetters    = 6
	fweAnswers    = 3
	fweLengthWord = 50 // the vocabulary has one word for so many tokens of the length
	fweLeastWords = fweAnswers + 3

	// fweLeast is the least n at which rank 4 certainly comes more often than rank 5:
	// n (1/16 − 1/25) / ζ(2) ≥ 1.
	fweLeast = 74
)

const zeta2 = math.Pi * math.Pi / 6

// frequent is a sample of frequent words extraction.
type frequent struct {
	draws draws
	words []string // by rank
}

func newFrequent(_ *maker, length, _ int, d draws) (sample, error) {
	f := &frequent{draws: d, words: []string{"..."}}
	r := d.stream("words", 0)
	seen := make(map[string]bool)
	for len(f.words) < max(length/fweLengthWord, fweLeastWords) {
		f.words = append(f.words, unused(seen, func() string { return letters(r, 'a', fweLetters) }))
	}
	return f, nil
}

func (f *frequent) sizes() (least, most int) { return fweLeast, unbounded }

func (f *frequent) prompt(n int) draft {
	var all []string
	for i, w := range f.words {
		rank := float64(i + 1)
		all = append(all, slices.Repeat([]string{w}, int(float64(n)/(rank*rank*zeta2)))...)
	}
	shuffle(f.draws.stream("order", n), all)
	return draft{
		input:   fill(fweTemplate.input, "context", strings.Join(all, " ")),
		prefix:  fweTemplate.prefix,
		outputs: f.words[1 : 1+fweAnswers],
	}
}
