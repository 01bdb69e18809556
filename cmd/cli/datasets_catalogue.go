package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/catalogue"
)

func newDatasetsListCommand() *cobra.Command {
	format := "table"
	c := &cobra.Command{
		Use:   "list",
		Short: "List what there is and what can be made",
		Long: `List the catalogue: bundled traces, workloads, synthetic traces, traces of requests.
Of each: what, licence, origin, size, digests, the commands that make it again. The
table leaves out what would not fit; describe and the other formats have all of it.`,
		Example: "  kvreplay datasets list\n  kvreplay datasets list --format csv > catalogue.csv",
		Args:    noArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return runDatasetsList(c.OutOrStdout(), format) },
	}
	c.Flags().StringVar(&format, "format", format, "`table`, json, csv or markdown")
	return c
}

func runDatasetsList(w io.Writer, format string) error {
	if !slices.Contains(catalogue.Formats, format) {
		return usagef("--format %q, expected %s", format, strings.Join(catalogue.Formats, ", "))
	}
	return catalogue.Render(w, catalogue.All(), format)
}

func newDatasetsDescribeCommand() *cobra.Command {
	format := "text"
	c := &cobra.Command{
		Use:     "describe NAME...",
		Short:   "Say all about an entry: licence, origin, digests, how it is made again",
		Example: "  kvreplay datasets describe smollm2_niah_1k_sglang\n  kvreplay datasets describe ruler/vt --format json",
		Args:    atLeast(1, "name"),
		RunE: func(c *cobra.Command, names []string) error {
			if format != "text" && format != "json" {
				return usagef("--format %q, expected text or json", format)
			}
			entries, err := findEntries(names)
			if err != nil {
				return err
			}
			return describeEntries(c.OutOrStdout(), entries, format)
		},
	}
	c.Flags().StringVar(&format, "format", format, "`text` or json (one object an entry)")
	return c
}

// findEntries finds them all; an unknown name is an error of the command line.
func findEntries(names []string) (entries []*catalogue.Entry, err error) {
	for _, name := range names {
		e, err := catalogue.Find(name)
		if err != nil {
			return nil, errUsage{err}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func describeEntries(w io.Writer, entries []*catalogue.Entry, format string) error {
	for i, e := range entries {
		if format == "json" {
			if err := writeJSON(w, e); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := e.Text(w); err != nil {
			return err
		}
	}
	return nil
}
