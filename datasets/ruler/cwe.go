package ruler

import (
	"slices"
	"strconv"
	"strings"
)

// Common words extraction (scripts/data/synthetic/common_words_extraction.py): n
// distinct words, of which the first 10 come more often, shuffled and numbered.
const cweCommon = 10

// repeats are how often words come, and how many distinct ones a solved example has.
type repeats struct{ common, rest, example int }

var (
	cweRepeats      = repeats{common: 30, rest: 3}
	cweExample      = repeats{common: 10, rest: 3, example: 40}
	cweShortRepeats = repeats{common: 6, rest: 1} // below cweShort tokens
	cweShortExample = repeats{common: 3, rest: 1, example: 20}
)

const cweShort = 4096

// common is a sample of common words extraction.
type common struct {
	draws   draws
	words   []string // all that there are, in the order of this sample
	repeats repeats
	example string
}

func newCommon(m *maker, length, _ int, d draws) (sample, error) {
	c := &common{draws: d, words: m.words.all, repeats: cweRepeats}
	solved := cweExample
	if length < cweShort {
		c.repeats, solved = cweShortRepeats, cweShortExample
	}
	list := c.shuffled("example")[:solved.example]
	f := cweDraft(list, solved, d, "example order")
	c.example = f.input + f.prefix + " " + numbered(f.outputs) + "\n"
	c.words = c.shuffled("words")
	return c, nil
}

// shuffled returns the words in another order, each once.
func (c *common) shuffled(kind string) []string {
	list := slices.Clone(c.words)
	shuffle(c.draws.stream(kind, 0), list)
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(word string) bool {
		again := seen[word]
		seen[word] = true
		return again
	})
}

// sizes: with fewer words than the example has, hardly any would not be common.
func (c *common) sizes() (least, most int) { return cweShortExample.example, len(c.words) }

func (c *common) prompt(n int) draft {
	d := cweDraft(c.words[:n], c.repeats, c.draws, "order")
	d.input = c.example + d.input
	return d
}

// cweDraft is the prompt of the words, the common ones first.
func cweDraft(list []string, r repeats, d draws, kind string) draft {
	common, rest := list[:cweCommon], list[cweCommon:]
	all := slices.Concat(slices.Repeat(common, r.common), slices.Repeat(rest, r.rest))
	shuffle(d.stream(kind, len(list)), all)
	return draft{
		input:   fill(cweTemplate.input, "context", numbered(all)),
		prefix:  cweTemplate.prefix,
		outputs: common,
	}
}

// numbered returns "1. a 2. b 3. c".
func numbered(list []string) string {
	var text strings.Builder
	for i, w := range list {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(strconv.Itoa(i + 1))
		text.WriteString(". ")
		text.WriteString(w)
	}
	return text.String()
}
