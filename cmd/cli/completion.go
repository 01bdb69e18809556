package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/systems"
	"github.com/kvreplay/kvreplay/trace"
)

// addCompletion adds cobra's commands for shell scripts. An unknown shell is an error. Shells also complete
// values of flags and names of policies and hardware. Call it after root.SetOut, because the scripts go to
// that output.
func addCompletion(root *cobra.Command, table policies.Table, args []string) {
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Short, c.GroupID = "Print the script that completes commands and values in a shell", "Check"
		c.Args = unknownCommand(false)
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		c.Long = "Print the script that completes commands, flags and their values in a shell.\nThe help of each shell says where to put it."
		addHelpFlags(c)
		for _, shell := range c.Commands() {
			shell.Args, shell.Short = noArguments, "Print the script for "+shell.Name()
			shell.Long = "Print the script that completes kvreplay in " + shell.Name() + ".\n" + whereToPut[shell.Name()]
			addHelpFlags(shell)
			shell.Flags().VisitAll(func(f *pflag.Flag) {
				f.Usage = strings.Replace(f.Usage, "disable completion descriptions", "leave out descriptions", 1)
			})
		}
	}
	// cobra keeps completed flags, and the memory of their commands, until the process ends.
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		completeValues(root, table)
	}
}

// whereToPut says where each shell reads its script.
var whereToPut = map[string]string{
	"bash":       "Add to ~/.bashrc: source <(kvreplay completion bash). It needs the package bash-completion.",
	"zsh":        "Write it to a folder of $fpath as _kvreplay, and begin a new shell.",
	"fish":       "Write it to ~/.config/fish/completions/kvreplay.fish.",
	"powershell": "Add to your profile: kvreplay completion powershell | Out-String | Invoke-Expression",
}

// values returns the words that shells complete, for the arguments typed so far.
type values func(args []string) []string

// completeValues has shells complete the flags and arguments of all commands.
func completeValues(root *cobra.Command, table policies.Table) {
	names := func(list func() []string) values { return func([]string) []string { return list() } }
	items := func(kinds ...hardware.Kind) values {
		return names(func() (all []string) {
			lib, err := new(hardwareFlags).load()
			if err != nil {
				return nil
			}
			for _, k := range kinds {
				all = append(all, lib.Names(k)...)
			}
			return all
		})
	}
	systemNames := names(func() []string {
		lib, err := systems.Load("", table)
		if err != nil {
			return nil
		}
		return append(lib.Names(), "all")
	})
	flags := map[string]values{
		"policy":   names(func() []string { return append(table.Names(), groups...) }),
		"hardware": items(hardware.KindMachine), "model": items(hardware.KindModel), "gpu": items(hardware.KindGPU), "link": items(hardware.KindLink),
		"schedule": names(schedule.Names), "engine": names(operator.EngineNames), "systems": systemNames,
		"layers": layersOf, "section": sectionsOf, "capacity": names(func() []string { return []string{"1x", "1.5x", "2x", "3x", "4x"} }),
	}
	arguments := map[string]values{"policies describe": names(table.Names), "hardware show": items(hardware.Kinds...)}
	var complete func(c *cobra.Command)
	complete = func(c *cobra.Command) {
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			of := flags[f.Name]
			if e, ok := f.Value.(value); ok && e.known != nil {
				of = names(func() []string { return e.known })
			}
			if kind := f.Value.Type(); of == nil || kind == "bool" || kind == "int" {
				return
			}
			_ = c.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				before := typed[:strings.LastIndex(typed, ",")+1]
				words := slice.Map(of(args), func(word string) string { return before + word })
				return words, cobra.ShellCompDirectiveNoFileComp
			})
		})
		if of := arguments[commandName(c)]; of != nil {
			c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				return of(args), cobra.ShellCompDirectiveNoFileComp
			}
		}
		for _, below := range c.Commands() {
			complete(below)
		}
	}
	complete(root)
}

// layersOf returns the layers of the traces among the arguments. It leaves out files that it cannot
// read.
func layersOf(args []string) (layers []string) {
	var all []int
	for _, path := range args {
		t, err := trace.Open(path)
		if err != nil {
			continue
		}
		for _, s := range t.Streams() {
			all = append(all, int(s.Layer))
		}
		t.Close()
	}
	slices.Sort(all)
	return slice.Map(slices.Compact(all), strconv.Itoa)
}
