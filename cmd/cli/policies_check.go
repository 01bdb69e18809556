package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// policyChecks are the values of flags of `policies check`.
type policyChecks struct {
	known  policies.Table
	o      policytest.Options
	format string
	list   bool
}

func checkPolicyCommand(known policies.Table) command {
	f := policyChecks{known: withPrograms(known)}
	return command{
		use:   "check NAME[:OPTIONS]...",
		short: "Check policies against the contract, over random streams",
		long: `Run the conformance kit: random streams that search for wrong victims, for state that survives a
stream, for use of the future, and for other breaches of policies/README.md. A failure shows the
smallest stream on which it happens. Policies in other programs are checked over their pipe.`,
		example: "  kvreplay policies check lru\n  kvreplay policies check \"exec:python3 mine.py\" --check Legal,Deterministic",
		args:    atLeast(1, "policy"),
		flags: func(fl *flagSet) {
			fl.StringSliceVar(&f.o.Names, "check", nil, "run only the checks of these `NAMES`, separated by commas")
			fl.BoolVar(&f.list, "list", false, "print the names and the claims of the checks, and run none")
			fl.BoolVar(&f.o.Short, "short", false, "draw fewer streams")
			fl.Uint64Var(&f.o.Seed, "seed", 0, "draw only the stream of this seed, which a failure prints (default: all)")
			fl.format(&f.format, "", "table", "json")
		},
		run:  f.run,
		next: func(c *call) []string { return []string{"replay", "TRACE", "--policy", c.args[0]} },
	}
}

// checkLine is a check as `policies check --format json` prints it.
type checkLine struct {
	Policy string `json:"policy"`
	Check  string `json:"check"`
	// Failure is empty if the policy passes.
	Failure string `json:"failure"`
	// About is the claim in words, with --list only.
	About string `json:"about,omitempty"`
}

func (f *policyChecks) run(c *call) error {
	var lines []checkLine
	var failed []string
	for _, name := range c.args {
		spec, err := f.known.Parse(withExample(f.known, f.known.Canonical(name)))
		if err != nil {
			return errUsage{err}
		}
		claims := policytest.Claims(spec.Entry.Traits.Lossy)
		known := slice.Map(claims, func(c policytest.Claim) names.Name { return names.Name{Name: c.Name} })
		for i := range f.o.Names {
			if f.o.Names[i], err = names.Find("check", f.o.Names[i], known); err != nil {
				return errUsage{err}
			}
		}
		if f.list {
			for _, claim := range claims {
				lines = append(lines, checkLine{Policy: name, Check: claim.Name, About: claim.About})
			}
			continue
		}
		one, err := f.check(c, spec, name)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(one, func(l checkLine) bool { return l.Failure != "" }) {
			failed = append(failed, name)
		}
		lines = append(lines, one...)
	}
	if f.format == "json" {
		if err := text.WriteJSON(c.stdout, lines); err != nil {
			return err
		}
	} else if f.list {
		for _, l := range lines {
			fmt.Fprintf(c.stdout, "%-13s  %s\n", l.Check, l.About)
		}
	}
	if failed != nil {
		return fmt.Errorf("%s breaks the contract of policies/README.md", strings.Join(failed, " and "))
	}
	return nil
}

// check runs the checks of a policy, and prints each as it ends if the format is a table.
func (f *policyChecks) check(c *call, spec policies.Spec, name string) (lines []checkLine, err error) {
	return unlessStopped(c.Context(), func() (lines []checkLine, err error) {
		w := c.stdout
		if f.format == "json" {
			w = io.Discard
		}
		prefix := ""
		if len(c.args) > 1 {
			prefix = name + ": "
		}
		for check, failure := range policytest.Check(*spec.Entry, spec.Options, f.o) {
			line := checkLine{Policy: name, Check: check}
			if failure != nil {
				line.Failure = failure.Error()
				_, err = fmt.Fprintf(w, "%s%s fails: %s\n", prefix, check, line.Failure)
			} else {
				_, err = fmt.Fprintf(w, "%s%s holds\n", prefix, check)
			}
			lines = append(lines, line)
			if err != nil || c.Context().Err() != nil {
				break
			}
		}
		return lines, err
	})
}
