package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/external"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/verify"
)

type verifyFlags struct {
	table          policies.Table
	traces         []string
	where          where
	plans          []string
	sample, format string
	seed           uint64
	allowMissing   bool
	runPrograms    bool
}

func verifyCommand(table policies.Table) command {
	f := verifyFlags{table: table}
	return command{
		use:   "verify [ROWS...] --traces FILE_OR_FOLDER",
		short: "Replay a sample of rows and check their counts",
		long: `Replay a sample of result rows, each with its own policy, capacity and settings, and compare every
field of all rows of the same cell. kvreplay finds the traces by the digests in the rows. The sample
has a row of every policy, every cell of the best policies, and the row with the lowest × OPT.
The exit code is 1 if a row differs, if a cell lacks requests, layers or heads, or if a row cannot
be replayed here (--allow-missing accepts that).`,
		example: `  kvreplay leaderboard verify results --traces traces
  kvreplay leaderboard verify rows.csv --traces a.parquet --traces b.parquet --sample all`,
		args: cobra.ArbitraryArgs,
		flags: func(fl *flagSet) {
			fl.StringArrayVar(&f.traces, "traces", nil, "find the traces in this `PATH`: a trace, a folder of *.parquet or an s3:// prefix (required, repeatable)")
			fl.StringArrayVar(&f.plans, "allocation", nil, "use this `PLAN` for the rows that were replayed with it (repeatable)")
			fl.StringVar(&f.sample, "sample", strconv.Itoa(verify.DefaultSample), "draw `N` rows, or all, at least one of every policy")
			fl.Uint64Var(&f.seed, "seed", 0, "seed of the sample (default: a random one, which is printed)")
			fl.where(&f.where)
			fl.format(&f.format, "", "table", "json")
			fl.BoolVar(&f.runPrograms, "run-programs", false, "run the commands that rows of exec policies name: only for rows that you trust")
			fl.BoolVar(&f.allowMissing, "allow-missing", false, "accept rows that cannot be replayed here")
		},
		run:  f.run,
		next: withArgs("leaderboard"),
	}
}

func (f *verifyFlags) run(c *call) error {
	o, err := f.options(c.Context())
	if err != nil {
		return err
	}
	rows, err := readAllRows(c.Context(), c.args)
	if err != nil {
		return err
	}
	if _, err := o.Where.Filter(rows); err != nil {
		return fmt.Errorf("--where: %w", err)
	}
	if !c.changed("seed") {
		o.Seed = uint64(rand.Uint32()) // short enough to be typed again
	}
	o.Progress = c.bar.counts("verify", "cells")
	report, err := verify.Rows(c.Context(), rows, o)
	if err != nil {
		return fmt.Errorf("leaderboard verify: %w", err)
	}
	c.bar.close()
	if err := c.print(f.format, report, report.RenderTable); err != nil {
		return err
	}
	switch r := report; {
	case r.Differing > 0:
		return fmt.Errorf("leaderboard verify: %d of %d rows differ from their replay", r.Differing, r.Sample+r.Others)
	case len(r.Gaps) > 0:
		return fmt.Errorf("leaderboard verify: %d cells lack rows of requests, layers or heads: replay them again "+
			"(to leave some out, use replay --requests or --layers)", len(r.Gaps))
	case r.Unverifiable > 0 && !f.allowMissing:
		return fmt.Errorf("leaderboard verify: %d of %d rows cannot be verified here (--allow-missing accepts that)",
			r.Unverifiable, r.Sample+r.Others)
	}
	return nil
}

// withoutPrograms returns the table with policies in other programs, which are refused with the flag that allows them.
func withoutPrograms(table policies.Table) policies.Table {
	refused := external.Entry
	refused.Usage = "only for rows that you trust"
	refused.New = func(string) (func() policies.Policy, string, error) {
		return nil, "", errors.New("its program runs only with --run-programs")
	}
	return policies.NewTable(append(slices.Clone(table), refused)...)
}

// options checks the flags.
func (f *verifyFlags) options(ctx context.Context) (verify.Options, error) {
	o := verify.Options{Policies: withoutPrograms(f.table), Traces: f.traces, Seed: f.seed, Workers: runtime.GOMAXPROCS(0), Sample: verify.All, Where: f.where.conditions}
	if f.runPrograms {
		o.Policies = withPrograms(f.table)
	}
	if f.sample != "all" {
		n, err := strconv.Atoi(f.sample)
		if err != nil || n < 1 {
			return o, usagef("--sample %q: expected a number of rows, at least 1, or all", f.sample)
		}
		o.Sample = n
	}
	if len(f.traces) == 0 {
		return o, usagef("--traces missing: name trace files, or folders of *.parquet")
	}
	for _, path := range f.plans {
		plan, err := allocate.Read(ctx, path)
		if err != nil {
			return o, err
		}
		o.Plans = append(o.Plans, plan)
	}
	return o, nil
}
