package verify

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/allocate"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// cell is all that the counts of a row depend on, but for which part of the cell the
// row is: rows of one cell are replayed together, those of its tiers with them.
type cell struct {
	digest, engine           string
	policy, capacity         string // of the GPU's cache; capacity "null" for none
	entryBytes               string // "null" for none
	warmup                   string
	layers, requests         string
	topk, candidates         int
	sink, local              int
	shape                    replay.Shape
	prefetch, pool           string
	allocation, reallocation string
	tiers                    string
	outliers, clusters       string
	seed                     uint64
	per                      replay.Detail // empty: no detail that replay knows
}

func cellOf(r *result.Row) cell {
	c := cell{
		digest: r.TraceDigest, engine: r.Engine, entryBytes: "null", warmup: r.Warmup,
		layers: r.Layers, requests: r.Requests, topk: r.TopK, candidates: r.Candidates, sink: r.Sink, local: r.Local, seed: r.Seed,
		prefetch: r.Prefetch, pool: r.Pool, allocation: r.Allocation, reallocation: r.Reallocation,
		tiers: r.Tiers, outliers: r.Outliers, clusters: r.Clusters, per: detailOf(r),
		shape: replay.Shape{BlockTokens: r.BlockTokens, StepTokens: r.StepTokens, ShareHeads: r.SharedHeads > 1},
	}
	c.policy, c.capacity = topOf(r)
	if r.EntryBytes != nil {
		c.entryBytes = strconv.Itoa(*r.EntryBytes)
	}
	return c
}

// topOf names the policy and the capacity of the GPU's cache: the row's own, or of a
// tier's row the first of the caches above it.
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

// detailOf is the --per that writes such rows.
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

// plannedWindow starts the name of a window whose N a plan gives.
const plannedWindow = "window:plan:"

// specs parses the cell's policy and, before it, the one whose peak is its capacity. own
// is how replay names the cell's.
func (c *cell) specs(table policies.Table) (all []policies.Spec, own string, err error) {
	name := c.policy
	if c.allocation != "" && strings.HasPrefix(name, plannedWindow) {
		name = "window:1" // replaced by the plan
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

// missing is why a row cannot be replayed here, by whomever it was written.
type missing string

func (m missing) Error() string { return string(m) }

// options are what replays the cell. An error is a missing, or else says that no run can
// have given it.
func (c *cell) options(f *trace.File, specs []policies.Spec, given *Options) (o replay.Options, err error) {
	o = replay.Options{Policies: specs, TopK: c.topk, Candidates: c.candidates, Sink: &c.sink, Local: &c.local, Per: c.per, Seed: c.seed, Shape: c.shape}
	if c.per == "" {
		return o, fmt.Errorf("no --per of replay gives a row of a head alone")
	}
	if o.Allocation, err = c.plan(given.Plans); err != nil {
		return o, err
	}
	if c.capacity != "null" && o.Allocation == nil {
		capacity, err := replay.ParseCapacity(c.capacity)
		if err != nil {
			return o, err
		}
		o.Capacities = []replay.Capacity{capacity}
	}
	if c.entryBytes != "null" {
		n, err := strconv.Atoi(c.entryBytes)
		if err != nil {
			return o, err
		}
		o.EntryBytes = &n
	}
	if o.Warmup, err = replay.ParseWarmup(c.warmup); err != nil {
		return o, err
	}
	if o.Reallocation, err = replay.ParseReallocation(c.reallocation); err != nil {
		return o, err
	}
	if o.Layers, err = layersOf(c.layers); err != nil {
		return o, err
	}
	if o.Requests, err = requestsOf(c.requests, f); err != nil {
		return o, err
	}
	return o, c.mechanisms(&o, given.Policies)
}

// mechanisms parses what works beside the policy.
func (c *cell) mechanisms(o *replay.Options, table policies.Table) (err error) {
	if o.Pool, err = replay.ParsePool(c.pool); err != nil {
		return err
	}
	if o.Prefetch, err = replay.ParsePrefetch(c.prefetch); err != nil {
		return err
	}
	if o.Tiers, o.Inclusive, err = tiersOf(c.tiers, table); err != nil {
		return err
	}
	if c.clusters != "" && !strings.HasPrefix(c.clusters, "lists") { // a row must not say which file to read
		return missing("it needs the file of clusters " + c.clusters + ": replay it with kvreplay replay --clusters FILE and compare")
	}
	if o.Clusters, err = replay.ParseClusters(c.clusters); err != nil {
		return err
	}
	o.Outliers, err = replay.ParseOutliers(c.outliers)
	return err
}

// plan finds the cell's plan by its digest, the one of the row's name where several have
// it; nil where the cell has none.
func (c *cell) plan(plans []*allocate.Plan) (found *allocate.Plan, err error) {
	if c.allocation == "" {
		return nil, nil
	}
	for _, p := range plans {
		if p.Digest() != c.allocation {
			continue
		}
		name := replay.PlannedCapacity(p).String()
		if found == nil || strings.HasPrefix(c.capacity+"/", name+"/") || c.policy == "window:"+name {
			found = p
		}
	}
	if found == nil {
		return nil, missing("it needs the plan " + c.allocation + ": give it with --allocation PLAN")
	}
	return found, nil
}

// tiersOf reads the tiers of a row, "dram=lru@8x cxl=lru@16x inclusive".
func tiersOf(text string, table policies.Table) (tiers []replay.Tier, inclusive bool, err error) {
	for _, one := range strings.Fields(text) {
		if one == "inclusive" {
			inclusive = true
			continue
		}
		_, rest, _ := strings.Cut(one, "=")
		policy, _, _ := strings.Cut(rest, "@")
		if _, err := table.Parse(policy); err != nil {
			return nil, false, missing(fmt.Sprintf("tier %q: %v", one, err))
		}
		tier, err := replay.ParseTier(table, one)
		if err != nil {
			return nil, false, err
		}
		tiers = append(tiers, tier)
	}
	return tiers, inclusive, nil
}

// layersOf reads the layers of a row, "0,5"; nil for all.
func layersOf(text string) (layers []int32, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(one, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("layers %q: expected numbers, as in 0,5", text)
		}
		layers = append(layers, int32(n))
	}
	return layers, nil
}
