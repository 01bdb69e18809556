package offline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// beginningOf makes a task: the beginning of a part of a text. A unit is a line.
func beginningOf(t *text, _ int, r *rand.Rand) (*prompts.Sample, error) {
	usable := slices.DeleteFunc(slices.Clone(t.sections), func(x section) bool { return !x.askable() })
	if len(usable) == 0 {
		return nil, fmt.Errorf("%s: no heading with a sentence of 5 to 40 words under it (a heading is a line in capitals, or like Chapter 1)", t.name)
	}
	x, share := pick(r, usable), r.Float64()
	return &prompts.Sample{
		Least: x.to - x.from, Most: len(t.lines),
		Origin: fmt.Sprintf("%s, %s, line %d", t.name, x.heading, x.from+1),
		Prompt: func(n int) prompts.Draft {
			from := t.window(x, n, share)
			question := "What is the first sentence under the heading “" + x.heading + "”" + t.which(x, from, n) + "?"
			return published("multifieldqa_en", t.excerpt(from, n), question, x.first)
		},
	}, nil
}

// askable reports whether the section begins with a sentence of 5 to 40 words.
func (x section) askable() bool {
	n := wordCount(x.first)
	r, _ := utf8.DecodeRuneInString(x.first)
	return n >= 5 && n <= 40 && complete(x.first) && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// window returns the first of n lines that contain a section's beginning. share is the position
// within the possible range.
func (t *text) window(x section, n int, share float64) int {
	lo := max(0, x.to-n)
	hi := min(x.from, len(t.lines)-n)
	return lo + int(share*float64(hi-lo+1))
}

// which distinguishes a section from others with the same heading in the excerpt.
func (t *text) which(x section, from, n int) string {
	place, count := 0, 0
	for _, y := range t.sections {
		if y.heading == x.heading && y.from >= from && y.from < from+n {
			count++
			if y.from <= x.from {
				place++
			}
		}
	}
	if count == 1 {
		return ""
	}
	return fmt.Sprintf(" where it occurs for time %d of %d", place, count)
}

func (t *text) excerpt(from, n int) string {
	return strings.TrimRight(strings.Join(t.lines[from:from+n], ""), "\n")
}

// maxSentences is the largest number of sentences of a summary's reference.
const maxSentences = 12

// summaryOf makes a task: a summary. A unit is a line.
func summaryOf(t *text, budget int, r *rand.Rand) (*prompts.Sample, error) {
	from := pick(r, t.beginnings(budget*bytesPerToken))
	return &prompts.Sample{
		Least: 1, Most: len(t.lines) - from,
		Origin: fmt.Sprintf("%s, from line %d on", t.name, from+1),
		Prompt: func(n int) prompts.Draft {
			return published("gov_report", t.excerpt(from, n), "", t.extract(from, n),
				"a report by a government agency", "an excerpt of a book",
				"the report", "the excerpt", "Report:", "Excerpt:")
		},
	}, nil
}

// beginnings returns the first lines of parts of the text that have enough bytes after them.
// Without headings, parts are paragraphs. The first paragraph's line is always included.
func (t *text) beginnings(enough int) []int {
	at := slice.Map(t.sections, func(x section) int { return x.from })
	if len(at) == 0 {
		at = slice.Map(t.paragraphs, func(p paragraph) int { return p.at })
	}
	rest := make([]int, len(t.lines)+1) // bytes from a line on
	for i := len(t.lines) - 1; i >= 0; i-- {
		rest[i] = rest[i+1] + len(t.lines[i])
	}
	at = slices.DeleteFunc(at, func(line int) bool { return rest[line] < enough })
	if len(at) == 0 {
		return []int{t.paragraphs[0].at}
	}
	return at
}

// extract returns the first sentences of the parts in n lines, evenly thinned to maxSentences.
// Without parts it uses paragraphs.
func (t *text) extract(from, n int) string {
	var sentences []string
	for _, x := range t.sections {
		if x.from >= from && x.to <= from+n && wordCount(x.first) >= 5 && complete(x.first) {
			sentences = append(sentences, x.first)
		}
	}
	for _, p := range t.paragraphs {
		if len(t.sections) == 0 && p.at >= from && p.at < from+n {
			first, _ := splitSentence(plain(p.text))
			sentences = append(sentences, first)
		}
	}
	if len(sentences) == 0 {
		first, _ := splitSentence(plain(t.excerpt(from, n)))
		return first
	}
	kept := min(len(sentences), maxSentences)
	return strings.Join(slice.Map(slice.Indices(kept), func(i int) string { return sentences[i*len(sentences)/kept] }), " ")
}

// countOf makes a task: the number of different paragraphs. A unit is a paragraph, shown for the
// first time or again.
func countOf(t *text, budget int, r *rand.Rand) (*prompts.Sample, error) {
	pool := shuffled(r, t.distinct(maxBytes(budget)))
	if len(pool) < 2 {
		return nil, fmt.Errorf("%s: fewer than two different paragraphs of 30 words or more and %d bytes or less", t.name, maxBytes(budget))
	}
	shown := repeats(r, pool)
	seed := r.Uint64()
	return &prompts.Sample{
		Least: 2, Most: len(shown),
		Origin: t.name,
		Prompt: func(n int) prompts.Draft {
			different := slices.Compact(slices.Sorted(slices.Values(shown[:n])))
			return published("passage_count", numbered("Paragraph", " ", shuffled(random(seed, "", n), shown[:n])), "", strconv.Itoa(len(different)),
				"sourced from Wikipedia", "sourced from a book")
		},
	}, nil
}

// repeats returns all different paragraphs in order, with repeats of earlier ones between. A random
// share of 0.3 to 1 is different.
func repeats(r *rand.Rand, different []string) (shown []string) {
	share := 0.3 + 0.7*r.Float64()
	for used := 0; used < len(different); {
		if used == 0 || float64(used) < share*float64(len(shown)+1) {
			shown = append(shown, different[used])
			used++
		} else {
			shown = append(shown, pick(r, different[:used]))
		}
	}
	return shown
}

// distinct returns the text's paragraphs of at least 30 words, each in one line and once. most
// bounds their bytes.
func (t *text) distinct(most int) []string {
	list := slice.Distinct(t.paragraphs, func(p *paragraph) string { return squeeze(p.text) })
	return slice.Filter(list, func(line string) bool { return wordCount(line) >= 30 && len(line) <= most })
}
