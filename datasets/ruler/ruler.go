// Package ruler makes the 13 tasks of RULER (Hsieh et al., "RULER: What's the Real Context Size of
// Your Long-Context Language Models?", COLM 2024, NVIDIA/RULER) at any length. Names, parameters,
// wordings and the length law are the benchmark's (scripts/synthetic.yaml, scripts/data/synthetic).
// The code and the random draws are not: a seed gives other rows here than there. README.md lists
// the tasks, the substitutes for original texts, and the differences.
package ruler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Benchmark is the benchmark's name in rows and manifests.
const Benchmark = "ruler"

// Version changes when the same options give other prompts than before.
const Version = "3"

// maxLength bounds the requested length, in tokens.
const maxLength = 1 << 24

// Options configure Make. Tokenizer, Tasks, Lengths and Samples must be set.
type Options struct {
	Tasks   []string // names in Names, or all. Each once
	Lengths []int    // tokens of prompt and generation together
	Samples int      // prompts per task and length. RULER has 500
	Seed    uint64   // RULER has 42

	// Tokenizer counts the tokens.
	Tokenizer tokens.Tokenizer

	// TemplateTokens are kept free within every length, for the chat template that a capture puts
	// around the prompt (RULER: model_template_token).
	TemplateTokens int

	// Files of the user. "" means the built-in text.
	Essays   string // PaulGrahamEssays.json ({"text": …}), a text file, or a folder of text files
	Squad    string // dev-v2.0.json or another file of SQuAD
	HotpotQA string // hotpot_dev_distractor_v1.json or another file of HotpotQA

	// Workers is the number of samples made at the same time, 0 for one per core. The rows do not
	// depend on it.
	Workers int
}

// Validate returns an error if the options are invalid.
func (o *Options) Validate() error {
	if o.Tokenizer == nil {
		return fmt.Errorf("ruler: no tokenizer")
	}
	if len(o.Tasks) == 0 || len(o.Lengths) == 0 {
		return fmt.Errorf("ruler: %d tasks and %d lengths, expected at least one of each", len(o.Tasks), len(o.Lengths))
	}
	if _, err := resolve(o.Tasks); err != nil {
		return err
	}
	for i, n := range o.Lengths {
		if n < 1 || n > maxLength {
			return fmt.Errorf("ruler: length %d, expected 1 … %d tokens", n, maxLength)
		}
		if slices.Contains(o.Lengths[:i], n) {
			return fmt.Errorf("ruler: length %d is given twice", n)
		}
	}
	if o.Samples < 1 {
		return fmt.Errorf("ruler: %d samples, expected 1 or more", o.Samples)
	}
	if o.TemplateTokens < 0 {
		return fmt.Errorf("ruler: %d tokens for the chat template, expected 0 or more", o.TemplateTokens)
	}
	return nil
}

// Make makes every sample of every task at every length, in the order of Names, then of o.Lengths.
// It passes each row to write in turn and returns the manifest of the rows. It ends with an error
// of write, an unreadable file, a length too short for a task, or a cancelled context.
func Make(ctx context.Context, o Options, write func(*prompts.Row) error) (*prompts.Manifest, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	tasks, err := resolve(o.Tasks)
	if err != nil {
		return nil, err
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	m := newMaker(o, write)
	if err := m.load(ctx, tasks); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, task, int) error{m.check, m.rows} { // a length that is too short is reported before the work
		for _, t := range tasks {
			for _, length := range o.Lengths {
				if err := step(ctx, t, length); err != nil {
					return nil, err
				}
			}
		}
	}
	return &m.Manifest, nil
}

// task is one of the 13: its parameters are those of scripts/synthetic.yaml.
type task struct {
	name      string
	newTokens int      // tokens to generate (scripts/data/synthetic/constants.py)
	unit      string   // unit of the length's calibration
	located   bool     // rows have token_position_answer
	texts     []string // roles of the texts in the prompts
	sample    func(m *maker, length, index int, d draws) (prompts.Sample, error)
}

// Tokens to generate of each kind of task.
const (
	niahTokens = 128
	vtTokens   = 30
	cweTokens  = 120
	fweTokens  = 50
	qaTokens   = 32
)

var tasks = []task{
	niah{name: "niah_single_1", haystack: noise, key: words, value: numbers, keys: 1, values: 1, queries: 1}.task(),
	niah{name: "niah_single_2", haystack: essays, key: words, value: numbers, keys: 1, values: 1, queries: 1}.task(),
	niah{name: "niah_single_3", haystack: essays, key: words, value: uuids, keys: 1, values: 1, queries: 1}.task(),
	niah{name: "niah_multikey_1", haystack: essays, key: words, value: numbers, keys: 4, values: 1, queries: 1}.task(),
	niah{name: "niah_multikey_2", haystack: needles, key: words, value: numbers, keys: 1, values: 1, queries: 1}.task(),
	niah{name: "niah_multikey_3", haystack: needles, key: uuids, value: uuids, keys: 1, values: 1, queries: 1}.task(),
	niah{name: "niah_multivalue", haystack: essays, key: words, value: numbers, keys: 1, values: 4, queries: 1}.task(),
	niah{name: "niah_multiquery", haystack: essays, key: words, value: numbers, keys: 4, values: 1, queries: 4}.task(),
	{name: "vt", newTokens: vtTokens, unit: "noise sentences", sample: newChain},
	{name: "cwe", newTokens: cweTokens, unit: "words", texts: []string{roleWords}, sample: newCommon},
	{name: "fwe", newTokens: fweTokens, unit: "words", sample: newFrequent},
	{name: "qa_1", newTokens: qaTokens, unit: "documents", texts: []string{roleSquad}, sample: newQuestion(roleSquad)},
	{name: "qa_2", newTokens: qaTokens, unit: "documents", texts: []string{roleHotpotQA}, sample: newQuestion(roleHotpotQA)},
}

// Names returns the tasks in the order of scripts/synthetic.yaml.
func Names() []string { return namesOf(tasks) }

func namesOf(list []task) []string { return slice.Map(list, func(t task) string { return t.name }) }

// ReadersOf returns the tasks whose prompts use a text that the user may give: essays, squad or
// hotpotqa.
func ReadersOf(text string) []string {
	return namesOf(slice.Filter(tasks, func(t task) bool { return slices.Contains(t.texts, text) }))
}

// resolve returns the requested tasks in the order of Names.
func resolve(requested []string) ([]task, error) {
	chosen, err := prompts.ChooseTasks("task", requested, Names())
	if err != nil {
		return nil, fmt.Errorf("ruler: %w", err)
	}
	return slice.Filter(tasks, func(t task) bool { return slices.Contains(chosen, t.name) }), nil
}

// maker has the options and the texts that they name.
type maker struct {
	*prompts.Maker
	options Options
	words   *wordLists
	essay   *essay
	qa      map[string]*questions // by role
	stands  map[string]string     // by role: the text that a built-in one replaces
}

func newMaker(o Options, write func(*prompts.Row) error) *maker {
	about := prompts.Manifest{Generator: "kvreplay datasets/ruler", Version: Version, Benchmark: Benchmark, Seed: o.Seed}
	return &maker{Maker: prompts.NewMaker(about, o.Tokenizer, write), options: o}
}

// draws returns those of one sample of a task.
func (m *maker) draws(t task, index int) draws {
	return draws{m.options.Seed, fmt.Sprintf("%s/%d", t.name, index)}
}

// budget returns the largest size of a prompt at a length, in tokens.
func (m *maker) budget(t task, length int) int {
	return length - t.newTokens - m.options.TemplateTokens
}

// ample is a multiple of the first sample's smallest prompt. A budget of that size is long enough
// for every sample.
const ample = 8

// check returns an error unless every sample's smallest prompt fits.
func (m *maker) check(ctx context.Context, t task, length int) error {
	worst, longest := 0, &prompts.TightError{Budget: m.budget(t, length)}
	for index := 0; index < m.options.Samples && (index == 0 || longest.Tokens*ample > longest.Budget); index++ {
		s, err := t.sample(m, length, index, m.draws(t, index))
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		d := s.Prompt(s.Least)
		if n := m.Count(d.Input + d.Prefix); n > longest.Tokens {
			worst, longest.Units, longest.Tokens = index, s.Least, n
		}
	}
	if longest.Tokens <= longest.Budget {
		return nil
	}
	return fmt.Errorf("%w, the minimum for all %d samples of %s", m.short(t, length, worst, longest), m.options.Samples, t.name)
}

// short returns the error of a length that is too short for a task.
func (m *maker) short(t task, length, index int, e *prompts.TightError) error {
	extra := t.newTokens + m.options.TemplateTokens
	return fmt.Errorf("ruler: %s: length %d is too short: sample %d needs %d tokens (%d for the prompt with %d %s, %d to generate or reserve) with %s",
		t.name, length, index, e.Tokens+extra, e.Tokens, e.Units, t.unit, extra, m.Tokenizer.Name())
}

// row makes one sample. guess is a size to start from.
func (m *maker) row(t task, length, index, guess int) (*prompts.Row, int, error) {
	s, err := t.sample(m, length, index, m.draws(t, index))
	if err != nil {
		return nil, 0, err
	}
	f, err := m.Fit(s, m.budget(t, length), guess)
	if tight, ok := errors.AsType[*prompts.TightError](err); ok {
		return nil, 0, m.short(t, length, index, tight)
	}
	if f.Units == s.Most {
		return nil, 0, fmt.Errorf("ruler: %s: length %d is too long: all %d available %s make %d tokens in sample %d",
			t.name, length, f.Units, t.unit, f.Tokens+t.newTokens+m.options.TemplateTokens, index)
	}
	row := &prompts.Row{
		Index: index, Input: f.Input, Outputs: f.Outputs, AnswerPrefix: f.Prefix, Length: f.Tokens + t.newTokens,
		Task: t.name, ID: fmt.Sprintf("%s-%s-%d-%d", Benchmark, t.name, length, index),
		MaxLength: length, MaxNewTokens: t.newTokens, ChatTemplate: true, Substitute: m.substitute(t),
	}
	if t.located {
		row.TokenPositionAnswer = new(m.Count(f.Input[:strings.Index(f.Input, f.Outputs[0])]))
	}
	return row, f.Units, nil
}

// substitute returns the texts in a task's prompts that stand in for RULER's.
func (m *maker) substitute(t task) string {
	for _, role := range t.texts {
		if s := m.stands[role]; s != "" {
			return s
		}
	}
	return ""
}

// batch is the number of samples per worker that are made before they are written.
const batch = 8

// rows makes the samples of a task at a length, several at a time, and writes them in order. The
// search for a size begins at the size of the first.
func (m *maker) rows(ctx context.Context, t task, length int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.Begin(t.name, length)
	first, guess, err := m.row(t, length, 0, 0)
	if err != nil {
		return err
	}
	if err := m.Write(first); err != nil {
		return err
	}
	for from := 1; from < m.options.Samples; from += batch * m.options.Workers {
		n := min(batch*m.options.Workers, m.options.Samples-from)
		made, errs := make([]*prompts.Row, n), make([]error, n)
		var g errgroup.Group
		g.SetLimit(m.options.Workers)
		for i := range n {
			g.Go(func() error {
				if errs[i] = ctx.Err(); errs[i] == nil {
					made[i], _, errs[i] = m.row(t, length, from+i, guess)
				}
				return errs[i]
			})
		}
		_ = g.Wait() // the error of the first sample counts
		for i, row := range made {
			if errs[i] != nil {
				return errs[i]
			}
			if err := m.Write(row); err != nil {
				return err
			}
		}
	}
	return nil
}
