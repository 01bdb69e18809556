// Package cli is the command line of kvreplay: flags and printing only.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1   // the work failed: bad input, disk, a violated rule
	exitUsage       = 2   // the command line is wrong
	exitIncomplete  = 3   // results were printed, but lack cells that replay was asked for
	exitInterrupted = 130 // Ctrl-C; another signal has 128 + its number
)

// errUsage marks errors of the command line.
type errUsage struct{ error }

func (e errUsage) Unwrap() error { return e.error }

// usagef returns an error of the command line; the exit code is 2.
func usagef(format string, args ...any) error { return errUsage{fmt.Errorf(format, args...)} }

// Main runs the command line with the policies of the table and returns the exit code.
// stdout gets data, stderr progress, warnings and errors. A program of one's own with
// further policies is one call:
//
//	cli.Main(policies.NewTable(append(all.Table(), mine)...), os.Args[1:], os.Stdout, os.Stderr)
func Main(table policies.Table, args []string, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal()
	defer stop()
	signal.Ignore(syscall.SIGXFSZ) // a file over the size limit is then an error like a full disk
	root := newRoot(table)
	root.SetArgs(args)
	out := &output{w: stdout}
	root.SetOut(out)
	stderr = messages{stderr}
	root.SetErr(stderr)
	addCompletion(root)
	err := explainForeign(cmp.Or(root.ExecuteContext(ctx), out.close()))
	var usage errUsage
	var target *files.TargetError
	var incomplete *result.Incomplete
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(stderr, "kvreplay: %s\n", interruptedText(err))
		return exitOf(ctx)
	case errors.As(err, &usage), errors.As(err, &target):
		fmt.Fprintf(stderr, "kvreplay: %s\n", indented(err))
		return exitUsage
	case errors.As(err, &incomplete):
		fmt.Fprintf(stderr, "kvreplay: %v\n", err)
		return exitIncomplete
	}
	fmt.Fprintf(stderr, "kvreplay: %s\n", indented(err))
	return exitFailed
}

func newRoot(table policies.Table) *cobra.Command {
	root := &cobra.Command{
		Use:           "kvreplay",
		Short:         "Replay Top-K traces through KV-cache policies",
		Long:          "kvreplay replays recorded Top-K selections of long-context LLM decoding through\nKV-cache policies, counts what must cross PCIe, and ranks the policies against\nthe exact optimum.\n\nWhat a command writes is named by -o, which is short for --out; --output is the same.\n\nExit codes: 0 done, 1 failed, 2 wrong command line, 3 results printed that lack cells\nwhich replay was asked for, 130 stopped by Ctrl-C (128 + n by signal n).",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		Version:       versionText(),
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(newHelpCommand())
	root.SetGlobalNormalizationFunc(oneName)
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("{{.Version}}")
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if out, ok := c.OutOrStdout().(*output); ok && !printsData(c.Flags()) {
			out.forPeople()
		}
		return checkValues(c, args)
	}
	root.PersistentPostRun = printNext
	root.AddCommand(
		newReplayCommand(table),
		newSerialCommand(),
		newPoliciesCommand(table),
		newLeaderboardCommand(table),
		newCompareCommand(table),
		newAllocateCommand(table),
		newImportCommand(),
		newDeriveCommand(),
		newClustersCommand(),
		newTimeCommand(table),
		newPlanCommand(table),
		newReproduceCommand(),
		newInspectCommand(),
		newValidateCommand(),
		newDatasetsCommand(),
		newHardwareCommand(),
		newVersionCommand(),
		newCombinationsTopic(),
	)
	return root
}
