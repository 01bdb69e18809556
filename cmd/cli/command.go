package cli

import (
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// A command declares one command of kvreplay. Its file reads from top to bottom: the help, the
// flags with the checks that concern them alone, the work, and the command to use next.
type command struct {
	use, short, long, example string
	details                   string // text that only --help-all prints
	hidden                    bool   // help does not list it

	args     cobra.PositionalArgs // nil: no arguments, or the name of one of the commands below
	values   []string             // arguments that shells complete
	flags    func(*flagSet)
	run      func(*call) error    // nil: prints the help
	next     func(*call) []string // nil: the output is used elsewhere
	commands []command
	groups   []group // of the commands below, instead of commands
}

// A group is a list of commands that serve one purpose.
type group struct {
	title    string
	commands []command
}

// A call is one run of a command.
type call struct {
	*cobra.Command
	args           []string
	stdout, stderr io.Writer
	bar            *bar     // closed at the end of the run
	suggested      []string // the next command, if only the run can tell
}

// changed reports whether the user gave a flag.
func (c *call) changed(flag string) bool { return c.Flags().Changed(flag) }

// out returns the value of --out, "" if it is not given.
func (c *call) out() string { return c.Flags().Lookup(outFlag).Value.String() }

// cobra makes the command that cobra runs, with those below it.
func (d command) cobra() *cobra.Command {
	c := &cobra.Command{Use: d.use, Short: d.short, Long: d.long, Example: d.example, Args: d.args, ValidArgs: d.values, Hidden: d.hidden,
		Annotations: map[string]string{detailsKey: d.details}}
	switch {
	case d.args == nil && (d.commands != nil || d.groups != nil):
		c.Args = unknownCommand(d.run != nil)
	case d.args == nil:
		c.Args = noArguments
	}
	fl := &flagSet{FlagSet: c.Flags(), inherited: c.PersistentFlags()}
	if d.flags != nil {
		d.flags(fl)
	}
	fl.annotate()
	addHelpFlags(c)
	c.PreRunE = func(*cobra.Command, []string) error {
		for _, check := range fl.checks {
			if err := check(); err != nil {
				return err
			}
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		one := &call{Command: c, args: args, stdout: c.OutOrStdout(), stderr: c.ErrOrStderr(), bar: &bar{w: c.ErrOrStderr()}}
		run := d.run
		if run == nil {
			run = func(*call) error { return c.Help() }
		}
		err := run(one)
		one.bar.close()
		if err != nil {
			return err
		}
		one.printNext(d.next)
		return nil
	}
	for _, below := range d.commands {
		c.AddCommand(below.cobra())
	}
	for _, g := range d.groups {
		c.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, below := range g.commands {
			sub := below.cobra()
			sub.GroupID = g.title
			c.AddCommand(sub)
		}
	}
	return c
}

// commandName returns the path of a command without the program: "datasets list".
func commandName(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

// atLeast checks that a command has n arguments. what names a missing one.
func atLeast(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef("%s: %s missing; usage: %s", commandName(c), what, c.UseLine())
		}
		return nil
	}
}

// exactlyOne checks that a command has one argument, which what names.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s: expected one %s, got %d; usage: %s", commandName(c), what, len(args), c.UseLine())
		}
		return nil
	}
}

func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s: unexpected argument %q; usage: %s", commandName(c), args[0], c.UseLine())
	}
	return nil
}

// unknownCommand refuses the arguments of a group of commands and offers the nearest commands, or all.
// A group that runs by itself needs none of them.
func unknownCommand(runs bool) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		known := slice.Map(c.Commands(), func(sub *cobra.Command) string { return sub.Name() })
		near := names.Nearest(args[0], known)
		if near == "" {
			near = ", expected " + names.Some(known)
			if runs {
				near += fmt.Sprintf(", or `%s` alone", c.CommandPath())
			}
		}
		return usagef("unknown command %q%s; `%s --help` lists them", args[0], near, c.CommandPath())
	}
}

// checkValues rejects arguments and flag values that are mistakes: empty ones (an unset variable),
// "-" (neither stdin nor stdout), unprintable texts, NaN, and a value that is the next flag.
// Completion requests of a shell are exempt, because their last word may be empty.
func checkValues(c *cobra.Command, args []string) (err error) {
	if c.Name() == cobra.ShellCompRequestCmd {
		return nil
	}
	if slices.Contains(args, "") {
		return usagef("%s: an argument is empty (an unset variable?); usage: %s", commandName(c), c.UseLine())
	}
	for _, arg := range args {
		if !result.Printable(arg) {
			return fmt.Errorf("%s: the argument %q is not printable UTF-8: rename the file", commandName(c), arg)
		}
	}
	if _, err := os.Lstat("-"); err != nil && slices.Contains(args, "-") && !strings.Contains(c.Use, "NAME") {
		return usagef("%s: - does not mean stdin: name a file, or /dev/stdin for rows and points", commandName(c))
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		if err == nil {
			err = checkValue(c, f)
		}
	})
	return err
}

func checkValue(c *cobra.Command, f *pflag.Flag) error {
	text := f.Value.String()
	items := []string{text}
	list, ok := f.Value.(pflag.SliceValue)
	if ok {
		items = list.GetSlice()
	}
	for _, item := range items {
		if name, isFlag := strings.CutPrefix(item, "--"); isFlag && c.Flags().Lookup(name) != nil {
			return usagef("--%s has no value: %s, the next word, is a flag", f.Name, item)
		}
	}
	switch {
	case ok && len(items) == 0:
		return usagef("--%s is empty: give at least one value or remove the flag", f.Name)
	case ok && slices.Contains(items, ""):
		return usagef("--%s has an empty item: %q", f.Name, items)
	case !result.Printable(text):
		return usagef("--%s %q is not printable UTF-8: give another value, or rename the file", f.Name, text)
	case text == "":
		return usagef("--%s is empty (an unset variable?): give a value or remove the flag", f.Name)
	case text == "NaN" && f.Value.Type() == "float64":
		return usagef("--%s NaN: expected a number", f.Name)
	case text == "-" && slices.Contains([]string{outFlag, "timeline"}, f.Name):
		return usagef("--%s - does not mean stdout: name a file (./- for a file called -)", f.Name)
	}
	return nil
}

// always returns a fixed next command.
func always(next ...string) func(*call) []string {
	return func(*call) []string { return next }
}

// withArgs returns a next command on the same arguments.
func withArgs(next ...string) func(*call) []string {
	return func(c *call) []string { return slices.Concat(next, c.args) }
}

// withOut returns a next command on the file that was written.
func withOut(next ...string) func(*call) []string {
	return func(c *call) []string {
		if out := c.out(); out != "" {
			return append(slices.Clone(next), out)
		}
		return nil
	}
}

// printNext prints the command to use next for a person at a terminal. Pipes and files get
// nothing.
func (c *call) printNext(next func(*call) []string) {
	if terminal(c.stdout) == nil || terminal(c.stderr) == nil {
		return
	}
	c.args = slices.Clone(c.args)
	for i, arg := range c.args {
		if strings.HasPrefix(arg, "-") {
			c.args[i] = "./" + arg // a file, which is no flag
		}
	}
	words := c.suggested
	if words == nil && next != nil {
		words = next(c)
	}
	if words != nil {
		fmt.Fprintf(c.stderr, "next: %s\n", commandLine(words...))
	}
}

// commandLine returns a command of kvreplay with its arguments quoted for a shell.
func commandLine(args ...string) string {
	return strings.Join(append([]string{"kvreplay"}, slice.Map(args, printable.ShellWord)...), " ")
}

// given returns the flags that the user gave and that the command of a name has too, except
// some, as arguments.
func (c *call) given(name string, except ...string) (args []string) {
	to, _, err := c.Root().Find(strings.Fields(name))
	if err != nil {
		panic(err) // a bug: no such command
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(except, f.Name) || to.Flag(f.Name) == nil {
			return
		}
		list, several := f.Value.(pflag.SliceValue)
		switch {
		case several && f.Value.Type() == "stringSlice":
			args = append(args, "--"+f.Name, commaSeparated(list.GetSlice()))
		case several:
			for _, value := range list.GetSlice() {
				args = append(args, "--"+f.Name, value)
			}
		case f.Value.Type() == "bool":
			args = append(args, strings.TrimSuffix("--"+f.Name+"="+f.Value.String(), "=true"))
		default:
			args = append(args, "--"+f.Name, f.Value.String())
		}
	})
	return args
}

// commaSeparated returns a list as flags read it, as a line of CSV.
func commaSeparated(list []string) string {
	var line strings.Builder
	w := csv.NewWriter(&line)
	_ = w.Write(list) // a Builder takes all
	w.Flush()
	return strings.TrimSuffix(line.String(), "\n")
}
