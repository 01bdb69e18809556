package cli

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/serial"
)

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
		short: "Replay access by access, as cache simulators do",
		long: `Replay traces one access after the other with the caches of hashicorp/golang-lru.
The table compares the misses with those of kvreplay replay, which classifies a whole step at once.
--flatten prints the accesses as CSV for other simulators. replay/serial/README.md explains the
difference.`,
		example: `  kvreplay serial t.parquet --policy lru --capacity 1x,2x
  kvreplay serial t.parquet --layers 5 --flatten > layer5.csv`,
		args: atLeast(1, "trace"),
		flags: func(fl *flagSet) {
			fl.StringArrayVar(&f.policies, "policy", []string{"lru", "2q", "arc"}, "replay these policies, each `NAME[:OPTIONS]`: lru, 2q, arc or all")
			fl.StringSliceVar(&f.capacities, "capacity", []string{"1x", "1.5x", "2x", "4x"}, "capacity of each stream, `SIZE` as in 2x (of K), 0.2ctx, 6400 or 64MiB")
			fl.IntVar(&f.topk, "topk", 0, "`K`, the blocks that a step reads (default: the trace's)")
			fl.StringVar(&f.warmup, "warmup", "auto", "replay the windows first: auto (all), lru:W (the last W) or cold")
			fl.StringSliceVar(&f.layers, "layers", nil, "replay only these `LAYERS`, as in 0,5,10-20 (default: all)")
			fl.StringSliceVar(&f.requests, "requests", nil, "replay only the requests of these `IDS` (default: all)")
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
	traces, closeTraces, err := openTraces(c.Context(), c.args) // all of them before the first is replayed
	defer closeTraces()
	if err != nil {
		return err
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
			return o, usagef("policy %s is lossy: serial replays only exact policies", p.Name())
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
		return o, usagef("--capacity peak:POLICY needs a policy without capacity, which serial does not replay")
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
	known := slice.Filter(all.Table(), func(e policies.Entry) bool { return slices.Contains(serial.Policies(), e.Name) })
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
		return usagef("--flatten prints one trace, but %d are named: name one", len(c.args))
	}
	for _, name := range []string{"policy", "capacity", "format"} {
		if c.changed(name) {
			return usagef("--%s has no effect with --flatten, which replays nothing: remove it", name)
		}
	}
	return nil
}
