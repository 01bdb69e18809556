package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/replay"
)

// newCombinationsTopic returns the help topic that lists the mechanisms which do not combine.
func newCombinationsTopic() *cobra.Command {
	var text strings.Builder
	text.WriteString("Flags, policies and capacities of `kvreplay replay` combine, except for these pairs:\n")
	for _, c := range replay.Conflicts() {
		fmt.Fprintf(&text, "\n%s and %s:\n  %s\n", c.A, c.B, c.Why)
	}
	return &cobra.Command{Use: "combinations", Short: "The flags and policies that do not combine", Long: strings.TrimSpace(text.String())}
}
