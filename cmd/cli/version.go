package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/metrics/result"
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
		ofModule, ofCommit, ofTime := stated(info)
		v, rev, at = cmp.Or(v, ofModule), cmp.Or(rev, ofCommit), cmp.Or(at, ofTime)
	}
	orUnknown := func(s string) string { return cmp.Or(s, "unknown") }
	return fmt.Sprintf("kvreplay %s\ncommit   %s\nbuilt    %s\ngo       %s %s/%s\nengine   %s (replay semantics)\ntrace    v%d\nrows     schema %d\n",
		orUnknown(v), orUnknown(rev), orUnknown(at), runtime.Version(), runtime.GOOS, runtime.GOARCH, replay.EngineVersion, trace.Version, result.RowSchema)
}

// stated is what the build information says of kvreplay: its version, commit and time. A
// program with policies of its own has it as a dependency; the commit is then the other
// module's, and only the version is kvreplay's.
func stated(info *debug.BuildInfo) (version, commit, at string) {
	if info.Main.Path != moduleOf {
		i := slices.IndexFunc(info.Deps, func(d *debug.Module) bool { return d.Path == moduleOf })
		switch {
		case i < 0:
			return "", "", ""
		case info.Deps[i].Replace != nil:
			return cmp.Or(info.Deps[i].Replace.Version, "(devel)"), "", ""
		}
		return info.Deps[i].Version, "", ""
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.time":
			at = s.Value
		}
	}
	return info.Main.Version, commit, at
}
