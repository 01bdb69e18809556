package systems

import (
	"context"
	"errors"
	"slices"

	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/trace"
)

// measured is a system at one capacity: its replay on all traces, and its price.
type measured struct {
	*pipeline.Result
	counts
	capacity string // as replayed, in entries of a stream or a multiple of K
	priced
}

// priced is the input of a price.
type priced struct {
	profile *pipeline.Profile
	options pipeline.Options
}

// counts are sums over traces.
type counts struct {
	demand, lost, misses int64
	unbound              bool  // OPT does not bound the misses
	lossy                bool  // the policy drops entries
	entries              int64 // capacity of a stream, 0 without
}

func (n *counts) add(r *result.Row) {
	n.demand += r.Demand
	n.lost += r.Lost
	n.misses += r.Misses
	n.lossy = n.lossy || r.Lossy
	n.unbound = n.unbound || r.Unbound() != "" || r.Bypasses
	n.entries = optional.Or(r.CapacityEntries, n.entries)
}

// recall returns the share of the exact Top-K that steps attend to, from that of the selector. It is nil
// if that is nil.
func (n *counts) recall(selector *float64) *float64 {
	if selector == nil || !n.lossy || n.demand == 0 {
		return selector
	}
	return new(*selector * (1 - float64(n.misses+n.lost)/float64(n.demand)))
}

// options returns the replay of the system with a policy.
func (c *comparison) options(policy string) (replay.Options, error) {
	s := *c.system
	s.Keep.Policy = policy
	o, err := s.options(c.Table)
	o.Seed, o.TopK, o.Shape.StepTokens = c.Seed, c.listed, c.Positions
	return o, err
}

// able returns the reason that a trace cannot serve the system, if there is one.
func (c *comparison) able(f *trace.File) error {
	o, err := c.options(c.policy)
	if err != nil {
		return err
	}
	if o.Capacities, err = replay.ParseCapacities([]string{"1x"}); err != nil {
		return err
	}
	_, err = replay.Plan(f, o)
	if e, ok := errors.AsType[*replay.PlanError](err); ok {
		return e
	}
	return err
}

// measure replays and prices the system at capacities. An empty capacity is for
// policies without one.
func (c *comparison) measure(ctx context.Context, o pipeline.Options, capacities []string) (all []*measured, err error) {
	profiles := make([][]*pipeline.Profile, len(capacities))
	all = slice.Map(capacities, func(string) *measured { return new(measured) })
	for n, f := range c.traces {
		runs, err := c.replays(n, capacities)
		if err != nil {
			return nil, err
		}
		at := 0
		for _, run := range runs {
			job, err := replay.Plan(f, run)
			if err != nil {
				return nil, unable("%v", err)
			}
			done, cells, err := pipeline.Replay(ctx, job)
			if err != nil {
				return nil, err
			}
			rows := slices.DeleteFunc(done.Rows, func(r result.Row) bool { return r.Tier > 0 })
			for i, p := range cells { // one for each row of the GPU's cache
				profiles[at] = append(profiles[at], p)
				all[at].add(&rows[i])
				all[at].capacity = p.Cell.Capacity
				at++
			}
		}
	}
	for i, m := range all {
		p, err := pipeline.JoinProfiles(profiles[i])
		if err != nil {
			return nil, err
		}
		if o.Scaling, err = pipeline.NewScaling(p, o.Model, c.LayerMap, c.tokens); err != nil {
			return nil, unable("%v", err)
		}
		o.Positions = 0 // those of the profile
		m.priced = priced{p, o}
		if m.Result, err = pipeline.Price(ctx, p, o); err != nil {
			return nil, c.refused(ctx, err)
		}
	}
	return all, nil
}

// replays returns the replays of capacities on a trace: one for all, or one for each plan.
func (c *comparison) replays(trace int, capacities []string) (runs []replay.Options, err error) {
	for _, text := range capacities {
		o, err := c.options(c.policy)
		if err != nil {
			return nil, err
		}
		planned := c.system.Keep.Allocate != ""
		switch {
		case planned:
			if o.Allocation, err = c.plan(trace, text); err != nil {
				return nil, err
			}
		case text != "":
			if o.Capacities, err = replay.ParseCapacities(capacities); err != nil {
				return nil, err
			}
		}
		runs = append(runs, o)
		if !planned {
			break
		}
	}
	return runs, nil
}

// planSizes are the capacities from which a plan interpolates, in multiples of K.
var planSizes = []string{"0.5x", "1x", "1.5x", "2x", "3x", "4x", "6x", "8x", "16x", "32x", "64x"}

// profile replays the streams of every trace at planSizes, if the system divides memory by a plan.
func (c *comparison) profile(ctx context.Context) error {
	if c.system.Keep.Allocate == "" {
		return nil
	}
	for _, f := range c.traces {
		o, err := c.options(c.policy)
		if err != nil {
			return err
		}
		if o.Capacities, err = replay.ParseCapacities(planSizes); err != nil {
			return err
		}
		o.Per = replay.PerStream
		done, err := replay.Run(ctx, f, o)
		if err != nil {
			return err
		}
		c.curves = append(c.curves, done.Rows)
	}
	if len(c.traces) == 1 {
		c.approximate("sizes of layers and heads are chosen on the replayed requests, because no other trace serves it")
	}
	return nil
}

// plan divides a capacity among the layers and heads of a trace. The plan is made from the other traces,
// because KVDrive solves it before it serves (section 5.2). A single trace has its own plan.
func (c *comparison) plan(trace int, capacity string) (*allocate.Plan, error) {
	method, err := allocate.ParseMethod(c.system.Keep.Allocate)
	if err != nil {
		return nil, err
	}
	var rows []result.Row
	for i, curves := range c.curves {
		if i != trace || len(c.curves) == 1 {
			rows = append(rows, curves...)
		}
	}
	reports, err := allocate.Run(rows, allocate.Options{Policy: rows[0].Policy, Methods: []allocate.Spec{method}, Memory: capacity})
	if err != nil {
		return nil, unable("%v", err)
	}
	return reports[0].Plan, nil
}

// floor returns the largest of the least capacities that plans allow, in entries.
func (c *comparison) floor() (least int, err error) {
	for i := range c.curves {
		p, err := c.plan(i, planSizes[len(planSizes)-1])
		if err != nil {
			return 0, err
		}
		least = max(least, p.Floor)
	}
	return least, nil
}

// optimum replays OPT at the capacity of m, for the ratio of misses to the least possible number.
func (c *comparison) optimum(ctx context.Context, m *measured) error {
	if c.system.Keep.Policy == "" || m.unbound || m.lossy || m.entries == 0 || c.system.Keep.Allocate != "" {
		return nil
	}
	o, err := c.options("opt")
	if err != nil {
		return err
	}
	o.Tiers, o.Inclusive = nil, false // they do not change the misses of the GPU's cache
	if o.Capacities, err = replay.ParseCapacities([]string{m.capacity}); err != nil {
		return err
	}
	var best counts
	for _, f := range c.traces {
		done, err := replay.Run(ctx, f, o)
		if err != nil {
			return err
		}
		for i := range done.Rows {
			best.add(&done.Rows[i])
		}
	}
	if best.misses > 0 {
		ratio := float64(m.misses) / float64(best.misses)
		c.row.TimesOPT = &ratio
	}
	return nil
}
