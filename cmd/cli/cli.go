// Package cli is the command line of kvreplay: flags and printing only.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/external"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/batch"
	"github.com/kvreplay/kvreplay/trace"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1   // the work failed: bad input, disk, a violated rule
	exitUsage       = 2   // the command line is wrong, or another attempt at a shard would fail too
	exitIncomplete  = 3   // results were printed, but lack cells of their replay command
	exitInterrupted = 130 // Ctrl-C; another signal has 128 + its number
)

// errUsage marks errors of the command line.
type errUsage struct{ error }

func (e errUsage) Unwrap() error { return e.error }

// usagef returns an error of the command line. The exit code is 2.
func usagef(format string, args ...any) error { return errUsage{fmt.Errorf(format, args...)} }

// Main runs the command line with the policies of the table and returns the exit code.
// stdout gets data, stderr progress, warnings and errors. A program of one's own with
// further policies is one call:
//
//	cli.Main(policies.NewTable(append(all.Table(), mine)...), os.Args[1:], os.Stdout, os.Stderr)
func Main(table policies.Table, args []string, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal()
	defer stop()
	defer external.StopAll()
	ignoreSizeLimit()
	root := newRoot(table)
	root.SetArgs(append([]string{}, args...)) // not nil, for which cobra takes os.Args
	out := &output{w: stdout}
	root.SetOut(out)
	stderr = messages{stderr}
	root.SetErr(stderr)
	addCompletion(root, table, args)
	err := explainMissing(explainForeign(cmp.Or(root.ExecuteContext(ctx), out.close())))
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(stderr, "kvreplay: %s\n", interruptedText(err))
		return exitOf(ctx)
	case is[errUsage](err), is[*files.TargetError](err), is[*batch.Permanent](err):
		fmt.Fprintf(stderr, "kvreplay: %s\n", indented(err))
		return exitUsage
	case is[*result.Incomplete](err):
		fmt.Fprintf(stderr, "kvreplay: %v\n", err)
		return exitIncomplete
	}
	fmt.Fprintf(stderr, "kvreplay: %s\n", indented(err))
	return exitFailed
}

// is reports whether an error is, or wraps, one of a type.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func newRoot(table policies.Table) *cobra.Command {
	d := command{
		use:   "kvreplay",
		short: "Replay Top-K traces through KV-cache policies",
		long:  `kvreplay replays recorded Top-K selections of LLMs through KV-cache policies and counts the misses.`,
		next:  always("datasets", "extract", embeddedName, "-o", "t.parquet"),
		groups: []group{
			{"Run", []command{demoCommand(table), replayCommand(table), batchCommand(table), policiesCommand(table), submitCommand(table), allocateCommand(table)}},
			{"Look", []command{leaderboardCommand(table), compareCommand(table), plotCommand(table), sweepOptionsCommand(table), inspectCommand()}},
			{"Time", []command{timeCommand(table), planCommand(table), adviseCommand(table), systemsCommand(table), serveCommand(table), hardwareCommand()}},
			{"Traces and workloads", []command{importCommand(), deriveCommand(), clustersCommand(), datasetsCommand()}},
			{"Check", append([]command{validateCommand(), reproduceCommand(), serialCommand(), versionCommand()}, manCommands()...)},
		},
	}
	root := d.cobra()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = versionText() // cobra's default for --version: SetVersionTemplate links text/template
	root.SetHelpCommand(newHelpCommand())
	root.SetHelpFunc(printHelp)
	root.SetGlobalNormalizationFunc(oneName)
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if out, ok := c.OutOrStdout().(*output); ok && !printsData(c.Flags()) {
			out.text = printable.NewWriter(out.w)
		}
		return checkValues(c, args)
	}
	root.AddCommand(newCombinationsTopic(table))
	return root
}

// The Makefile sets them through -ldflags. A plain `go install` leaves them empty, and the build
// information of the module is used.
var version, commit, built string

func versionCommand() command {
	return command{
		use:   "version",
		short: "Print version, commit and build information",
		run: func(c *call) error {
			_, err := fmt.Fprintf(c.stdout, "%s version %s\n", c.Root().DisplayName(), c.Root().Version)
			return err
		},
	}
}

// versionText is the text of `version` and --version behind "kvreplay version ".
func versionText() string {
	orUnknown := func(s ...string) string { return cmp.Or(append(s, "unknown")...) }
	ofModule, ofCommit, ofTime := "", "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		ofModule, ofCommit, ofTime = buildOf(info)
	}
	return fmt.Sprintf("%s\ncommit   %s\nbuilt    %s\ngo       %s %s/%s\n"+
		"engine   %s (replay semantics)\ntrace    v%d\nrows     schema %d",
		orUnknown(version, ofModule), orUnknown(commit, ofCommit), orUnknown(built, ofTime),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, replay.EngineVersion, trace.Version, result.RowSchema)
}

// buildOf returns the version, commit and time of kvreplay that the build information states.
// A program with its own policies has kvreplay as a dependency. The commit is then that of
// the other module, and only the version is known.
func buildOf(info *debug.BuildInfo) (version, commit, at string) {
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

// stopSignals end the work in good order: Ctrl-C, kill, and a terminal that goes away.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

// stoppedBy is the cause of a context that a signal ended.
type stoppedBy syscall.Signal

func (s stoppedBy) Error() string { return "stopped by " + syscall.Signal(s).String() }

// untilSignal returns a context that the first signal ends, so that begun work finishes. The second
// signal ends the program at once. Signals that the program was started to ignore (nohup) stay
// ignored.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	arrived := make(chan os.Signal, 1)
	for _, s := range stopSignals {
		if !signal.Ignored(s) {
			signal.Notify(arrived, s)
		}
	}
	go func() {
		select {
		case s := <-arrived:
			cancel(stoppedBy(s.(syscall.Signal)))
		case <-ctx.Done():
		}
		signal.Stop(arrived)
	}()
	return ctx, func() { cancel(nil) }
}

// unlessStopped returns the result of f, or the context's error if the context ends first. f only reads or
// computes. Its goroutine is then abandoned.
func unlessStopped[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// exitOf returns the exit code of stopped work: 128 plus the signal's number, as shells return.
func exitOf(ctx context.Context) int {
	if by, ok := errors.AsType[stoppedBy](context.Cause(ctx)); ok {
		return 128 + int(by)
	}
	return exitInterrupted
}

// interruptedText returns the message of stopped work. It states which counts are kept.
func interruptedText(err error) string {
	if is[*replay.Interrupted](err) {
		return err.Error()
	}
	return strings.ReplaceAll(err.Error(), context.Canceled.Error(), "interrupted; no unfinished file is left")
}
