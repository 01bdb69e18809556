package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/trace/inspect"
)

func newInspectCommand() *cobra.Command {
	var o inspect.Options
	format := "text"
	c := &cobra.Command{
		Use:   "inspect FILE...",
		Short: "Show what is in a trace and how its demand repeats",
		Long: `Show what is in a trace: metadata, extent, and the locality of its demand, that is of
the first K blocks of each list at counted steps: overlap of consecutive steps,
working sets, reuse distances, re-entry gaps, first-seen and pinned shares.
trace/locality/README.md defines each figure.`,
		Example: "  kvreplay inspect t.parquet --layers\n  kvreplay inspect --topk 128 --format json t.parquet",
		Args:    atLeast(1, "trace"),
		RunE: func(c *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usagef("--format %q, expected text or json", format)
			}
			if c.Flags().Changed("topk") && o.TopK < 1 {
				return usagef("--topk %d, expected at least 1", o.TopK)
			}
			return runInspect(c, args, o, format)
		},
	}
	c.Flags().IntVar(&o.TopK, "topk", 0, "K of the demand, in blocks (default: the trace's)")
	c.Flags().BoolVar(&o.Layers, "layers", false, "locality of each layer as well")
	c.Flags().StringVar(&format, "format", format, "`text` or json (one object a file)")
	return c
}

func runInspect(c *cobra.Command, paths []string, o inspect.Options, format string) error {
	for i, path := range paths {
		r, err := inspect.File(c.Context(), path, o)
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
