package longbench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/names"
)

// MakeV2 turns questions of v2 into prompts. The source is data.json, a file of the same
// rows as JSON lines, gzip'ed or not, or a folder with data.json. Tasks are domains
// (DomainTasks), "all" is each; Samples counts the rows of a domain, after Difficulty
// and Context have chosen. Prompts are in the order of the source. All rows are checked;
// manifest and errors are as of Make.
func MakeV2(ctx context.Context, o Options, source string, write Sink) (*prompts.Manifest, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	tasks, err := o.chooseQuestions()
	if err != nil {
		return nil, fmt.Errorf("choose questions: %w", err)
	}
	if err := checkLength(o.Tokenizer, BenchmarkV2, new(Question).Fill(), o.Length); err != nil {
		return nil, err
	}
	f, err := fileV2(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("read LongBench v2: %w", err)
	}
	rows := map[string]int{}
	chosen := sample(o.wanted(until(ctx, questions(f.values())), tasks), o.Samples, o.Seed, (*Question).task, func(q *Question) string { return q.ID })
	for q, err := range chosen {
		if err == nil {
			rows[q.task()]++
			err = o.emit(q.prompt(), cutMiddle, write)
		}
		if err != nil {
			return nil, fmt.Errorf("make prompts of LongBench v2: %w", err)
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("make prompts of LongBench v2: no question of the source is of these domains, this difficulty and context")
	}
	m := o.manifest(BenchmarkV2)
	for _, t := range tasks {
		m.Tasks = append(m.Tasks, prompts.Task{Name: t, MaxLength: o.Length, Rows: rows[t]})
	}
	m.Sources = []prompts.Source{{Role: "questions", Name: f.name, Digest: f.digest, Licence: "Apache-2.0", Origin: originV2}}
	return m, nil
}

// chooseQuestions checks what is asked for and returns the domains, in order.
func (o *Options) chooseQuestions() ([]string, error) {
	if err := oneOf("difficulty", o.Difficulty, Difficulties); err != nil {
		return nil, err
	}
	if err := oneOf("context", o.Context, Contexts); err != nil {
		return nil, err
	}
	all := DomainTasks()
	for _, name := range o.Tasks {
		if name == All {
			return all, nil
		}
		if err := oneOf("domain", name, all); err != nil {
			return nil, err
		}
	}
	if len(o.Tasks) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(t string) bool { return !slices.Contains(o.Tasks, t) }), nil
}

// oneOf refuses a value that is not known; "" is fine.
func oneOf(what, value string, known []string) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return fmt.Errorf("unknown %s %q%s, expected one of %s", what, value, names.Nearest(value, known), strings.Join(known, ", "))
}

// fileV2 finds the file of a source.
func fileV2(ctx context.Context, path string) (*file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		path = filepath.Join(path, "data.json")
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("no data.json in the folder: %w", err)
		}
	}
	return onDisk(ctx, path), nil
}

// wanted leaves out the questions that were not asked for.
func (o *Options) wanted(all iter.Seq2[*Question, error], tasks []string) iter.Seq2[*Question, error] {
	return func(yield func(*Question, error) bool) {
		for q, err := range all {
			if err == nil && (!slices.Contains(tasks, q.task()) ||
				o.Difficulty != "" && q.Difficulty != o.Difficulty ||
				o.Context != "" && q.Length != o.Context) {
				continue
			}
			if !yield(q, err) {
				return
			}
		}
	}
}

// prompt is the filled, uncut prompt of a question; its reference is the letter.
func (q *Question) prompt() *prompts.Row {
	return &prompts.Row{
		Index:        q.Position,
		Input:        q.Fill(),
		Outputs:      []string{q.Answer},
		Benchmark:    BenchmarkV2,
		Task:         q.task(),
		ID:           BenchmarkV2 + "-" + q.ID,
		MaxNewTokens: maxNewTokensV2,
		ChatTemplate: true,
	}
}
