package verify

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// cell holds everything that the counts of a row depend on, except for the row's part of the cell.
// Rows of one cell are replayed together, with those of its tiers.
type cell struct {
	setting          *result.Setting
	policy, capacity string        // of the GPU's cache, with capacity "null" for none
	per              replay.Detail // empty if replay has no such detail
}

func cellOf(r *result.Row) cell {
	c := cell{setting: &r.Setting, per: detailOf(r)}
	c.policy, c.capacity = topOf(r)
	return c
}

// work returns a text that is equal for cells of all policies with the same work. The trace's
// digest stands for its name and description.
func (c cell) work() string {
	s := *c.setting
	s.Trace, s.Model, s.Selector, s.SelectorRecall = "", "", "", nil
	return strings.Join([]string{c.capacity, string(c.per), s.Key()}, "\x00")
}

func (c cell) key() string { return c.policy + "\x00" + c.work() }

// topOf returns the policy and the capacity of the GPU's cache. For a tier's row it is the first of
// the caches above it.
func topOf(r *result.Row) (policy, capacity string) {
	if r.Tier == 0 {
		if r.Capacity == nil {
			return r.Policy, "null"
		}
		return r.Policy, *r.Capacity
	}
	top, _, _ := strings.Cut(r.Above, " > ")
	policy, capacity, sized := strings.Cut(top, "@")
	if strings.HasPrefix(top, plannedWindow) {
		policy, sized = top, false
	}
	if !sized {
		return policy, "null"
	}
	return policy, result.CapacityText(capacity)
}

// detailOf returns the --per that writes such rows.
func detailOf(r *result.Row) replay.Detail {
	request, layer, head := r.RequestID != nil, r.LayerID != nil, r.Head != nil
	switch {
	case request && layer:
		return replay.PerStream
	case request && !head:
		return replay.PerRequest
	case layer && !head:
		return replay.PerLayer
	case !head:
		return replay.PerCell
	}
	return ""
}

// plannedWindow is the prefix of a window whose N comes from a plan.
const plannedWindow = "window:plan:"

// specs parses the cell's policy. If the capacity is the peak of another policy, that one comes
// first. own is replay's name of the cell's policy.
func (c *cell) specs(table policies.Table) (all []policies.Spec, own string, err error) {
	name := c.policy
	if c.setting.Allocation != "" && strings.HasPrefix(name, plannedWindow) {
		name = "window:1" // the plan replaces it
	}
	spec, err := table.Parse(name)
	if err != nil {
		return nil, "", err
	}
	own = spec.Name()
	if name != c.policy {
		own = c.policy
	}
	if name, ok := strings.CutPrefix(c.capacity, "peak:"); ok {
		peak, err := table.Parse(name)
		if err != nil {
			return nil, own, err
		}
		if peak.Name() != spec.Name() {
			all = append(all, peak)
		}
	}
	return append(all, spec), own, nil
}

// missing is the reason that a row cannot be replayed here, such as a missing plan. The row may
// still be right.
type missing string

func (m missing) Error() string { return string(m) }

// options returns the options that replay the cell. An error of another type than missing means
// that no run can have written the row.
func (c *cell) options(f *trace.File, specs []policies.Spec, given *Options) (o replay.Options, err error) {
	s := c.setting
	o = replay.Options{Policies: specs, TopK: s.TopK, Candidates: s.Candidates, Sink: &s.Sink, Local: &s.Local, EntryBytes: s.EntryBytes, Per: c.per,
		Seed: s.Seed, Shape: replay.Shape{BlockTokens: s.BlockTokens, StepTokens: s.StepTokens, ShareHeads: s.SharedHeads > 1}}
	if c.per == "" {
		return o, fmt.Errorf("the row is of a single head, which no value of replay --per gives")
	}
	if o.Allocation, err = c.plan(given.Plans); err != nil {
		return o, err
	}
	if c.capacity != "null" && o.Allocation == nil {
		if o.Capacities, err = replay.ParseCapacities([]string{c.capacity}); err != nil {
			return o, err
		}
	}
	if err := o.Read(s, given.Policies); err != nil {
		if errors.As(err, new(setting.PolicyError)) {
			return o, missing(err.Error())
		}
		return o, err
	}
	if o.Requests, err = requestsOf(s.Requests, f); err != nil {
		return o, err
	}
	if s.Clusters != "" && !strings.HasPrefix(s.Clusters, "lists") { // a row must not select a file to read
		return o, missing("it needs the clusters file " + s.Clusters + ": replay it with kvreplay replay --clusters FILE and compare")
	}
	o.Clusters, err = replay.ParseClusters(s.Clusters)
	return o, err
}

// plan finds the cell's plan by its digest. If several plans have it, plan prefers the one with the
// row's name. It returns nil if the cell has no plan.
func (c *cell) plan(plans []*allocate.Plan) (found *allocate.Plan, err error) {
	if c.setting.Allocation == "" {
		return nil, nil
	}
	for _, p := range plans {
		if p.Digest() != c.setting.Allocation {
			continue
		}
		name := replay.PlannedCapacity(p).String()
		if found == nil || strings.HasPrefix(c.capacity+"/", name+"/") || c.policy == "window:"+name {
			found = p
		}
	}
	if found == nil {
		return nil, missing("it needs the plan " + c.setting.Allocation + ": give it with --allocation PLAN")
	}
	return found, nil
}
