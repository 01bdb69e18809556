package cli

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// A help page fits a screen. If a command has too many flags and details, --help leaves out the
// details and the rarely used flags, and --help-all prints them.
const (
	helpLines   = 40
	helpColumns = 100
	helpAllFlag = "help-all"
)

// Annotations of flags and commands.
const (
	moreKey    = "more"    // of a flag that few need
	detailsKey = "details" // of a command: text that --help-all adds
)

func init() { cobra.EnableCommandSorting = false } // help lists commands as they are declared

// addHelpFlags adds --help and --help-all, which cobra takes for one flag.
func addHelpFlags(c *cobra.Command) {
	var help bool
	c.Flags().BoolVarP(&help, "help", "h", false, "print this help")
	c.Flags().BoolVar(&help, helpAllFlag, false, "print this help with all flags")
}

// printHelp prints the help of a command to its output, which keeps the first error.
func printHelp(c *cobra.Command, _ []string) {
	page := helpPage(c, true)
	if strings.Count(page, "\n") > helpLines && !c.Flags().Changed(helpAllFlag) {
		page = helpPage(c, false)
	}
	_, _ = io.WriteString(c.OutOrStdout(), page)
}

// helpPage returns the help of a command, with details and the flags that few need if all is set.
func helpPage(c *cobra.Command, all bool) string {
	parts := []string{strings.TrimSpace(c.Long)}
	if c.Long == "" {
		parts[0] = c.Short + "."
	}
	if details := c.Annotations[detailsKey]; all && details != "" {
		parts = append(parts, wrapped(strings.TrimRight(details, "\n")))
	}
	if c.Runnable() {
		usage := "Usage: " + c.UseLine()
		switch {
		case !c.HasParent(): // in one part with the first, so that the page fits a screen
			parts[0] += "\nUsage: kvreplay COMMAND [flags]"
			usage = ""
		case c.HasAvailableSubCommands():
			usage += "\n       " + c.CommandPath() + " COMMAND [flags]"
		}
		if usage != "" {
			parts = append(parts, usage)
		}
	}
	if c.Example != "" {
		parts = append(parts, "Examples:\n"+c.Example)
	}
	parts = append(parts, commandLists(c)...)
	if flags := flagUsages(c, false); flags != "" {
		parts = append(parts, "Flags:\n"+flags)
	}
	more := flagUsages(c, true)
	switch {
	case !all:
		parts = append(parts, "More: "+c.CommandPath()+" --"+helpAllFlag)
	case more != "":
		parts = append(parts, "More flags:\n"+more)
	}
	if !c.HasParent() {
		parts = append(parts, rootNotes)
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// unlisted are commands without a line in a list of commands. rootNotes has those of kvreplay.
var unlisted = []string{"help", "version", "completion"}

// commandLists returns the commands below c: a list for each group, or one list.
func commandLists(c *cobra.Command) (lists []string) {
	width := 0
	for _, sub := range c.Commands() {
		width = max(width, len(sub.Name()))
	}
	list := func(title, group string) {
		text := title
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.GroupID == group && !slices.Contains(unlisted, sub.Name()) {
				text += fmt.Sprintf("\n  %-*s  %s", width, sub.Name(), sub.Short)
			}
		}
		if text != title {
			lists = append(lists, text)
		}
	}
	for _, g := range c.Groups() {
		list(g.Title+":", g.ID)
	}
	list("Commands:", "")
	return lists
}

// flagUsages returns the lines of the flags that few need, or of the others, as they are declared.
func flagUsages(c *cobra.Command, more bool) string {
	c.InheritedFlags() // adds them to those of the command
	list := pflag.NewFlagSet("", pflag.ContinueOnError)
	list.SortFlags = false
	own := c.Flags()
	sorted := own.SortFlags
	own.SortFlags = false
	own.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains([]string{"help", helpAllFlag, "version"}, f.Name) && (f.Annotations[moreKey] != nil) == more {
			list.AddFlag(f)
		}
	})
	own.SortFlags = sorted
	return strings.TrimRight(list.FlagUsagesWrapped(helpColumns), "\n")
}

var columns = regexp.MustCompile(`^ *\S.*?  +`)

// wrapped breaks lines that are too long for a page after a space or comma. The rest of a list's line
// is indented as its second column, or by four.
func wrapped(text string) string {
	var out []string
	for _, line := range strings.Split(text, "\n") {
		indent := 0
		if strings.HasPrefix(line, " ") {
			indent = max(4, utf8.RuneCountInString(columns.FindString(line)))
		}
		for rest := []rune(line); ; {
			end := len(rest)
			if end > helpColumns {
				for end = helpColumns; end > indent && !strings.ContainsRune(" ,", rest[end-1]); {
					end--
				}
			}
			out = append(out, strings.TrimRight(string(rest[:end]), " "))
			if end == len(rest) {
				break
			}
			rest = append([]rune(strings.Repeat(" ", indent)), rest[end:]...)
		}
	}
	return strings.Join(out, "\n")
}

// rootNotes end the help of kvreplay.
const rootNotes = `kvreplay COMMAND --help describes a command, and --help-all adds its less common flags.
kvreplay version prints the version, and kvreplay completion a script that completes commands.
Exit codes: 0 done, 1 failed, 2 wrong command line, 3 results that lack cells, 130 Ctrl-C.`

// newHelpCommand returns `help`. Cobra's own prints the help of kvreplay for an unknown command.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Describe a command",
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			switch {
			case err != nil:
				return errUsage{err}
			case len(rest) > 0:
				return unknownCommand(false)(found, rest)
			}
			return found.Help()
		},
	}
}

// newCombinationsTopic returns the help topic that lists the mechanisms which do not combine.
func newCombinationsTopic(table policies.Table) *cobra.Command {
	kinds := setting.Kinds(table)
	text := "The flags, policies and capacities of `kvreplay replay` combine, except for these:\n"
	all := setting.Conflicts()
	for i, c := range all {
		first := i == 0 || all[i-1].A != c.A
		last := i == len(all)-1 || all[i+1].A != c.A
		head := string(c.A) + membersOf(kinds, c.A, table)
		rest := strings.Join(slice.Map(c.With, func(m setting.Mechanism) string { return string(m) }), ", ") + ": " + c.Why
		switch line := head + " and " + rest; {
		case first && last && utf8.RuneCountInString(line) <= helpColumns:
			text += line + "\n"
		case first:
			text += head + ":\n  " + rest + "\n"
		default:
			text += "  " + rest + "\n"
		}
	}
	return &cobra.Command{Use: "combinations", Short: "List the flags and policies that do not combine", Long: wrapped(text)}
}

// membersOf returns the policies of a kind in brackets, or those outside it if they are fewer.
func membersOf(kinds []setting.Kind, m setting.Mechanism, table policies.Table) string {
	at := slices.IndexFunc(kinds, func(k setting.Kind) bool { return k.Mechanism == m })
	if at < 0 {
		return ""
	}
	in := kinds[at].Policies
	out := slice.Filter(table.Names(), func(name string) bool { return !slices.Contains(in, name) })
	if len(out) > 0 && len(out) < len(in) {
		return " (all except " + strings.Join(out, ", ") + ")"
	}
	return " (" + strings.Join(in, ", ") + ")"
}
