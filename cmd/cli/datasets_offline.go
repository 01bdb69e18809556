package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/offline"
	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
)

// offlineFlags are the flags of `make offline` as typed.
type offlineFlags struct {
	promptsFlags
	options offline.Options
}

func (f *offlineFlags) define(c *cobra.Command) {
	f.promptsFlags.define(c.Flags())
	fl, o := c.Flags(), &f.options
	fl.StringSliceVar(&o.Tasks, "task", []string{offline.All}, "tasks by name, or all")
	fl.IntVar(&o.Samples, "samples", 5, "prompts of each task")
	fl.IntVar(&o.Length, "length", 8192, "tokens of a prompt at most, chat template not counted, those to generate included")
	fl.Uint64Var(&o.Seed, "seed", 42, "what the prompts are drawn with")
	fl.StringVar(&o.Places.GoRoot, "goroot", "", "Go distribution with its sources (default: $GOROOT, or what 'go env GOROOT' says)")
	fl.StringVar(&o.Places.Python, "python", "", "folder of Python's standard library (default: that of python3)")
	fl.StringArrayVar(&o.Places.Texts, "text", nil, "plain text for the tasks that end in _text; repeatable (default: Newton's Opticks of the Go distribution)")
}

func newDatasetsMakeOfflineCommand() *cobra.Command {
	var f offlineFlags
	c := &cobra.Command{
		Use:   "offline -o PROMPTS",
		Short: "Make LongBench-like prompts without a download: of Go's sources and a public-domain text",
		Long: `Make prompts of tasks that stand in for LongBench's, of what a machine with Go has:
the distribution's sources and the text that comes with them, and the standard library
of Python where there is one. They are substitutes, and say so in each row. The same
options and sources give the same prompts.

Tasks, the set of LongBench that each stands in for, and what is asked:
` + offlineTasks(),
		Example: `  kvreplay datasets make offline --task all --length 8192 --samples 5 -o prompts.jsonl
  kvreplay datasets make offline --task qa_text,passage_count_text --text novel.txt -o novel.jsonl
  kvreplay datasets make offline --task repobench_go --length 131072 --tokenizer model/tokenizer.json -o long.jsonl`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.define(c)
	return c
}

func (f *offlineFlags) run(c *cobra.Command) error {
	if f.options.Samples < 1 || f.options.Length < 1 {
		return usagef("--samples %d, --length %d: expected 1 or more", f.options.Samples, f.options.Length)
	}
	ofText := func(task string) bool {
		return task == offline.All || strings.HasSuffix(strings.TrimSpace(task), "_text")
	}
	if f.options.Places.Texts != nil && !slices.ContainsFunc(f.options.Tasks, ofText) {
		return usagef("--text is for the tasks that end in _text, --task names none")
	}
	var notes []string
	err := f.write(c, f.options.Places.Texts, func(ctx context.Context, t tokens.Tokenizer, write func(*prompts.Row) error) (*prompts.Manifest, error) {
		f.options.Tokenizer = t
		if err := f.options.Validate(); err != nil {
			return nil, errUsage{err}
		}
		r, err := offline.Make(ctx, f.options, write)
		if err != nil {
			return nil, err
		}
		notes = r.Notes
		return r.Manifest, nil
	})
	for _, note := range notes {
		fmt.Fprintln(c.ErrOrStderr(), note)
	}
	return err
}

// offlineTasks is a line for each task.
func offlineTasks() string {
	var b strings.Builder
	for _, t := range offline.Tasks() {
		fmt.Fprintf(&b, "\n  %-21s %-21s %s", t.Name, t.StandsFor, t.Summary)
	}
	return b.String()
}
