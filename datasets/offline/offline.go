// Package offline makes tasks like LongBench's without any download: of the sources of
// the Go distribution, of Python's standard library, and of a public-domain text that
// comes with Go, or texts of the user's.
//
// They are substitutes. Each task stands in for a set of LongBench: same kind of
// context, same tokens to generate, same use of a chat template, and the published
// prompt where it fits. Results on them are not results on LongBench. References are
// facts of the sources, as the line of code that comes next, never a model's output;
// every row says what it was made from and what its reference is.
package offline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/datasets/longbench"
	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
)

// Benchmark is what prompts.Row and the manifest call these tasks.
const Benchmark = "substitute"

// Version changes when the same input gives other prompts than before.
const Version = "3"

// All asks for every task.
const All = "all"

// Options say what is made. The same options, tokenizer and sources give the same
// prompts; a prompt depends on seed, task, index and length, not on the number of
// samples or on the other tasks.
type Options struct {
	Tasks     []string // by name; empty or All: every one for which there are sources
	Samples   int      // prompts of each task
	Seed      uint64
	Length    int // tokens of a prompt at most, those to generate included
	Tokenizer tokens.Tokenizer
	Places    Places // where the sources are
}

// Validate says what is wrong with the options, if anything is.
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

// Result is what was made.
type Result struct {
	Manifest *prompts.Manifest // lacks the command
	Notes    []string          // tasks that were left out or came out short, and why
}

// Make makes the prompts of the tasks in order and hands each on.
func Make(ctx context.Context, o Options, write func(*prompts.Row) error) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	chosen, err := choose(o.Tasks)
	if err != nil {
		return nil, err
	}
	s := &sources{places: o.Places, read: func(path string) ([]byte, error) { return files.Read(ctx, path) }}
	r := &Result{Manifest: &prompts.Manifest{
		Generator: "kvreplay datasets/offline", Version: Version, Benchmark: Benchmark,
		Tokenizer: o.Tokenizer.Name(), Seed: o.Seed}}
	for _, t := range chosen {
		err := o.makeTask(ctx, t, s, r, write)
		if errors.Is(err, errNoPython) && !slices.Contains(o.Tasks, t.Name) {
			r.Notes = append(r.Notes, fmt.Sprintf("%s left out: %v", t.Name, err))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("make prompts of %s: %w", t.Name, err)
		}
	}
	r.Manifest.Sources = s.used
	return r, nil
}

// choose returns the tasks of the names, in the order of the table.
func choose(asked []string) ([]Task, error) {
	known := names.Of(All)
	for _, t := range tasks {
		known = append(known, names.Name{Name: t.Name})
	}
	var chosen []string
	for _, text := range asked {
		name, err := names.Find("task", text, known)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, name)
	}
	if len(chosen) == 0 || slices.Contains(chosen, All) {
		return Tasks(), nil
	}
	return slices.DeleteFunc(Tasks(), func(t Task) bool { return !slices.Contains(chosen, t.Name) }), nil
}

// redraws is how often a prompt is drawn that is there already.
const redraws = 32

// makeTask writes the prompts of one task.
func (o *Options) makeTask(ctx context.Context, t Task, s *sources, r *Result, write func(*prompts.Row) error) error {
	set, ok := longbench.Lookup(t.StandsFor)
	if !ok {
		panic("offline: no set " + t.StandsFor)
	}
	budget := o.Length - set.MaxNewTokens
	generate, err := t.open(s, budget)
	if err != nil {
		return err
	}
	short, repeated, seen := 0, 0, map[string]bool{}
	for i := range o.Samples {
		var p *problem
		var f fitted
		for again := 0; again == 0 || seen[f.prompt] && again < redraws; again++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			if p, err = generate(i, redrawn(o.Seed, t.Name, i, again)); err != nil {
				return err
			}
			if f, err = fit(o.Tokenizer, p, budget); err != nil {
				return fmt.Errorf("prompt %d: %w", i, err)
			}
		}
		if seen[f.prompt] {
			repeated++
		}
		seen[f.prompt] = true
		if f.tokens < budget/2 {
			short++
		}
		if err := write(o.row(t, set, i, p, f)); err != nil {
			return err
		}
	}
	if short > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s: %d of %d prompts do not fill half of the length; the sources have nothing longer", t.Name, short, o.Samples))
	}
	if repeated > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s: %d of %d prompts repeat others; the sources hardly have more", t.Name, repeated, o.Samples))
	}
	r.Manifest.Tasks = append(r.Manifest.Tasks, prompts.Task{Name: t.Name, MaxLength: o.Length, Rows: o.Samples})
	return nil
}

func (o *Options) row(t Task, set longbench.Set, i int, p *problem, f fitted) *prompts.Row {
	return &prompts.Row{
		Index:        i,
		Input:        f.prompt,
		Outputs:      f.answers,
		Length:       f.tokens + set.MaxNewTokens,
		Benchmark:    Benchmark,
		Task:         t.Name,
		ID:           fmt.Sprintf("%s-%d", t.Name, i),
		MaxLength:    o.Length,
		MaxNewTokens: set.MaxNewTokens,
		ChatTemplate: set.ChatTemplate,
		Tokenizer:    o.Tokenizer.Name(),
		Seed:         o.Seed,
		Substitute:   fmt.Sprintf("for LongBench %s; made from %s; reference: %s", t.StandsFor, p.origin, t.Reference),
	}
}
