// Package ruler makes the 13 tasks of RULER (Hsieh et al., "RULER: What's the Real
// Context Size of Your Long-Context Language Models?", COLM 2024; NVIDIA/RULER) at any
// length. Names, parameters, wordings and the length law are the benchmark's
// (scripts/synthetic.yaml, scripts/data/synthetic); the code is its own and so are the
// random draws: a seed gives other rows here than there. README.md lists the tasks,
// the texts that stand in where the user has not the originals, and what differs.
package ruler

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
)

// Benchmark is what rows and manifests have under benchmark.
const Benchmark = "ruler"

// Version changes when the same options give other prompts than before.
const Version = "3"

// maxLength bounds what may be asked for, in tokens.
const maxLength = 1 << 24

// Options says what to make. Tokenizer, Tasks, Lengths and Samples must be set.
type Options struct {
	Tasks   []string // names in Names, or all; each once
	Lengths []int    // tokens of prompt and generation together
	Samples int      // prompts per task and length; RULER has 500
	Seed    uint64   // RULER has 42

	// Tokenizer counts the tokens.
	Tokenizer tokens.Tokenizer

	// TemplateTokens are kept free within every length for the chat template that a
	// capture puts around the prompt (RULER: model_template_token).
	TemplateTokens int

	// Files of the user; "" takes the text that is built in instead.
	Essays   string // PaulGrahamEssays.json ({"text": …}), a text file, or a folder of text files
	Squad    string // dev-v2.0.json or another file of SQuAD
	HotpotQA string // hotpot_dev_distractor_v1.json or another file of HotpotQA

	// Workers make samples at the same time; 0: one a core. The rows do not depend on it.
	Workers int
}

// Validate says what is wrong with the options, if anything is.
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

// Make makes every sample of every task at every length, in the order of Names, then of
// o.Lengths, and hands each row to write in turn. It returns the manifest of what it
// wrote. An error of write, a file that does
// not read, a length that a task cannot have or a cancelled context ends it.
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
	m := &maker{options: o}
	if err := m.load(ctx, tasks); err != nil {
		return nil, err
	}
	manifest := &prompts.Manifest{
		Generator: "kvreplay datasets/ruler", Version: Version, Benchmark: Benchmark, Tokenizer: o.Tokenizer.Name(), Seed: o.Seed, Sources: m.sources,
	}
	for _, t := range tasks { // a length that is too short is said before the work, not after
		for _, length := range o.Lengths {
			if err := m.check(ctx, t, length); err != nil {
				return nil, err
			}
		}
	}
	for _, t := range tasks {
		for _, length := range o.Lengths {
			if err := m.rows(ctx, t, length, write); err != nil {
				return nil, err
			}
			manifest.Tasks = append(manifest.Tasks, prompts.Task{Name: t.name, MaxLength: length, Rows: o.Samples})
		}
	}
	return manifest, nil
}
