package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/metrics"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// Set by the Makefile through -ldflags; a plain `go install` leaves them empty and
// the build information of the module is used.
var version, commit, built string

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and build information",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := io.WriteString(c.OutOrStdout(), versionText())
			return err
		},
	}
}

// versionText is what `version` and --version print.
func versionText() string {
	v, rev, at := version, commit, built
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && rev == "":
				rev = s.Value
			case s.Key == "vcs.time" && at == "":
				at = s.Value
			}
		}
	}
	orUnknown := func(s string) string {
		if s == "" {
			return "unknown"
		}
		return s
	}
	return fmt.Sprintf("kvreplay %s\ncommit   %s\nbuilt    %s\ngo       %s %s/%s\nengine   %s (replay semantics)\ntrace    v%d\nrows     schema %d\n",
		orUnknown(v), orUnknown(rev), orUnknown(at), runtime.Version(), runtime.GOOS, runtime.GOARCH, replay.EngineVersion, trace.Version, metrics.RowSchema)
}
