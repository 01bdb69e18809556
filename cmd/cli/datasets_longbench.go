package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/longbench"
	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
)

// longbenchFlags are the flags of `make longbench` and `make longbench-v2` as typed.
type longbenchFlags struct {
	promptsFlags
	options longbench.Options
}

func (f *longbenchFlags) define(c *cobra.Command, tasks string) {
	f.promptsFlags.define(c.Flags())
	fl := c.Flags()
	fl.StringSliceVar(&f.options.Tasks, "task", []string{longbench.All}, tasks)
	fl.IntVar(&f.options.Samples, "samples", 0, "rows of a task at most (default: all)")
	fl.Uint64Var(&f.seed, "seed", 0, "draws the rows of --samples (default: the first ones are taken)")
	fl.IntVar(&f.options.Length, "length", 0, "tokens of a prompt at most, chat template and generation not counted; of longer ones the middle is cut out (default: uncut)")
}

// complete turns what was typed into options.
func (f *longbenchFlags) complete(c *cobra.Command) error {
	if c.Flags().Changed("seed") {
		if f.options.Samples == 0 {
			return usagef("--seed draws rows: it needs --samples")
		}
		f.options.Seed = &f.seed
	}
	return atLeastOne(c, "samples", "length")
}

func newDatasetsMakeLongbenchCommand() *cobra.Command {
	var f longbenchFlags
	c := &cobra.Command{
		Use:   "longbench SOURCE... -o PROMPTS",
		Short: "Make prompts of LongBench's files, which you bring: 21 sets and LongBench-E",
		Long: `Make prompts of LongBench v1. A source is the original data.zip, a folder of
<set>.jsonl, or one such file, gzip'ed or not. Prompts, tokens to generate, truncation
and the use of a chat template are those of the benchmark.

Sets: ` + wrapped(setNames()) + `
Those of LongBench-E end in _e.`,
		Example: `  kvreplay datasets make longbench data.zip -o longbench.jsonl --length 31500
  kvreplay datasets make longbench multi_news.jsonl lcc.jsonl -o some.jsonl --samples 5 --seed 1
  kvreplay datasets make longbench data.zip -o e.jsonl --task all_e --tokenizer model/tokenizer.json`,
		Args: atLeast(1, "source"),
		RunE: func(c *cobra.Command, sources []string) error {
			if err := f.complete(c); err != nil {
				return err
			}
			return f.write(c, setFiles(sources), func(ctx context.Context, t tokens.Tokenizer, write func(*prompts.Row) error) (*prompts.Manifest, error) {
				f.options.Tokenizer = t
				return longbench.Make(ctx, f.options, sources, write)
			})
		},
	}
	f.define(c, "sets by name, all (those of the 21 that are there) or all_e")
	return c
}

func newDatasetsMakeLongbenchV2Command() *cobra.Command {
	var f longbenchFlags
	c := &cobra.Command{
		Use:   "longbench-v2 SOURCE -o PROMPTS",
		Short: "Make prompts of LongBench v2's data.json, which you bring: 503 questions",
		Long: fmt.Sprintf(`Make prompts of LongBench v2's %d questions. The source is the original data.json, a
file of the same rows as JSON lines, gzip'ed or not, or a folder with data.json. A
domain is a task; the reference is the letter of the right choice.

Domains: `, longbench.RowsV2) + wrapped(longbench.DomainTasks()),
		Example: `  kvreplay datasets make longbench-v2 data.json -o v2.jsonl --length 120000
  kvreplay datasets make longbench-v2 data.json -o v2.jsonl --task code_repository_understanding --context short --samples 10`,
		Args: exactlyOne("source"),
		RunE: func(c *cobra.Command, sources []string) error {
			if err := f.complete(c); err != nil {
				return err
			}
			return f.write(c, setFiles(sources), func(ctx context.Context, t tokens.Tokenizer, write func(*prompts.Row) error) (*prompts.Manifest, error) {
				f.options.Tokenizer = t
				return longbench.MakeV2(ctx, f.options, sources[0], write)
			})
		},
	}
	f.define(c, "domains by name, or all")
	c.Flags().StringVar(&f.options.Difficulty, "difficulty", "", "easy or hard questions only")
	c.Flags().StringVar(&f.options.Context, "context", "", "short, medium or long contexts only")
	return c
}

// setFiles are the sources, and of folders the files that hold rows, by their names:
// others there, such as prompts of an earlier run, are no sources.
func setFiles(sources []string) []string {
	return slices.DeleteFunc(filesOf(sources, ".jsonl", ".gz", ".zip", ".json"), func(file string) bool {
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		return !slices.Contains(sources, file) && name != "data" && !slices.Contains(setNames(), strings.TrimSuffix(name, "_e"))
	})
}

func setNames() (names []string) {
	for _, s := range longbench.Sets() {
		names = append(names, s.Name)
	}
	return names
}

// wrapped is a list of names in lines of help.
func wrapped(names []string) string {
	var b strings.Builder
	width := 12
	for i, name := range names {
		if width += len(name) + 2; width > 84 {
			b.WriteString(",\n  ")
			width = len(name) + 4
		} else if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
	}
	return b.String()
}
