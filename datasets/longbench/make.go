package longbench

import (
	"context"
	"errors"
	"fmt"

	"github.com/kvreplay/kvreplay/datasets/prompts"
)

// Make turns rows of v1 into prompts. A source is a file of a set, gzip'ed or not, a
// folder of them, or the original data.zip, which is read without unpacking.
//
// Tasks are sets by name, those of LongBench-E with _e at the end; "all" are those of
// the 21 that the sources hold, "all_e" those of LongBench-E's 13. All rows of a chosen
// set are checked, whether they become prompts or not. The manifest lacks the command.
// Errors name the file, and line and row where it is one's.
func Make(ctx context.Context, o Options, sources []string, write Sink) (*prompts.Manifest, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		return nil, errors.New("no source: name LongBench's files, a folder of them or data.zip")
	}
	l, err := openLibrary(ctx, sources)
	if err != nil {
		return nil, fmt.Errorf("read LongBench: %w", err)
	}
	defer l.close()
	tasks, err := l.choose(o.Tasks)
	if err != nil {
		return nil, fmt.Errorf("choose sets: %w", err)
	}
	m := o.manifest(BenchmarkV1)
	for _, t := range tasks {
		n, err := o.makeTask(ctx, l, t, write)
		if err != nil {
			return nil, fmt.Errorf("make prompts of %s: %w", t.name(), err)
		}
		f := l.files[t.name()]
		m.Tasks = append(m.Tasks, prompts.Task{Name: t.name(), MaxLength: o.Length, Rows: n})
		m.Sources = append(m.Sources, prompts.Source{Role: t.name(), Name: f.name, Digest: f.digest, Licence: "MIT (LongBench); texts as in the set that it was made from", Origin: originV1})
	}
	return m, nil
}

// makeTask writes the prompts of one task and returns how many.
func (o *Options) makeTask(ctx context.Context, l *library, t task, write Sink) (n int, err error) {
	if err := checkLength(o.Tokenizer, t.name(), t.Fill("", ""), o.Length); err != nil {
		return 0, err
	}
	chosen := sample(until(ctx, l.rows(t)), o.Samples, o.Seed, func(*Row) string { return t.name() }, func(r *Row) string { return r.ID })
	for row, err := range chosen {
		if err != nil {
			return n, err
		}
		if err := o.emit(t.prompt(row), cutHalves, write); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// prompt is the filled, uncut prompt of a row.
func (t task) prompt(row *Row) *prompts.Row {
	return &prompts.Row{
		Index:        row.Position,
		Input:        t.Fill(row.Context, row.Input),
		Outputs:      row.Answers,
		Benchmark:    BenchmarkV1,
		Task:         t.name(),
		ID:           t.name() + "-" + row.ID,
		MaxNewTokens: t.MaxNewTokens,
		ChatTemplate: t.ChatTemplate,
	}
}
