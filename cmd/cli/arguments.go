package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/policies"
)

// atLeast is an argument check with a message that says what is missing.
func atLeast(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef("%s: %s missing; usage: %s", c.CommandPath(), what, c.UseLine())
		}
		return nil
	}
}

// exactlyOne is the argument check of commands with one input.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s: expected one %s, got %d; usage: %s", c.CommandPath(), what, len(args), c.UseLine())
		}
		return nil
	}
}

// noArguments is the argument check of a command that takes flags only.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s: unexpected argument %q; usage: %s", c.CommandPath(), args[0], c.UseLine())
	}
	return nil
}

// unknownCommand is the argument check of a group of commands: it offers the nearest ones.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	return usagef("unknown command %q%s; `%s --help` lists them", args[0], policies.Nearest(args[0], names), c.CommandPath())
}

// unknownFlag offers the nearest flags to a mistyped one.
func unknownFlag(c *cobra.Command, err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		near := policies.Near(name, known)
		for i := range near {
			near[i] = "--" + near[i]
		}
		return usagef("unknown flag --%s%s; `%s --help` lists them", name, policies.DidYouMean(near), c.CommandPath())
	}
	return usagef("%w; see `%s --help`", err, c.CommandPath())
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
