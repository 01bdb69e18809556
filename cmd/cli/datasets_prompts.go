package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
)

// promptsFlags are the flags that makers of prompts share, as typed.
type promptsFlags struct {
	out, tokenizer string
	seed           uint64
}

func (f *promptsFlags) define(fl *pflag.FlagSet) {
	outVar(fl, &f.out, "the prompts file to write, with its manifest beside it; both appear only when all went well")
	fl.StringVar(&f.tokenizer, "tokenizer", "", "what counts tokens: a built-in vocabulary, or the path of a model's tokenizer.json (default: "+tokens.Default+")")
}

// promptsMaker makes prompts, hands each on, and says what they are.
type promptsMaker func(ctx context.Context, t tokens.Tokenizer, write func(*prompts.Row) error) (*prompts.Manifest, error)

// write makes the prompts file and its manifest, of inputs, which it must not replace.
// stdout stays empty, the summary goes to stderr.
func (f *promptsFlags) write(c *cobra.Command, inputs []string, make promptsMaker) error {
	if f.out == "" {
		return usagef("output missing: name it by -o PROMPTS.jsonl")
	}
	inputs = append(filesOf([]string{f.tokenizer}, ".json"), inputs...)
	for _, out := range []string{f.out, prompts.ManifestPath(f.out)} {
		if err := checkOutput("make "+c.Name(), out, inputs); err != nil {
			return err
		}
	}
	t, err := unlessStopped(c.Context(), func() (tokens.Tokenizer, error) { return tokens.Open(f.tokenizer) })
	if err != nil {
		return err
	}
	w, err := prompts.Create(f.out)
	if err != nil {
		return err
	}
	defer w.Abort()
	lengths := promptLengths{}
	m, err := make(c.Context(), t, func(r *prompts.Row) error {
		lengths.add(r)
		return w.Write(r)
	})
	if err != nil {
		return err
	}
	m.Command = typed(c)
	if err := w.Close(m); err != nil {
		return err
	}
	lengths.print(c.ErrOrStderr(), f.out, m)
	return nil
}

// typed is the command line without the output, which the manifest names already.
func typed(c *cobra.Command) []string {
	words := strings.Fields(c.CommandPath())
	words = append(words, c.Flags().Args()...)
	c.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if f.Name != outFlag {
				words = append(words, "--"+f.Name+"="+v)
			}
		}
	})
	return words
}

// promptLengths are the shortest and the longest prompt of each task at each length.
type promptLengths map[prompts.Task]*[2]int

func (l promptLengths) add(r *prompts.Row) {
	task := prompts.Task{Name: r.Task, MaxLength: r.MaxLength}
	if l[task] == nil {
		l[task] = &[2]int{r.Length, r.Length}
	}
	l[task][0] = min(l[task][0], r.Length)
	l[task][1] = max(l[task][1], r.Length)
}

func (l promptLengths) print(w io.Writer, path string, m *prompts.Manifest) {
	fmt.Fprintf(w, "%s: %s, counted by %s\n", path, count(m.Rows, "prompt"), m.Tokenizer)
	for _, t := range m.Tasks {
		fmt.Fprintf(w, "  %-36s %4d", t.Name, t.Rows)
		if span := l[prompts.Task{Name: t.Name, MaxLength: t.MaxLength}]; span != nil {
			fmt.Fprintf(w, " of %s to %s tokens, generation included", humanize.Comma(int64(span[0])), humanize.Comma(int64(span[1])))
		}
		fmt.Fprintln(w)
	}
}
