package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/ruler"
	"github.com/kvreplay/kvreplay/datasets/tokens"
)

// rulerFlags are the flags of `make ruler` as typed.
type rulerFlags struct {
	promptsFlags
	options ruler.Options
}

func newDatasetsMakeRulerCommand() *cobra.Command {
	var f rulerFlags
	c := &cobra.Command{
		Use:   "ruler -o PROMPTS",
		Short: "Make prompts of RULER's 13 tasks at any length",
		Long: `Make prompts of RULER: needles in haystacks, variable tracking, word counts and
questions, each as long as fits in --length tokens with what is to be generated.

Tasks: ` + wrapped(ruler.Names()) + `

Essays and questions are read from the user's files; without them, texts that are
built in stand in, and rows and manifest say so.`,
		Example: `  kvreplay datasets make ruler --task all --length 4096 --samples 5 -o prompts.jsonl
  kvreplay datasets make ruler --task niah_multikey_3,vt --length 8192,32768 -o long.jsonl --tokenizer Llama-3/tokenizer.json
  kvreplay datasets make ruler --task qa_1 --length 16384 -o qa.jsonl --squad dev-v2.0.json`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("argument %q, expected none: tasks are named by --task", args[0])
			}
			return f.run(c)
		},
	}
	f.promptsFlags.define(c.Flags())
	fl, o := c.Flags(), &f.options
	fl.StringSliceVar(&o.Tasks, "task", []string{"all"}, "tasks, comma-separated or repeated, or all")
	fl.IntSliceVar(&o.Lengths, "length", []int{4096}, "tokens of prompt and generation; several make prompts of each")
	fl.IntVar(&o.Samples, "samples", 500, "prompts of each task and length")
	fl.Uint64Var(&o.Seed, "seed", 42, "draws needles, words and positions")
	fl.IntVar(&o.TemplateTokens, "template-tokens", 0, "tokens within --length to keep free for a chat template")
	fl.StringVar(&o.Essays, "essays", "", "haystack: PaulGrahamEssays.json, a text file or a folder of them (default: Newton's Opticks)")
	fl.StringVar(&o.Squad, "squad", "", "questions of qa_1: dev-v2.0.json of SQuAD (default: made from Go's documentation)")
	fl.StringVar(&o.HotpotQA, "hotpotqa", "", "questions of qa_2: hotpot_dev_distractor_v1.json of HotpotQA (default: made from Go's documentation)")
	return c
}

func (f *rulerFlags) run(c *cobra.Command) error {
	for i, t := range f.options.Tasks {
		f.options.Tasks[i] = strings.TrimSpace(t)
	}
	for _, texts := range []struct{ flag, file string }{{"essays", f.options.Essays}, {"squad", f.options.Squad}, {"hotpotqa", f.options.HotpotQA}} {
		readers := ruler.ReadersOf(texts.flag)
		named := func(task string) bool { return task == "all" || slices.Contains(readers, task) }
		if texts.file != "" && !slices.ContainsFunc(f.options.Tasks, named) {
			return usagef("--%s is for the task %s, which --task does not name", texts.flag, strings.Join(readers, " or "))
		}
	}
	inputs := append(filesOf([]string{f.options.Essays}, ".txt", ".md"), f.options.Squad, f.options.HotpotQA)
	return f.write(c, inputs, func(ctx context.Context, t tokens.Tokenizer, write func(*prompts.Row) error) (*prompts.Manifest, error) {
		f.options.Tokenizer = t
		if err := f.options.Validate(); err != nil {
			return nil, usagef("%w", err)
		}
		return ruler.Make(ctx, f.options, write)
	})
}
