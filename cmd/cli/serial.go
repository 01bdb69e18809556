package cli

import (
	"fmt"
	"slices"

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

func serialCommand() command {
	var f serialFlags
	return command{
		use:   "serial TRACE...",
		short: "Replay access by access, as cache simulators do, beside the replay by steps",
		long: `Replay traces one access after the other with the caches of hashicorp/golang-lru, and
show beside it what the policies of the same names miss when a whole step is
classified at once, as ` + "`kvreplay replay`" + ` does. With --flatten the accesses are printed
as CSV for other simulators. replay/serial/README.md says what the difference is.`,
		example: `  kvreplay serial t.parquet --policy lru --capacity 1x,2x
  kvreplay serial t.parquet --layers 5 --flatten > layer5.csv`,
		args: atLeast(1, "trace"),
		flags: func(fl *flagSet) {
			fl.StringArrayVar(&f.policies, "policy", []string{"lru", "2q", "arc"}, "policies, each `NAME[:OPTIONS]`, comma-separated or repeated: lru, 2q[:OPTIONS], arc, or all")
			fl.StringSliceVar(&f.capacities, "capacity", []string{"1x", "1.5x", "2x", "4x"}, "capacities a stream: 1.5x (of K), 0.2ctx (of the prompt), 6400 (entries), 64MiB (a request)")
			fl.IntVar(&f.topk, "topk", 0, "K, the demand's budget in blocks (default: the trace's)")
			fl.StringVar(&f.warmup, "warmup", "auto", "lru:W (the last W prompt windows) or cold; auto: all windows")
			fl.StringSliceVar(&f.layers, "layers", nil, "layers to replay, as in 0,5,10-20 (default: all)")
			fl.StringSliceVar(&f.requests, "requests", nil, "requests to replay, by id (default: all)")
			fl.format(&f.format, "", "table", "jsonl")
			fl.BoolVar(&f.flatten, "flatten", false, "print the accesses of one trace as CSV and replay nothing")
			fl.positive("topk")
		},
		run:  f.run,
		next: withArgs("replay"),
	}
}

func (f *serialFlags) run(c *call) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	if err := f.checkFlatten(c); err != nil {
		return err
	}
	if err := checkNames(c.args, "by a command"); err != nil {
		return err
	}
	var traces []*trace.File
	for _, path := range c.args { // all of them before the first is replayed
		file, err := trace.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		traces = append(traces, file)
	}
	var rows []serial.Row
	for _, file := range traces {
		if f.flatten {
			return serial.Flatten(c.Context(), c.stdout, file, o)
		}
		more, notes, err := serial.Run(c.Context(), file, o)
		for _, note := range notes {
			fmt.Fprintf(c.stderr, "kvreplay: %s: %s\n", file.Path(), note)
		}
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	if f.format == "jsonl" {
		return serial.WriteJSONL(c.stdout, rows)
	}
	return serial.WriteTable(c.stdout, rows)
}

// options checks the flags and turns them into serial's options.
func (f *serialFlags) options() (o serial.Options, err error) {
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
	switch {
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

// parsePolicies reads --policy. It knows the policies that have a per-access cache. It also reads
// the others, so that an error can say why one of them is refused.
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

// checkFlatten refuses flags that have no effect with --flatten, which replays nothing.
func (f *serialFlags) checkFlatten(c *call) error {
	if !f.flatten {
		return nil
	}
	if len(c.args) > 1 {
		return usagef("--flatten prints one trace, %d are named", len(c.args))
	}
	for _, name := range []string{"policy", "capacity", "format"} {
		if c.changed(name) {
			return usagef("--flatten prints the accesses as CSV and replays nothing: leave --%s out", name)
		}
	}
	return nil
}
