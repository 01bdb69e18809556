package cli

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/datasets/requests"
	"github.com/kvreplay/kvreplay/internal/printable"
)

// commandLine is the command of kvreplay with these arguments, as a shell takes it.
func commandLine(args ...string) string {
	line := "kvreplay"
	for _, arg := range args {
		line += " " + printable.ShellWord(arg)
	}
	return line
}

// nextKey is the annotation of a command with the line that printNext prints.
const nextKey = "next"

// suggest sets the command to use after c, if only the run of c could tell.
func suggest(c *cobra.Command, args ...string) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[nextKey] = commandLine(args...)
}

// nextCommands are the commands to use after a command has succeeded, by its path. Commands
// that know better call suggest.
var nextCommands = map[string]func(c *cobra.Command, args []string) []string{
	"":                        always("datasets", "extract", embeddedName, "-o", "t.parquet"),
	"datasets":                always("datasets", "list"),
	"datasets list":           always("datasets", "describe", embeddedName),
	"datasets describe":       always("datasets", "extract", embeddedName, "-o", "t.parquet"),
	"datasets extract":        withOut("replay"),
	"datasets make synthetic": withOut("replay"),
	"datasets fit":            withOut("datasets", "make", "synthetic", "-o", "synthetic.parquet", "--dials"),
	"import":                  withOut("replay"),
	"derive":                  withOut("replay"),
	"clusters":                withOut("replay", "TRACE", "--clusters"),
	"inspect":                 nextOfInspect,
	"validate":                withArgs("replay"),
	"serial":                  withArgs("replay"),
	"replay":                  nextOfReplay,
	"leaderboard verify":      withArgs("leaderboard"),
	"compare":                 nextOfCompare,
	"allocate":                nextOfAllocate,
	"time":                    nextOfTime,
	"policies":                always("policies", "describe", "lru"),
	"policies describe": func(_ *cobra.Command, args []string) []string {
		return []string{"replay", "TRACE", "--policy", args[0]}
	},
	"hardware":      always("hardware", "list"),
	"hardware list": always("hardware", "show", "h100"),
	"hardware check": func(_ *cobra.Command, args []string) []string {
		return []string{"hardware", "list", "--hardware-dir", filepath.Dir(args[0])}
	},
	"hardware show":    always("hardware", "price", "--hardware", "h100", "--entry-bytes", "656", "--blocks", "2048"),
	"hardware price":   always("hardware", "points"),
	"hardware extents": withArgs("replay"),
	"reproduce":        nextOfReproduce,
}

// lastCommands have no next command in kvreplay: what they write goes elsewhere.
var lastCommands = []string{"version", "combinations", "policies new", "datasets card", "datasets verify", "datasets make", "datasets make longbench",
	"datasets make longbench-v2", "datasets make offline", "datasets make ruler", "hardware fit", "hardware points", "leaderboard", "plan"}

func always(next ...string) func(*cobra.Command, []string) []string {
	return func(*cobra.Command, []string) []string { return next }
}

// withArgs is a command on the same arguments.
func withArgs(next ...string) func(*cobra.Command, []string) []string {
	return func(_ *cobra.Command, args []string) []string { return slices.Concat(next, args) }
}

// withOut is a command on the file that was written.
func withOut(next ...string) func(*cobra.Command, []string) []string {
	return func(c *cobra.Command, _ []string) []string {
		if out := c.Flags().Lookup(outFlag).Value.String(); out != "" {
			return append(slices.Clone(next), out)
		}
		return nil
	}
}

func nextOfInspect(_ *cobra.Command, args []string) []string {
	if found, err := requests.Detect(args[0]); err != nil || found != requests.Parquet {
		return nil // requests have no selections to replay
	}
	return append([]string{"replay"}, args...)
}

// nextOfReplay keeps the rows, with the optimum among them, and then ranks. A profile is for
// plan.
func nextOfReplay(c *cobra.Command, args []string) []string {
	typed, _ := c.Flags().GetStringArray("policy")
	optimum := slices.ContainsFunc(splitPolicies(typed), func(p string) bool { return slices.Contains([]string{"all", "lossy", "opt"}, strings.ToLower(p)) })
	out := c.Flags().Lookup(outFlag).Value.String()
	if _, err := profileIn(out); c.Flags().Changed("profile") && err == nil { // plan takes one profile
		return []string{"plan", out, "--layer-map", "nearest"}
	}
	if out != "" && optimum {
		return []string{"leaderboard", out}
	}
	next := slices.Concat([]string{"replay"}, args, givenFlags(c, "replay", "format", "explain", outFlag))
	if !optimum {
		next = append(next, "--policy", "opt")
	}
	if !c.Flags().Changed("per") {
		next = append(next, "--per", "request") // a board then has intervals
	}
	return append(next, "--out", cmp.Or(out, resultsFolder))
}

// nextOfCompare describes policy A, or the one that all were compared with.
func nextOfCompare(c *cobra.Command, args []string) []string {
	policy := c.Flags().Lookup("all").Value.String()
	if policy == "" {
		policy = args[0]
	}
	name, _, _ := strings.Cut(policy, ":")
	return []string{"policies", "describe", name}
}

func nextOfAllocate(c *cobra.Command, args []string) []string {
	if out := c.Flags().Lookup(outFlag).Value.String(); out != "" {
		return []string{"replay", "TRACE", "--allocation", out}
	}
	if c.Flags().Changed("plan") {
		return []string{"replay", "TRACE", "--allocation", c.Flags().Lookup("plan").Value.String()}
	}
	return slices.Concat([]string{"allocate"}, args, givenFlags(c, "allocate"), []string{"-o", "plan.yaml"})
}

// nextOfTime searches the best batch on the first machine; without a profile it compares the
// schedules.
func nextOfTime(c *cobra.Command, args []string) []string {
	if len(args) == 0 {
		return slices.Concat([]string{"time"}, givenFlags(c, "time", "schedule", "timeline", "format"), []string{"--schedule", "all"})
	}
	next := slices.Concat([]string{"plan"}, args, givenFlags(c, "plan", "schedule", "policy", "hardware", "format"))
	if machines, _ := c.Flags().GetStringSlice("hardware"); c.Flags().Changed("hardware") && len(machines) == 1 && machines[0] != "all" {
		next = append(next, "--hardware", machines[0])
	}
	return next
}

func nextOfReproduce(c *cobra.Command, args []string) []string {
	if c.Flags().Changed(outFlag) {
		return []string{"hardware", "points"}
	}
	return slices.Concat([]string{"reproduce"}, args, givenFlags(c, "reproduce", "format"), []string{"--out", "report"})
}

// givenFlags are the flags that the user gave to c and that the command of a name has too,
// except some, as arguments.
func givenFlags(c *cobra.Command, name string, except ...string) (args []string) {
	to, _, err := c.Root().Find([]string{name})
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

// commaSeparated is a list as a flag takes it, which reads a line of CSV.
func commaSeparated(list []string) string {
	var line strings.Builder
	w := csv.NewWriter(&line)
	_ = w.Write(list) // a Builder takes all
	w.Flush()
	return strings.TrimSuffix(line.String(), "\n")
}

// printNext prints the command to use next, for a person at a terminal: pipes and files get
// nothing.
func printNext(c *cobra.Command, args []string) {
	if terminal(c.OutOrStdout()) == nil || terminal(c.ErrOrStderr()) == nil {
		return
	}
	args = slices.Clone(args)
	for i, arg := range args {
		if strings.HasPrefix(arg, "-") {
			args[i] = "./" + arg // a file, which is no flag
		}
	}
	line := c.Annotations[nextKey]
	if next := nextCommands[commandName(c)]; line == "" && next != nil {
		if words := next(c, args); words != nil {
			line = commandLine(words...)
		}
	}
	if line != "" {
		fmt.Fprintf(c.ErrOrStderr(), "next: %s\n", line)
	}
}
