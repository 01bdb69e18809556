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

// emptyList refuses a list that is given but has nothing in it, as an unset variable
// leaves it: what is left out means all, or a default.
func emptyList(c *cobra.Command, _ []string) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if list, ok := f.Value.(pflag.SliceValue); ok && len(list.GetSlice()) == 0 && err == nil {
			err = usagef("--%s is empty: name at least one, or leave the flag out", f.Name)
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
