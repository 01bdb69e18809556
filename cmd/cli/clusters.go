package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

func newClustersCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "clusters TRACE -o FILE",
		Short: "Write the clusters that a trace's selector ranked, for replay --clusters",
		Long: `Write the clusters of tokens that the lists of a trace show, a JSON object a stream:
of a selector that ranks clusters, which lists a cluster's tokens side by side. Any
trace of the same requests can be replayed with them. The trace's selector must be one
that ranks clusters: retroinfer or kvdrive.`,
		Example: `  kvreplay clusters t.retroinfer.parquet -o clusters.jsonl
  kvreplay replay t.exact.parquet --clusters clusters.jsonl --policy lru`,
		Args: exactlyOne("trace"),
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return usagef("output missing: name it by -o FILE")
			}
			return writeClusters(c.Context(), args[0], out)
		},
	}
	outVar(c.Flags(), &out, "the file to write; appears only when all went well")
	return c
}

func writeClusters(ctx context.Context, path, out string) error {
	if err := checkOutput("clusters", out, []string{path}); err != nil {
		return err
	}
	f, err := trace.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	file, err := files.Create(out)
	if err != nil {
		return fmt.Errorf("clusters: %w", err)
	}
	defer file.Abort()
	w := &output{w: file}
	if err := replay.WriteClusters(ctx, w, f); w.err != nil {
		return fmt.Errorf("clusters %s: %w", out, w.err)
	} else if err != nil {
		return err
	}
	if err := file.Commit(); err != nil {
		return fmt.Errorf("clusters: write %s: %w", out, err)
	}
	return nil
}
