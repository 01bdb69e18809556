// Package cli is the command line of kvreplay: flags and printing only.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/policies"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1   // the work failed: bad input, disk, a violated rule
	exitUsage       = 2   // the command line is wrong
	exitInterrupted = 130 // Ctrl-C
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGXFSZ) // a file over the size limit is then an error like a full disk
	go func() {                    // the first signal drains what is in hand, the second ends the program at once
		<-ctx.Done()
		stop()
	}()
	root := newRoot(table)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage errUsage
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(stderr, "kvreplay: %v\n", err)
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "kvreplay: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "kvreplay: %v\n", err)
	return exitFailed
}

func newRoot(table policies.Table) *cobra.Command {
	root := &cobra.Command{
		Use:           "kvreplay",
		Short:         "Replay Top-K traces through KV-cache policies",
		Long:          "kvreplay replays recorded Top-K selections of long-context LLM decoding through\nKV-cache policies, counts what must cross PCIe, and ranks the policies against\nthe exact optimum.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(unknownFlag)
	root.AddCommand(
		newReplayCommand(table),
		newSerialCommand(),
		newPoliciesCommand(table),
		newLeaderboardCommand(table),
		newCompareCommand(),
		newAllocateCommand(),
		newImportCommand(),
		newDeriveCommand(),
		newClustersCommand(),
		newTimeCommand(),
		newPlanCommand(table),
		newReproduceCommand(),
		newInspectCommand(),
		newValidateCommand(),
		newDatasetsCommand(),
		newHardwareCommand(),
		newVersionCommand(),
	)
	return root
}

func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	return usagef("unknown command %q%s; `kvreplay --help` lists them", args[0], policies.Nearest(args[0], names))
}

// unknownFlag offers the nearest flags to a mistyped one.
func unknownFlag(c *cobra.Command, err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		return usagef("unknown flag --%s%s; `%s --help` lists them", name, policies.Nearest(name, known), c.CommandPath())
	}
	return usagef("%w; see `%s --help`", err, c.CommandPath())
}

// atLeast is an argument check with a message that says what is missing.
func atLeast(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef("%s: %s missing; usage: %s", c.CommandPath(), what, c.UseLine())
		}
		return nil
	}
}
