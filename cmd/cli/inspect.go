package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/requests"
	"github.com/kvreplay/kvreplay/trace/inspect"
)

func newInspectCommand() *cobra.Command {
	var o inspect.Options
	format := "text"
	c := &cobra.Command{
		Use:   "inspect FILE...",
		Short: "Show what is in a trace, or in a trace of requests",
		Long: `Show what is in a file, whose kind is told from its content.

A trace (Parquet): metadata, extent, and the locality of its demand, that is of the
first K blocks of each list at counted steps: overlap of consecutive steps, working
sets, reuse distances, re-entry gaps, first-seen and pinned shares.
trace/locality/README.md defines each figure.

A trace of requests (Azure LLM inference CSV, Mooncake JSON lines; gzip'ed or not):
arrivals, lengths of prompts and answers, shared prefixes; --topk and --layers mean
nothing there. datasets/requests/README.md defines each figure.`,
		Example: "  kvreplay inspect t.parquet --layers\n  kvreplay inspect --topk 128 --format json t.parquet\n  kvreplay inspect conversation_trace.jsonl",
		Args:    atLeast(1, "trace"),
		RunE: func(c *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usagef("--format %q, expected text or json", format)
			}
			if err := atLeastOne(c, "topk"); err != nil {
				return err
			}
			if err := noLayers(c, args); err != nil {
				return err
			}
			return runInspect(c, args, o, format)
		},
	}
	c.Flags().IntVar(&o.TopK, "topk", 0, "K of the demand, in blocks (default: the trace's)")
	c.Flags().VarPF((*eachLayer)(&o.Layers), "layers", "", "locality of each layer as well; takes no layers").NoOptDefVal = "true"
	c.Flags().StringVar(&format, "format", format, "`text` or json (one object a file)")
	return c
}

// eachLayer is --layers of inspect: a flag that is given or not, which refuses the 1 and 0
// that stand for true and false elsewhere, as they could be layers.
type eachLayer bool

func (e *eachLayer) Set(text string) error {
	if text != "true" && text != "false" {
		return strconv.ErrSyntax
	}
	*e = text == "true"
	return nil
}

func (e *eachLayer) String() string { return strconv.FormatBool(bool(*e)) }

// Type is that of flags without a value.
func (*eachLayer) Type() string { return "bool" }

// noLayers refuses layers behind --layers, which takes none here as it does of replay and
// derive: they would be taken for a file.
func noLayers(c *cobra.Command, args []string) error {
	f := c.Flags().Lookup("layers")
	if !f.Changed {
		return nil
	}
	for _, arg := range args {
		if _, err := parseLayers(strings.Split(arg, ",")); err != nil {
			continue
		}
		if _, err := os.Stat(arg); err != nil {
			return usagef("--layers shows the locality of every layer and takes none, %q is given; `kvreplay derive --layers` keeps a few", arg)
		}
	}
	return nil
}

// report is what is known of one file; it encodes as JSON.
type report interface{ Text(io.Writer) error }

func runInspect(c *cobra.Command, paths []string, o inspect.Options, format string) error {
	for i, path := range paths {
		r, err := inspectFile(c.Context(), path, o)
		if err != nil {
			return err
		}
		if format == "json" {
			err = json.NewEncoder(c.OutOrStdout()).Encode(r)
		} else {
			if i > 0 {
				fmt.Fprintln(c.OutOrStdout())
			}
			err = r.Text(c.OutOrStdout())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inspectFile describes a trace or a trace of requests.
func inspectFile(ctx context.Context, path string, o inspect.Options) (report, error) {
	found, err := requests.Detect(path)
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	switch {
	case found == requests.Parquet:
		return inspect.File(ctx, path, o)
	case found == requests.Unknown:
		if text := foreignText(path); text != "" {
			return nil, fmt.Errorf("inspect: %s", text)
		}
		_, err := requests.Open(path)
		return nil, fmt.Errorf("inspect: %w; or a trace (Parquet), which `kvreplay import` makes of captures", err)
	case o.TopK != 0:
		return nil, usagef("--topk is of traces with selections; %s is one of requests (%v)", path, found)
	case o.Layers:
		return nil, usagef("--layers is of traces with selections; %s is one of requests (%v)", path, found)
	}
	return requests.Summarise(ctx, path)
}
