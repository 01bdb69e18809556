package ruler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
)

// maker has the options and the texts that they name.
type maker struct {
	options Options
	words   *wordLists
	essay   *essay
	qa      map[string]*questions // by role
	sources []prompts.Source
	stands  map[string]string // by role: what a built-in text stands in for
}

// count is the tokenizer's.
func (m *maker) count(text string) int { return tokens.Count(m.options.Tokenizer, text) }

// draws are those of one sample of a task.
func (m *maker) draws(t task, index int) draws {
	return draws{m.options.Seed, fmt.Sprintf("%s/%d", t.name, index)}
}

// budget is what a prompt may take at a length, in tokens.
func (m *maker) budget(t task, length int) int {
	return length - t.newTokens - m.options.TemplateTokens
}

// ample is how many times the first sample's smallest prompt a budget holds that is not
// short for any sample.
const ample = 8

// check says whether every sample's smallest prompt fits.
func (m *maker) check(ctx context.Context, t task, length int) error {
	worst, longest := 0, &tightError{budget: m.budget(t, length)}
	for index := 0; index < m.options.Samples && (index == 0 || longest.cost*ample > longest.budget); index++ {
		s, err := t.sample(m, length, index, m.draws(t, index))
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		least, _ := s.sizes()
		d := s.prompt(least)
		if cost := m.count(d.input + d.prefix); cost > longest.cost {
			worst, longest.units, longest.cost = index, least, cost
		}
	}
	if longest.cost <= longest.budget {
		return nil
	}
	return fmt.Errorf("%w; that is the least for all %d samples of %s", m.tight(t, length, worst, longest), m.options.Samples, t.name)
}

// tight words a length that a task cannot have.
func (m *maker) tight(t task, length, index int, e *tightError) error {
	extra := t.newTokens + m.options.TemplateTokens
	if e.cost > e.budget {
		return fmt.Errorf("ruler: %s: length %d is too short: sample %d takes %d tokens (%d of the prompt with %d %s, %d to generate or kept free) by %s",
			t.name, length, index, e.cost+extra, e.cost, e.units, t.unit, extra, m.options.Tokenizer.Name())
	}
	return fmt.Errorf("ruler: %s: length %d is too long: all %d %s that there are make %d tokens in sample %d",
		t.name, length, e.units, t.unit, e.cost+extra, index)
}

// row makes one sample; guess is a size to start from.
func (m *maker) row(t task, length, index, guess int) (*prompts.Row, int, error) {
	s, err := t.sample(m, length, index, m.draws(t, index))
	if err != nil {
		return nil, 0, err
	}
	f, err := fit(s, m.budget(t, length), guess, m.count)
	var tight *tightError
	if errors.As(err, &tight) {
		return nil, 0, m.tight(t, length, index, tight)
	}
	if err != nil {
		return nil, 0, err
	}
	row := &prompts.Row{
		Index: index, Input: f.input, Outputs: f.outputs, AnswerPrefix: f.prefix,
		Length:    f.cost + t.newTokens,
		Benchmark: Benchmark, Task: t.name, ID: fmt.Sprintf("%s-%s-%d-%d", Benchmark, t.name, length, index),
		MaxLength: length, MaxNewTokens: t.newTokens, ChatTemplate: true,
		Tokenizer: m.options.Tokenizer.Name(), Seed: m.options.Seed, Substitute: m.substitute(t),
	}
	if t.located {
		position := m.count(f.input[:strings.Index(f.input, f.outputs[0])])
		row.TokenPositionAnswer = &position
	}
	return row, f.units, nil
}

// substitute says what the prompts of a task have in place of RULER's texts.
func (m *maker) substitute(t task) string {
	for _, role := range t.texts {
		if s := m.stands[role]; s != "" {
			return s
		}
	}
	return ""
}

// rows makes the samples of a task at a length, several at a time, and writes them in
// order. The size of the first is where the search for the others begins.
func (m *maker) rows(ctx context.Context, t task, length int, write func(*prompts.Row) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	first, guess, err := m.row(t, length, 0, 0)
	if err != nil {
		return err
	}
	if err := write(first); err != nil {
		return err
	}
	type result struct {
		row *prompts.Row
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	queue := make(chan chan result, m.options.Workers) // bounds the rows that wait
	slots := make(chan struct{}, m.options.Workers)    // bounds the work
	running.Go(func() {
		defer close(queue)
		for index := 1; index < m.options.Samples && ctx.Err() == nil; index++ {
			out := make(chan result, 1)
			slots <- struct{}{}
			running.Go(func() {
				defer func() { <-slots }()
				row, _, err := m.row(t, length, index, guess)
				out <- result{row, err}
			})
			select {
			case queue <- out:
			case <-ctx.Done():
			}
		}
	})
	for out := range queue {
		r := <-out
		if r.err != nil {
			return r.err
		}
		if err := write(r.row); err != nil {
			return err
		}
	}
	return ctx.Err()
}
