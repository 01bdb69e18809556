package ruler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

// TestEverySample checks the invariants of rows for each task. It uses a short length, RULER's
// shortest length, and a model's own tokenizer.
func TestEverySample(t *testing.T) {
	small, err := tokens.Open("../tokens/testdata/llama3.json")
	fatal.If(t, err)
	type setting struct {
		length, samples int
		tokenizer       tokens.Tokenizer
	}
	settings := []setting{{2048, 4, counter()}, {4096, 2, counter()}, {6000, 1, small}}
	if testing.Short() {
		settings = []setting{{2048, 1, counter()}}
	}
	for _, c := range settings {
		o := options(c.length, c.samples, "all")
		o.Tokenizer = c.tokenizer
		rows, m := mustMake(t, o)
		if len(rows) != 13*c.samples || len(m.Tasks) != 13 || m.Tokenizer != c.tokenizer.Name() {
			t.Fatalf("%d rows, manifest %+v", len(rows), m)
		}
		maker := loaded(t, o)
		ids := make(map[string]bool)
		for i, r := range rows {
			t.Run(r.ID, func(t *testing.T) {
				checkRow(t, r, c.length, c.tokenizer)
				checkLargest(t, maker, r)
				checkTask(t, r)
			})
			if r.Index != i%c.samples || ids[r.ID] {
				t.Errorf("row %d: index %d, id %s", i, r.Index, r.ID)
			}
			ids[r.ID] = true
		}
	}
}

// checkRow: the length law, and the keys that all rows have.
func checkRow(t *testing.T, r *prompts.Row, length int, tok tokens.Tokenizer) {
	if got := len(tok.Encode(r.Input+r.AnswerPrefix)) + r.MaxNewTokens; got != r.Length || got > length {
		t.Errorf("length %d, stated %d, asked for %d", got, r.Length, length)
	}
	want := map[byte]int{'n': 128, 'v': 30, 'c': 120, 'f': 50, 'q': 32}[r.Task[0]]
	if r.MaxNewTokens != want || r.MaxLength != length || r.Benchmark != "ruler" || !r.ChatTemplate || r.Seed != 42 || r.Tokenizer != tok.Name() {
		t.Errorf("row %+v", r)
	}
	if located := strings.HasPrefix(r.Task, "niah"); located != (r.TokenPositionAnswer != nil) {
		t.Errorf("token_position_answer %v", r.TokenPositionAnswer)
	}
	if essay := slices.Contains([]string{"niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multivalue", "niah_multiquery"}, r.Task); essay != strings.Contains(r.Substitute, "Opticks") {
		t.Errorf("substitute %q", r.Substitute)
	}
	if strings.HasPrefix(r.Task, "qa") != strings.Contains(r.Substitute, "Go's standard library") {
		t.Errorf("substitute %q", r.Substitute)
	}
}

// checkLargest: with one unit more the prompt does not fit, and a size has one prompt.
func checkLargest(t *testing.T, m *maker, r *prompts.Row) {
	task := taskNamed(r.Task)
	s, err := task.sample(m, r.MaxLength, r.Index, m.draws(task, r.Index))
	fatal.If(t, err)
	f, err := m.Fit(s, m.budget(task, r.MaxLength), 0)
	fatal.If(t, err)
	if s.Prompt(f.Units).Input != f.Input || f.Input != r.Input {
		t.Error("the same size gives another prompt")
	}
	d := s.Prompt(f.Units + 1)
	if cost := m.Count(d.Input + d.Prefix); cost <= m.budget(task, r.MaxLength) {
		t.Errorf("%d units were taken, one more takes %d tokens and fits in %d", f.Units, cost, m.budget(task, r.MaxLength))
	}
}

var needle = regexp.MustCompile(`One of the special magic (numbers|uuids) for (\S+(?: [^:]+?)?) is: (\S+)\.`)

// checkTask checks that the prompt has the answers as often as it should, and nowhere else.
func checkTask(t *testing.T, r *prompts.Row) {
	switch {
	case strings.HasPrefix(r.Task, "niah"):
		checkNiah(t, r)
	case r.Task == "vt":
		checkChain(t, r)
	case r.Task == "cwe":
		checkCommon(t, r)
	case r.Task == "fwe":
		checkFrequent(t, r)
	default:
		checkQuestion(t, r)
	}
}

func checkNiah(t *testing.T, r *prompts.Row) {
	found := needle.FindAllStringSubmatch(r.Input, -1)
	planted := map[string]int{"niah_single_1": 1, "niah_single_2": 1, "niah_single_3": 1, "niah_multikey_1": 4, "niah_multivalue": 4, "niah_multiquery": 4}[r.Task]
	if planted == 0 && len(found) < 20 || planted > 0 && len(found) != planted {
		t.Errorf("%d needles, want %d", len(found), planted)
	}
	value := regexp.MustCompile(`^[1-9]\d{6}$`)
	if r.Task == "niah_single_3" || r.Task == "niah_multikey_3" {
		value = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	}
	want := map[string]int{"niah_multivalue": 4, "niah_multiquery": 4}[r.Task]
	if len(r.Outputs) != max(want, 1) {
		t.Errorf("answers %v", r.Outputs)
	}
	question := r.Input[strings.LastIndexByte(r.Input, '\n'):]
	for _, o := range r.Outputs {
		if strings.Count(r.Input, o) != 1 || !value.MatchString(o) {
			t.Errorf("answer %q is there %d times", o, strings.Count(r.Input, o))
		}
		for _, n := range found {
			if n[3] == o && (!strings.Contains(question, n[2]) || !strings.Contains(r.AnswerPrefix, n[2])) {
				t.Errorf("answer %q has key %q, asked for is %q", o, n[2], question)
			}
		}
	}
	tok, _ := tokens.Open("")
	if r.Tokenizer == tok.Name() {
		if before := r.Input[:strings.Index(r.Input, r.Outputs[0])]; *r.TokenPositionAnswer != len(tok.Encode(before)) {
			t.Errorf("token_position_answer %d, want %d", *r.TokenPositionAnswer, len(tok.Encode(before)))
		}
	}
}

func checkChain(t *testing.T, r *prompts.Row) {
	text := between(t, r.Input, "following text.\n\n", "\nQuestion: Find all variables")
	value := between(t, r.AnswerPrefix, "assgined the value ", ", they are: ")
	assignments := regexp.MustCompile(`(?m)^VAR (\S+) = (?:VAR )?(\S+?) ?$`).FindAllStringSubmatch(text, -1)
	holds := value
	for i, a := range assignments {
		if a[1] != r.Outputs[i] || a[2] != holds || len(a[1]) != 5 {
			t.Errorf("assignment %d is %q, want %s = %s", i, a[0], r.Outputs[i], holds)
		}
		holds = a[1]
	}
	if len(assignments) != 5 || len(r.Outputs) != 5 || strings.Count(r.Input, value) != 2 {
		t.Errorf("%d assignments, value %s is there %d times", len(assignments), value, strings.Count(r.Input, value))
	}
	if example := r.Input[:strings.LastIndex(r.Input, "Memorize")]; !regexp.MustCompile(`they are:  [A-Z]{3}( [A-Z]{3}){4}\n\n$`).MatchString(example) {
		t.Errorf("the solved example ends %q", example[max(0, len(example)-80):])
	}
}

// numberedWords counts the words of a numbered list and checks the numbers.
func numberedWords(t *testing.T, list string) map[string]int {
	counts := make(map[string]int)
	n := 0
	for item := range strings.SplitSeq(regexp.MustCompile(` ?\d+\. `).ReplaceAllString(list, "\n")[1:], "\n") {
		counts[item]++
		n++
	}
	if !strings.Contains(list, " "+strconv.Itoa(n)+". ") {
		t.Errorf("%d words, the last number is another: %q", n, list[max(0, len(list)-40):])
	}
	return counts
}

func checkCommon(t *testing.T, r *prompts.Row) {
	often, seldom := 30, 3
	example := repeats{common: 10, rest: 3, example: 40}
	if r.MaxLength < 4096 {
		often, seldom = 6, 1
		example = repeats{common: 3, rest: 1, example: 20}
	}
	counts := numberedWords(t, between(t, r.Input, "appear most often.\n", "\nQuestion:"))
	for w, n := range counts {
		if want := map[bool]int{true: often, false: seldom}[slices.Contains(r.Outputs, w)]; n != want {
			t.Errorf("%q is there %d times, want %d", w, n, want)
		}
	}
	if len(r.Outputs) != 10 || len(counts) <= 20 {
		t.Errorf("%d answers among %d words", len(r.Outputs), len(counts))
	}
	solved := r.Input[:strings.LastIndex(r.Input, "Below is")]
	if !strings.Contains(solved, "in the list are: 1. ") || !strings.HasSuffix(solved, "\n") || strings.Count(r.Input, "Below is") != 2 {
		t.Errorf("the solved example ends %q", solved[max(0, len(solved)-80):])
	}
	shown := numberedWords(t, between(t, solved, "appear most often.\n", "\nQuestion:"))
	answers := numberedWords(t, strings.TrimSuffix(solved[strings.LastIndex(solved, " 1. ")+1:], "\n"))
	for w, n := range shown {
		if want := map[bool]int{true: example.common, false: example.rest}[answers[w] > 0]; n != want {
			t.Errorf("%q is there %d times in the solved example, want %d", w, n, want)
		}
	}
	if len(shown) != example.example || len(answers) != 10 {
		t.Errorf("the solved example has %d words and %d answers, want %d and 10", len(shown), len(answers), example.example)
	}
	for text, common := range map[string][]string{solved: sortedKeys(answers), r.Input[len(solved):]: slices.Sorted(slices.Values(r.Outputs))} {
		first := regexp.MustCompile(`\n1\. (\S+)((?: \d+\. \S+){9}) `).FindStringSubmatch(text)
		if first == nil || slices.Equal(sortedKeys(numberedWords(t, "1. "+first[1]+first[2])), common) {
			t.Errorf("the list begins with all of its common words: %q", first)
		}
	}
	if slices.IsSorted(r.Outputs) {
		t.Errorf("the common words are in the order of the dictionary: %q", r.Outputs)
	}
}

func sortedKeys(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }

func checkFrequent(t *testing.T, r *prompts.Row) {
	counts := make(map[string]int)
	list := strings.Fields(between(t, r.Input, "frequently appeared coded words. ", "\nQuestion:"))
	for _, w := range list {
		counts[w]++
	}
	if len(slices.Compact(list)) == len(counts) {
		t.Errorf("all of a word are together: %q", list)
	}
	var ranked []string
	for w := range counts {
		ranked = append(ranked, w)
	}
	slices.SortFunc(ranked, func(a, b string) int { return counts[b] - counts[a] })
	if ranked[0] != "..." || !slices.Equal(ranked[1:4], r.Outputs) || counts[ranked[3]] == counts[ranked[4]] {
		t.Errorf("%v of %v, answers %v", ranked[:5], counts, r.Outputs)
	}
	// Zipf's law with exponent 2: rank 2 has a quarter of rank 1, give or take rounding.
	if first, second := counts["..."], counts[ranked[1]]; second < first/4-1 || second > first/4+1 {
		t.Errorf("%d and %d words of ranks 1 and 2", first, second)
	}
}

func checkQuestion(t *testing.T, r *prompts.Row) {
	context := between(t, r.Input, "The following are given documents.\n\n", "\n\nAnswer the question based")
	documents := regexp.MustCompile(`(?:^|\n\n)Document (\d+):\n`).FindAllStringSubmatch(context, -1)
	for i, d := range documents {
		if d[1] != strconv.Itoa(i+1) {
			t.Errorf("document %d has number %s", i+1, d[1])
		}
	}
	if len(documents) < 10 || !strings.Contains(context, r.Outputs[0]) || strings.Contains(r.Input[len(r.Input)-300:], r.Outputs[0]+" ") {
		t.Errorf("%d documents; answer %q", len(documents), r.Outputs[0])
	}
}

// TestDeterministic checks that the rows depend only on task, length, index and seed.
func TestDeterministic(t *testing.T) {
	text := func(o Options) string {
		var b bytes.Buffer
		rows, _ := mustMake(t, o)
		for _, r := range rows {
			fatal.If(t, json.NewEncoder(&b).Encode(r))
		}
		return b.String()
	}
	o := options(2048, 3, "all")
	if testing.Short() {
		o.Tasks = []string{"niah_multivalue", "vt", "cwe"}
	}
	o.Workers = 1
	one := text(o)
	o.Workers = 5
	if text(o) != one {
		t.Error("five workers make other rows than one")
	}
	o.Samples = 2
	for line := range strings.Lines(text(o)) {
		if !strings.Contains(one, line) {
			t.Errorf("with fewer samples a row is another: %.200s", line)
		}
	}
	o.Tasks = []string{"vt"}
	for line := range strings.Lines(text(o)) {
		if !strings.Contains(one, line) {
			t.Errorf("by itself a task has other rows: %.200s", line)
		}
	}
	o.Seed = 43
	if strings.Contains(one, strings.ReplaceAll(text(o), `"seed":43`, `"seed":42`)) {
		t.Error("another seed makes the same rows")
	}
}

// TestSameNeedles: samples of one index ask the same at every length.
func TestSameNeedles(t *testing.T) {
	o := options(1024, 2, "niah_multiquery", "vt", "qa_1")
	o.Lengths = append(o.Lengths, 3000)
	rows, _ := mustMake(t, o)
	byKey := make(map[string]*prompts.Row)
	for _, r := range rows {
		key := fmt.Sprint(r.Task, r.Index)
		if other := byKey[key]; other != nil && (!slices.Equal(other.Outputs, r.Outputs) || other.AnswerPrefix != r.AnswerPrefix) {
			t.Errorf("%s: %v at %d, %v at %d", key, other.Outputs, other.MaxLength, r.Outputs, r.MaxLength)
		}
		byKey[key] = r
	}
	if len(byKey) != 6 {
		t.Errorf("%d rows", len(byKey))
	}
}

// TestTemplateTokens are kept free.
func TestTemplateTokens(t *testing.T) {
	o := options(1024, 1, "niah_single_1")
	all, _ := mustMake(t, o)
	o.TemplateTokens = 100
	less, _ := mustMake(t, o)
	if all[0].Length <= 1024-100 || less[0].Length > 1024-100 || less[0].MaxLength != 1024 {
		t.Errorf("lengths %d and %d", all[0].Length, less[0].Length)
	}
}
