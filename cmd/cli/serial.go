package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/serial"
	"github.com/kvreplay/kvreplay/trace"
)

// serialFlags are the flags of `kvreplay serial` as typed.
type serialFlags struct {
	policies, capacities, layers, requests []string
	warmup, format                         string
	topk                                   int
	flatten                                bool
}

func newSerialCommand() *cobra.Command {
	var f serialFlags
	c := &cobra.Command{
		Use:   "serial TRACE...",
		Short: "Replay access by access, as cache simulators do, beside the replay by steps",
		Long: `Replay traces one access after the other with the caches of hashicorp/golang-lru, and
show beside it what the policies of the same names miss when a whole step is
classified at once, as ` + "`kvreplay replay`" + ` does. With --flatten the accesses are printed
as CSV for other simulators. replay/serial/README.md says what the difference is.`,
		Example: `  kvreplay serial t.parquet --policy lru --capacity 1x,2x
  kvreplay serial t.parquet --layers 5 --flatten > layer5.csv`,
		Args: atLeast(1, "trace"),
		RunE: func(c *cobra.Command, args []string) error { return runSerial(c, args, &f) },
	}
	fl := c.Flags()
	fl.StringArrayVar(&f.policies, "policy", []string{"lru", "2q", "arc"}, "policies, each `NAME[:OPTIONS]`, comma-separated or repeated: lru, 2q[:OPTIONS], arc, or all")
	fl.StringSliceVar(&f.capacities, "capacity", []string{"1x", "1.5x", "2x", "4x"}, "capacities a stream: 1.5x (of K), 0.2ctx (of the prompt), 6400 (entries), 64MiB (a request)")
	fl.IntVar(&f.topk, "topk", 0, "K, the demand's budget in blocks (default: the trace's)")
	fl.StringVar(&f.warmup, "warmup", "auto", "lru:W (the last W prompt windows) or cold; auto: all windows")
	fl.StringSliceVar(&f.layers, "layers", nil, "layers to replay, as in 0,5,10-20 (default: all)")
	fl.StringSliceVar(&f.requests, "requests", nil, "requests to replay, by id (default: all)")
	fl.StringVar(&f.format, "format", "table", "`table` or jsonl")
	fl.BoolVar(&f.flatten, "flatten", false, "print the accesses of one trace as CSV and replay nothing")
	return c
}

// options checks the flags and turns them into serial's options.
func (f *serialFlags) options(c *cobra.Command) (o serial.Options, err error) {
	o = serial.Options{TopK: f.topk, Requests: f.requests, Workers: 1}
	if o.Policies, err = f.parsePolicies(); err != nil {
		return o, errUsage{err}
	}
	for _, p := range o.Policies {
		if p.Entry.Traits.Lossy {
			return o, usagef("policy %s is lossy: serial replays caches, which fetch again what they evict", p.Name())
		}
	}
	if o.Capacities, err = replay.ParseCapacities(f.capacities); err != nil {
		return o, errUsage{err}
	}
	if o.Warmup, err = replay.ParseWarmup(f.warmup); err != nil {
		return o, errUsage{err}
	}
	if o.Layers, err = parseLayers(f.layers); err != nil {
		return o, errUsage{err}
	}
	if err := atLeastOne(c, "topk"); err != nil {
		return o, err
	}
	switch {
	case f.format != "table" && f.format != "jsonl":
		return o, usagef("--format %q: expected table or jsonl", f.format)
	case slices.ContainsFunc(o.Capacities, func(c replay.Capacity) bool { return c.Peak() != "" }):
		return o, usagef("--capacity peak:POLICY is of policies that serial does not replay")
	case len(o.Capacities) == 0:
		return o, usagef("--capacity: expected at least one")
	}
	if err := o.Validate(); err != nil {
		return o, errUsage{err}
	}
	return o, nil
}

// parsePolicies reads --policy: of the policies that have a per-access cache, which are all
// that there are here, or of the others, so that it can be said why one of them is refused.
func (f *serialFlags) parsePolicies() ([]policies.Spec, error) {
	known := slices.DeleteFunc(all.Table(), func(e policies.Entry) bool { return !slices.Contains(serial.Policies(), e.Name) })
	specs, _, err := parsePolicies(known, f.policies)
	if err == nil && len(specs) > 0 {
		return specs, nil
	}
	named := slices.DeleteFunc(splitPolicies(f.policies), func(name string) bool { return name == groups[0] })
	if others, _, otherwise := parsePolicies(all.Table(), named); otherwise == nil {
		return others, nil
	}
	return nil, err
}

func runSerial(c *cobra.Command, paths []string, f *serialFlags) error {
	o, err := f.options(c)
	if err != nil {
		return err
	}
	if err := f.checkFlatten(c, paths); err != nil {
		return err
	}
	if err := checkNames(paths, "by a command"); err != nil {
		return err
	}
	var traces []*trace.File
	for _, path := range paths { // all of them before the first is replayed
		file, err := trace.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		traces = append(traces, file)
	}
	var rows []serial.Row
	for _, file := range traces {
		more, err := f.trace(c, file, o)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	switch {
	case f.flatten:
		return nil
	case f.format == "jsonl":
		return serial.WriteJSONL(c.OutOrStdout(), rows)
	}
	return serial.WriteTable(c.OutOrStdout(), rows)
}

// checkFlatten refuses what --flatten, which replays nothing, has no use for.
func (f *serialFlags) checkFlatten(c *cobra.Command, paths []string) error {
	if !f.flatten {
		return nil
	}
	if len(paths) > 1 {
		return usagef("--flatten prints one trace, %d are named", len(paths))
	}
	for _, name := range []string{"policy", "capacity", "format"} {
		if c.Flags().Changed(name) {
			return usagef("--flatten prints the accesses as CSV and replays nothing: leave --%s out", name)
		}
	}
	return nil
}

// trace replays one trace, or prints its accesses.
func (f *serialFlags) trace(c *cobra.Command, file *trace.File, o serial.Options) ([]serial.Row, error) {
	if f.flatten {
		return nil, serial.Flatten(c.Context(), c.OutOrStdout(), file, o)
	}
	rows, notes, err := serial.Run(c.Context(), file, o)
	for _, note := range notes {
		fmt.Fprintf(c.ErrOrStderr(), "kvreplay: %s: %s\n", file.Path(), note)
	}
	return rows, err
}
