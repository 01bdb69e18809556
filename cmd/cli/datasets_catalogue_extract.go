package cli

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/bundled"
	"github.com/kvreplay/kvreplay/datasets/catalogue"
	"github.com/kvreplay/kvreplay/internal/files"
)

// embeddedName is the entry of the trace that is part of the binary.
var embeddedName = strings.TrimSuffix(bundled.EmbeddedFile, ".parquet")

func newDatasetsExtractCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "extract NAME -o TRACE",
		Short: "Write the real trace that is in the binary",
		Long: "Write the real trace that is part of the binary, " + embeddedName + ",\n" +
			"to a file, so that there is something to replay without a checkout.",
		Example: "  kvreplay datasets extract " + embeddedName + " -o t.parquet\n  kvreplay replay t.parquet",
		Args:    exactlyOne("name"),
		RunE: func(c *cobra.Command, names []string) error {
			if out == "" {
				return usagef("output missing: name it by -o TRACE")
			}
			e, err := catalogue.Find(names[0])
			switch {
			case err != nil:
				return errUsage{err}
			case e.Name != embeddedName:
				return usagef("%s is not in the binary, only %s is; `kvreplay datasets describe %s` says how it is made", e.Name, embeddedName, e.Name)
			}
			if err := files.Write(out, bundled.Embedded); err != nil {
				return fmt.Errorf("extract: %w", err)
			}
			fmt.Fprintf(c.ErrOrStderr(), "kvreplay: wrote %s, %s bytes; next: kvreplay replay %s\n", out, humanize.Comma(int64(len(bundled.Embedded))), out)
			return nil
		},
	}
	outVar(c.Flags(), &out, "the trace to write; appears only when it is whole")
	return c
}
