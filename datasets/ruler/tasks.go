package ruler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// The wordings are NVIDIA/RULER's to the letter (scripts/data/synthetic/constants.py, niah.py and
// qa.py. Copyright NVIDIA Corporation, Apache-2.0). Scores and traces of other wordings are not
// comparable. "assgined" is RULER's spelling.

// template is the text of a task with {names} to fill in.
type template struct{ input, prefix string }

const (
	noiseLine  = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
	niahNeedle = "One of the special magic %s for %s is: %s."
)

// niahMany asks for several values, niahOne for a single one.
var (
	niahMany = template{
		input: "Some special magic {type} are hidden within the following text. Make sure to memorize it. I will quiz you about the {type} afterwards.\n" +
			"{context}\n" +
			"What are all the special magic {type} for {query} mentioned in the provided text?",
		prefix: " The special magic {type} for {query} mentioned in the provided text are",
	}
	niahOne = template{
		input: "A special magic {type} is hidden within the following text. Make sure to memorize it. I will quiz you about the {type} afterwards.\n" +
			"{context}\n" +
			"What is the special magic {type} for {query} mentioned in the provided text?",
		prefix: " The special magic {type} for {query} mentioned in the provided text is",
	}
	vtTemplate = template{
		input: "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n" +
			"{context}\n" +
			"Question: Find all variables that are assigned the value {query} in the text above.",
		prefix: " Answer: According to the chain(s) of variable assignment in the text above, {count} variables are assgined the value {query}, they are: ",
	}
	cweTemplate = template{
		input: "Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that appear most often.\n" +
			"{context}\n" +
			"Question: What are the 10 most common words in the above list?",
		prefix: " Answer: The top 10 words that appear most often in the list are:",
	}
	fweTemplate = template{
		input: "Read the following coded text and track the frequency of each coded word. Find the three most frequently appeared coded words. " +
			"{context}\n" +
			"Question: Do not provide any explanation. Please ignore the dots '....'. What are the three most frequently appeared words in the above coded text?",
		prefix: " Answer: According to the coded text above, the three most frequently appeared words are:",
	}
	qaTemplate = template{
		input: "Answer the question based on the given documents. Only give me the answer and do not output any other words.\n\n" +
			"The following are given documents.\n\n" +
			"{context}\n\n" +
			"Answer the question based on the given documents. Only give me the answer and do not output any other words.\n\n" +
			"Question: {query}",
		prefix: " Answer:",
	}
)

// qaDocument is the form of a document, with its number from 1.
const qaDocument = "Document %d:\n%s"

// fill replaces {names} by values. They are given in turn.
func fill(text string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		pairs[i] = "{" + pairs[i] + "}"
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// Variable tracking (scripts/data/synthetic/variable_tracking.py): one chain of hops assignments in
// noise, after a solved example.
const (
	vtHops          = 4
	vtLetters       = 5   // of a variable's name
	vtExampleLetter = 3   // of one in the example
	vtLeastNoise    = 5   // least number of lines of noise: one position for each assignment
	vtExampleTokens = 500 // the example without its answer is the largest of at most this many tokens, or the least
)

// newChain draws a chain and a solved example. They share no name or value.
func newChain(m *maker, _, _ int, d draws) (prompts.Sample, error) {
	seen := make(map[string]bool)
	s := makeChain(d, seen, vtLetters)
	solved := d
	solved.name += "/example"
	e := makeChain(solved, seen, vtExampleLetter)
	example := e.Prompt(vtLeastNoise)
	if f, err := m.Fit(e, vtExampleTokens, 0); err == nil {
		example = f.Draft
	}
	return after(example.Input+example.Prefix+" "+strings.Join(example.Outputs, " ")+"\n\n", s), nil
}

// makeChain draws names and a value that are not in seen. Its prompt has the assignments in order,
// each before a random line of noise.
func makeChain(d draws, seen map[string]bool, length int) prompts.Sample {
	r := d.stream("chain", 0)
	value := unused(seen, func() string { return strconv.Itoa(10_000 + r.IntN(89_999)) })
	var names, lines []string // variables, VAR A = 12345, VAR B = VAR A , …
	for i := range vtHops + 1 {
		names = append(names, unused(seen, func() string { return letters(r, 'A', length) }))
		if i == 0 {
			lines = append(lines, fmt.Sprintf("VAR %s = %s", names[i], value))
			continue
		}
		lines = append(lines, fmt.Sprintf("VAR %s = VAR %s ", names[i], names[i-1])) // the space is RULER's
	}
	return prompts.Sample{Least: vtLeastNoise, Most: prompts.Unbounded, Prompt: func(n int) prompts.Draft {
		return vtDraft(names, value, lines, n, d)
	}}
}

func vtDraft(names []string, value string, lines []string, n int, d draws) prompts.Draft {
	positions := distinct(d.stream("positions", n), n, len(lines))
	slices.Sort(positions)
	context := strings.Join(insert(slices.Repeat([]string{noiseLine}, n), lines, positions), "\n")
	return prompts.Draft{
		Input:   fill(vtTemplate.input, "query", value, "context", context),
		Prefix:  fill(vtTemplate.prefix, "query", value, "count", strconv.Itoa(len(names))),
		Outputs: names,
	}
}

// after returns the sample with a solved example before its prompts.
func after(example string, s prompts.Sample) prompts.Sample {
	prompt := s.Prompt
	s.Prompt = func(n int) prompts.Draft {
		d := prompt(n)
		d.Input = example + d.Input
		return d
	}
	return s
}

// Common words extraction (scripts/data/synthetic/common_words_extraction.py): n distinct words,
// shuffled and numbered. The first 10 occur more often.
const cweCommon = 10

// repeats are the numbers of occurrences of words. example is the number of distinct words of a
// solved example.
type repeats struct{ common, rest, example int }

var (
	cweRepeats      = repeats{common: 30, rest: 3}
	cweExample      = repeats{common: 10, rest: 3, example: 40}
	cweShortRepeats = repeats{common: 6, rest: 1} // below cweShort tokens
	cweShortExample = repeats{common: 3, rest: 1, example: 20}
)

const cweShort = 4096

// newCommon draws an order of all words. With fewer words than in the example, hardly any word
// would not be common.
func newCommon(m *maker, length, _ int, d draws) (prompts.Sample, error) {
	asked, solved := cweRepeats, cweExample
	if length < cweShort {
		asked, solved = cweShortRepeats, cweShortExample
	}
	example := cweDraft(distinctWords(m.words.all, d.stream("example", 0))[:solved.example], solved, d, "example order")
	words := distinctWords(m.words.all, d.stream("words", 0))
	return after(example.Input+example.Prefix+" "+numbered(example.Outputs)+"\n", prompts.Sample{
		Least: cweShortExample.example, Most: len(words),
		Prompt: func(n int) prompts.Draft { return cweDraft(words[:n], asked, d, "order") },
	}), nil
}

// distinctWords returns the words in another order, each once.
func distinctWords(words []string, r *rand.Rand) []string {
	words = slices.Clone(words)
	shuffle(r, words)
	return slice.Distinct(words, func(word *string) string { return *word })
}

// cweDraft returns the prompt of the words, the common ones first.
func cweDraft(list []string, r repeats, d draws, kind string) prompts.Draft {
	common, rest := list[:cweCommon], list[cweCommon:]
	all := slices.Concat(slices.Repeat(common, r.common), slices.Repeat(rest, r.rest))
	shuffle(d.stream(kind, len(list)), all)
	return prompts.Draft{Input: fill(cweTemplate.input, "context", numbered(all)), Prefix: cweTemplate.prefix, Outputs: common}
}

func numbered(list []string) string {
	return strings.Join(slice.Map(slice.Indices(len(list)), func(i int) string { return strconv.Itoa(i+1) + ". " + list[i] }), " ")
}

// Frequent words extraction (scripts/data/synthetic/freq_words_extraction.py): coded words whose
// counts follow Zipf's law with exponent 2, ⌊n / (rank² ζ(2))⌋ for each rank. Rank 1 is written as
// dots. Ranks 2 … 4 are the answer.
const (
	fweLetters    = 6
	fweAnswers    = 3
	fweLengthWord = 50 // tokens of the length per word of the vocabulary
	fweLeastWords = fweAnswers + 3

	// fweLeast is the least n at which rank 4 certainly occurs more often than rank 5: n (1/16 − 1/25)
	// / ζ(2) ≥ 1.
	fweLeast = 74
)

const zeta2 = math.Pi * math.Pi / 6

func newFrequent(_ *maker, length, _ int, d draws) (prompts.Sample, error) {
	words := []string{"..."}
	r := d.stream("words", 0)
	seen := make(map[string]bool)
	for len(words) < max(length/fweLengthWord, fweLeastWords) {
		words = append(words, unused(seen, func() string { return letters(r, 'a', fweLetters) }))
	}
	prompt := func(n int) prompts.Draft { return fweDraft(words, n, d) }
	return prompts.Sample{Least: fweLeast, Most: prompts.Unbounded, Prompt: prompt}, nil
}

func fweDraft(words []string, n int, d draws) prompts.Draft {
	var all []string
	for i, w := range words {
		rank := float64(i + 1)
		all = append(all, slices.Repeat([]string{w}, int(float64(n)/(rank*rank*zeta2)))...)
	}
	shuffle(d.stream("order", n), all)
	context := strings.Join(all, " ")
	return prompts.Draft{Input: fill(fweTemplate.input, "context", context), Prefix: fweTemplate.prefix, Outputs: words[1 : 1+fweAnswers]}
}
