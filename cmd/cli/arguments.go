package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// commandName is "datasets list" of `kvreplay datasets list`: errors begin with the
// program's name already.
func commandName(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

// atLeast is an argument check with a message that says what is missing.
func atLeast(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef("%s: %s missing; usage: %s", commandName(c), what, c.UseLine())
		}
		return nil
	}
}

// exactlyOne is the argument check of commands with one input.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s: expected one %s, got %d; usage: %s", commandName(c), what, len(args), c.UseLine())
		}
		return nil
	}
}

// noArguments is the argument check of a command that takes flags only.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s: unexpected argument %q; usage: %s", commandName(c), args[0], c.UseLine())
	}
	return nil
}

// unknownCommand is the argument check of a group of commands: it offers the nearest ones.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, sub := range c.Commands() {
		known = append(known, sub.Name())
	}
	return usagef("unknown command %q%s; `%s --help` lists them", args[0], names.Nearest(args[0], known), c.CommandPath())
}

// addCompletion adds cobra's group of scripts for shells, in which a shell without one is an
// error as in any group. The scripts go to what the root's output is by now.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Args = unknownCommand
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		for _, shell := range c.Commands() {
			shell.Args = noArguments
		}
	}
}

// checkValues refuses values that are none: an empty argument or value, and a list with nothing
// in it, as an unset variable leaves them, where leaving the flag out means all or a default,
// or that nothing is kept; and "-", which is not stdin for an input, nor stdout for an output.
// A shell that asks for completions ends with the word that is typed, which may be empty still.
func checkValues(c *cobra.Command, args []string) (err error) {
	if c.Name() == cobra.ShellCompRequestCmd {
		return nil
	}
	if slices.Contains(args, "") {
		return usagef("%s: an argument is empty, as an unset variable leaves it; usage: %s", commandName(c), c.UseLine())
	}
	for _, arg := range args {
		if !result.Printable(arg) {
			return fmt.Errorf("%s: the argument %q is not printable UTF-8: rename the file", commandName(c), arg)
		}
	}
	if _, err := os.Lstat("-"); err != nil && slices.Contains(args, "-") && !strings.Contains(c.Use, "NAME") {
		return usagef("%s: - is not stdin: name a file (rows and points can be piped to /dev/stdin)", commandName(c))
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		list, ok := f.Value.(pflag.SliceValue)
		switch {
		case err != nil:
		case ok && len(list.GetSlice()) == 0:
			err = usagef("--%s is empty: name at least one, or leave the flag out", f.Name)
		case ok && slices.Contains(list.GetSlice(), ""):
			err = usagef("--%s has an empty item: %q", f.Name, list.GetSlice())
		case !result.Printable(f.Value.String()):
			err = usagef("--%s %q is not printable UTF-8: give another value, or rename the file", f.Name, f.Value.String())
		case f.Value.String() == "":
			err = usagef("--%s is empty, as an unset variable leaves it: give a value, or leave the flag out", f.Name)
		case f.Value.String() == "-" && slices.Contains([]string{outFlag, "timeline"}, f.Name):
			err = usagef("--%s - is not stdout: name a file (./- is one called -)", f.Name)
		}
	})
	return err
}

// goWith refuses flags that are given without the one that they go with.
func goWith(c *cobra.Command, with string, names ...string) error {
	if c.Flags().Changed(with) {
		return nil
	}
	for _, name := range names {
		if c.Flags().Changed(name) {
			return usagef("--%s goes with --%s", name, with)
		}
	}
	return nil
}

// newHelpCommand is cobra's `help`, which takes an unknown command for none.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			switch {
			case err != nil:
				return errUsage{err}
			case len(rest) > 0:
				return unknownCommand(found, rest)
			}
			found.InitDefaultHelpFlag() // which Help lists
			return found.Help()
		},
	}
}
