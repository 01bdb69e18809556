// Package offline makes tasks like LongBench's without any download. Its sources are the Go
// distribution, Python's standard library, a public-domain text that comes with Go, and texts of
// the user.
//
// They are substitutes. Each task stands in for a set of LongBench. Its kind of context, tokens to
// generate and use of a chat template are the same. It uses the published prompt if that fits.
// Results on them are not results on LongBench. References are facts of the sources, such as the
// line of code that comes next, never a model's output. Every row states its source and the origin
// of its reference.
package offline

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/longbench"
	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Benchmark is the name of these tasks in prompts.Row and in the manifest.
const Benchmark = "substitute"

// Version changes when the same input gives other prompts than before.
const Version = "3"

// Options configure Make. The same options, tokenizer and sources give the same prompts. A prompt
// depends on seed, task, index and length, not on the number of samples or on the other tasks.
type Options struct {
	Tasks     []string // by name. Empty or prompts.All: every task whose sources exist
	Samples   int      // prompts of each task
	Seed      uint64
	Length    int // largest number of tokens of a prompt, those to generate included
	Tokenizer tokens.Tokenizer
	Places    Places // locations of the sources
}

// Validate returns an error if the options are invalid.
func (o *Options) Validate() error {
	switch {
	case o.Samples < 1:
		return fmt.Errorf("samples %d, expected 1 or more", o.Samples)
	case o.Length < 1:
		return fmt.Errorf("length %d, expected 1 token or more", o.Length)
	case o.Tokenizer == nil:
		return errors.New("no tokenizer")
	}
	_, err := choose(o.Tasks)
	return err
}

// Result is the result of Make.
type Result struct {
	Manifest *prompts.Manifest // lacks the command
	Notes    []string          // tasks that were left out or fell short, with the reasons
}

// Make makes the prompts of the tasks in order and passes each to write.
func Make(ctx context.Context, o Options, write func(*prompts.Row) error) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	chosen, err := choose(o.Tasks)
	if err != nil {
		return nil, err
	}
	s := newSources(ctx, o.Places)
	about := prompts.Manifest{Generator: "kvreplay datasets/offline", Version: Version, Benchmark: Benchmark, Seed: o.Seed}
	m := prompts.NewMaker(about, o.Tokenizer, write)
	r := &Result{Manifest: &m.Manifest}
	for _, t := range chosen {
		notes, err := o.makeTask(ctx, t, s, m)
		if errors.Is(err, errNoPython) && !slices.Contains(o.Tasks, t.Name) {
			notes, err = []string{fmt.Sprintf("%s left out: %v", t.Name, err)}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("make prompts of %s: %w", t.Name, err)
		}
		r.Notes = append(r.Notes, notes...)
	}
	m.Sources = s.used
	return r, nil
}

// redraws is the largest number of new draws for a prompt that repeats another one.
const redraws = 32

// makeTask writes the prompts of one task. The notes state shortfalls.
func (o *Options) makeTask(ctx context.Context, t Task, s *sources, m *prompts.Maker) (notes []string, err error) {
	set, ok := longbench.Lookup(t.StandsFor)
	if !ok {
		panic("offline: no set " + t.StandsFor)
	}
	budget := o.Length - set.MaxNewTokens
	generate, err := t.open(s, budget)
	if err != nil {
		return nil, err
	}
	m.Begin(t.Name, o.Length)
	short, repeated, seen := 0, 0, map[string]bool{}
	for i := range o.Samples {
		var p *prompts.Sample
		var f *prompts.Fitted
		for again := 0; again == 0 || seen[f.Input] && again < redraws; again++ {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			name := t.Name
			if again > 0 {
				name = fmt.Sprintf("%s/%d", name, again)
			}
			if p, err = generate(i, random(o.Seed, name, i)); err != nil {
				return nil, err
			}
			if f, err = m.Fit(*p, budget, 0); err != nil {
				return nil, fmt.Errorf("prompt %d: %w", i, err)
			}
		}
		if seen[f.Input] {
			repeated++
		}
		seen[f.Input] = true
		if f.Tokens < budget/2 {
			short++
		}
		err := m.Write(&prompts.Row{
			Index: i, Input: f.Input, Outputs: f.Outputs, Length: f.Tokens + set.MaxNewTokens,
			Task: t.Name, ID: fmt.Sprintf("%s-%d", t.Name, i),
			MaxLength: o.Length, MaxNewTokens: set.MaxNewTokens, ChatTemplate: set.ChatTemplate,
			Substitute: fmt.Sprintf("for LongBench %s; made from %s; reference: %s", t.StandsFor, p.Origin, t.Reference),
		})
		if err != nil {
			return nil, err
		}
	}
	if short > 0 {
		notes = append(notes, fmt.Sprintf("%s: %d of %d prompts do not fill half of the length, because the sources have no longer texts", t.Name, short, o.Samples))
	}
	if repeated > 0 {
		notes = append(notes, fmt.Sprintf("%s: %d of %d prompts repeat others, because the sources have too few texts", t.Name, repeated, o.Samples))
	}
	return notes, nil
}

// choose returns the requested tasks in the order of the table.
func choose(requested []string) ([]Task, error) {
	chosen, err := prompts.ChooseTasks("task", requested, slice.Map(tasks, func(t Task) string { return t.Name }))
	return slice.Filter(tasks, func(t Task) bool { return slices.Contains(chosen, t.Name) }), err
}

// Task is a kind of prompt.
type Task struct {
	Name      string
	StandsFor string // set of LongBench
	Summary   string // the question
	Reference string // origin of the answer

	open func(s *sources, budget int) (generator, error)
}

// tasks are all tasks.
var tasks = []Task{
	{"lcc_go", "lcc", "the next line of a Go file", "the line that follows in the file", lineOfGo},
	{"lcc_python", "lcc", "the next line of a file of Python's standard library", "the line that follows in the file", lineOfPython},
	{"repobench_go", "repobench-p", "the next line of a Go file, given declarations of other files, the one that the line uses among them", "the line that follows in the file", ofGo(lineUsing)},
	{"summary_go", "gov_report", "a package's documentation, given its source", "the package's own documentation, its first three paragraphs, which the prompt lacks", ofGo(documentationOf)},
	{"multi_summary_go", "multi_news", "what each of several packages is for, given the documentation of their declarations", "the first sentence of each package's own documentation, which the prompt lacks", ofGo(purposesOf)},
	{"passage_retrieval_go", "passage_retrieval_en", "the paragraph that a summary is of", "the paragraph whose own first sentence, which it lacks, is the summary", ofGo(paragraphOf)},
	{"hotpotqa_go", "hotpotqa", "what a parameter's type is for, the function in one passage and the type in another", "the first sentence of the type's documentation", ofGo(typeOf)},
	{"trec_go", "trec", "the package of a documentation comment, after labelled examples", "the package that the comment is from", ofGo(packageOf)},
	{"qa_text", "multifieldqa_en", "how the part of a text under a heading begins", "the first sentence under the heading", ofTexts(beginningOf)},
	{"summary_text", "gov_report", "a summary of an excerpt of a text", "the first sentences of at most twelve of the excerpt's parts: an extract, no abstract by a person", ofTexts(summaryOf)},
	{"passage_count_text", "passage_count", "the number of different paragraphs among repeated ones", "the number by construction", ofTexts(countOf)},
}

// Tasks returns all tasks in order.
func Tasks() []Task { return slices.Clone(tasks) }

func lineOfGo(s *sources, budget int) (generator, error) {
	t, err := s.golang()
	if err != nil {
		return nil, err
	}
	return lineAfter(&t.tree, budget)
}

func lineOfPython(s *sources, budget int) (generator, error) {
	t, err := s.python()
	if err != nil {
		return nil, err
	}
	return lineAfter(t, budget)
}

// ofGo opens a task of the Go distribution. ofTexts opens one of the texts in turn.
func ofGo(open func(*goTree, int) (generator, error)) func(*sources, int) (generator, error) {
	return func(s *sources, budget int) (generator, error) {
		t, err := s.golang()
		if err == nil {
			err = t.parse()
		}
		if err != nil {
			return nil, err
		}
		return open(t, budget)
	}
}

func ofTexts(draw func(*text, int, *rand.Rand) (*prompts.Sample, error)) func(*sources, int) (generator, error) {
	return func(s *sources, budget int) (generator, error) {
		texts, err := s.texts()
		return func(i int, r *rand.Rand) (*prompts.Sample, error) { return draw(texts[i%len(texts)], budget, r) }, err
	}
}

// generator draws a task's i-th sample. Its units are lines, passages or examples.
type generator func(i int, r *rand.Rand) (*prompts.Sample, error)

// random returns a generator that depends only on its arguments.
func random(seed uint64, name string, i int) *rand.Rand {
	text := binary.LittleEndian.AppendUint64(nil, seed)
	text = binary.LittleEndian.AppendUint64(text, uint64(i))
	return rand.New(rand.NewChaCha8(sha256.Sum256(append(text, name...))))
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func shuffled[T any](r *rand.Rand, from []T) []T {
	return slice.Map(r.Perm(len(from)), func(i int) T { return from[i] })
}

// published fills the prompt of a set of LongBench. If its words name another kind of source, pairs
// of old and new words adapt the prompt before it is filled.
func published(set, context, input, answer string, words ...string) prompts.Draft {
	s, ok := longbench.Lookup(set)
	if !ok {
		panic("offline: no set " + set)
	}
	const c, i = "\x00context\x00", "\x00input\x00" // so that the texts are not adapted
	prompt := s.Fill(c, i)
	for k := 0; k < len(words); k += 2 {
		if !strings.Contains(prompt, words[k]) {
			panic(fmt.Sprintf("offline: the prompt of %s has no %q", set, words[k]))
		}
		prompt = strings.ReplaceAll(prompt, words[k], words[k+1])
	}
	return prompts.Draft{Input: strings.NewReplacer(c, context, i, input).Replace(prompt), Outputs: []string{answer}}
}

// numbered writes passages one after another, each with its number from 1.
func numbered(name, after string, passages []string) string {
	return strings.Join(slice.Map(slice.Indices(len(passages)), func(i int) string {
		return fmt.Sprintf("%s %d:%s%s", name, i+1, after, passages[i])
	}), "\n\n")
}

// placed inserts other into the passages, at a share of the way from the first place to the last.
// It also returns other's place from 0.
func placed(passages []string, other string, share float64) ([]string, int) {
	at := int(share * float64(len(passages)+1))
	return slices.Concat(passages[:at], []string{other}, passages[at:]), at
}
