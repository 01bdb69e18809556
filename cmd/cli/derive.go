package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/trace/derive"
)

// deriveFlags are the flags of `kvreplay derive` as typed.
type deriveFlags struct {
	options       derive.Options
	out, steps    string
	layers, heads []string
}

func newDeriveCommand() *cobra.Command {
	var f deriveFlags
	c := &cobra.Command{
		Use:   "derive SRC -o TRACE",
		Short: "Make a trace of another: fewer streams or steps, a smaller K, larger blocks, the union of heads",
		Long: `Make a trace of another. First requests, layers, heads and steps are selected, then
lists are cut, then tokens become blocks, then heads are united. The same input gives
the same bytes; a note in the metadata says what was derived from which digest.`,
		Example: `  kvreplay derive t.parquet -o small.parquet --topk 128 --candidates 160 --layers 0,5,10-20
  kvreplay derive t.parquet -o blocks.parquet --topk 256 --candidates 256 --block-tokens 8
  kvreplay derive t.parquet -o shared.parquet --heads union --steps -32:64`,
		Args: exactlyOne("source trace"),
		RunE: func(c *cobra.Command, args []string) error { return runDerive(c, args[0], &f) },
	}
	fl, o := c.Flags(), &f.options
	outVar(fl, &f.out, "the trace to write; appears only when all went well")
	fl.IntVar(&o.TopK, "topk", 0, "K, the demand, in indices of the source's lists (default: the source's)")
	fl.IntVar(&o.Candidates, "candidates", 0, "M, the length that lists are cut to, demand included, likewise (default: the source's)")
	fl.IntVar(&o.BlockTokens, "block-tokens", 0, "tokens that one index stands for, a multiple of the source's (default: the source's)")
	fl.StringSliceVar(&f.layers, "layers", nil, "layers to keep: numbers and ranges, as in 0,5,10-20 (default: all)")
	fl.StringSliceVar(&o.Requests, "requests", nil, "requests to keep, by id (default: all)")
	fl.StringSliceVar(&f.heads, "heads", nil, "heads to keep, by number, or union: one list a layer of what any head demands (default: all, apart)")
	fl.StringVar(&f.steps, "steps", "", "steps to keep, FROM:TO without TO; either may be left out (default: all)")
	return c
}

// complete turns what was typed into options.
func (f *deriveFlags) complete(c *cobra.Command) (err error) {
	if f.out == "" {
		return usagef("output missing: name it by -o TRACE")
	}
	if err := atLeastOne(c, "topk", "candidates", "block-tokens"); err != nil {
		return err
	}
	if f.options.Layers, err = parseLayers(f.layers); err != nil {
		return usagef("%w", err)
	}
	if err := f.parseHeads(); err != nil {
		return err
	}
	if c.Flags().Changed("steps") {
		if f.options.Steps, err = derive.ParseSteps(f.steps); err != nil {
			return usagef("%w", err)
		}
	}
	return nil
}

// parseHeads reads "union", numbers, or both.
func (f *deriveFlags) parseHeads() error {
	for _, text := range f.heads {
		text = strings.TrimSpace(text)
		if text == "union" {
			f.options.Union = true
			continue
		}
		h, err := strconv.ParseInt(text, 10, 32)
		if err != nil || h < 0 {
			return usagef("heads %q: expected numbers or union, as in 0,2", text)
		}
		f.options.Heads = append(f.options.Heads, int32(h))
	}
	return nil
}

// runDerive makes the trace; stdout stays empty, the summary goes to stderr.
func runDerive(c *cobra.Command, src string, f *deriveFlags) error {
	if err := f.complete(c); err != nil {
		return err
	}
	r, err := derive.Derive(c.Context(), src, f.out, f.options)
	var unknown *derive.UnknownError
	if errors.As(err, &unknown) {
		return fmt.Errorf("%w%s", err, names.Nearest(unknown.Name, unknown.Known))
	}
	if err != nil {
		return err
	}
	layers := ""
	if f.layers != nil {
		layers = "; layers " + strings.Join(f.layers, ", ") // by number, not so many
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s: %s, %s, %s indices%s\n", f.out, count(r.Streams, "stream"), count(r.Rows, "row"), humanize.Comma(r.Indices), layers)
	if r.Skipped > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "left out, for no step in %v: %s\n", f.options.Steps, count(r.Skipped, "stream"))
	}
	if len(r.Dropped) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "dropped, for lost meaning: %s\n", strings.Join(r.Dropped, ", "))
	}
	return nil
}
