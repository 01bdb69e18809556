package verify

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/metrics"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// cell is all that the counts of a row depend on, but for which part of the cell the
// row is: rows of one cell are replayed together.
type cell struct {
	digest, policy, engine string
	capacity, entryBytes   string // "null" for none
	warmup                 string
	layers, requests       string
	topk, candidates       int
	sink, local            int
	shape                  replay.Shape
	prefetch, allocation   string
	pool                   string
	outliers, clusters     string
	seed                   uint64
	per                    replay.Detail // empty: no detail that replay knows
}

func cellOf(r *metrics.Row) cell {
	c := cell{
		digest: r.TraceDigest, policy: r.Policy, engine: r.Engine, capacity: "null", entryBytes: "null", warmup: r.Warmup,
		layers: r.Layers, requests: r.Requests, topk: r.TopK, candidates: r.Candidates, sink: r.Sink, local: r.Local, seed: r.Seed,
	}
	if r.Capacity != nil {
		c.capacity = *r.Capacity
	}
	if r.EntryBytes != nil {
		c.entryBytes = strconv.Itoa(*r.EntryBytes)
	}
	c.per = detailOf(r)
	c.prefetch, c.allocation, c.outliers, c.clusters = r.Prefetch, r.Allocation, r.Outliers, r.Clusters
	c.pool = r.Pool
	c.shape = replay.Shape{BlockTokens: r.BlockTokens, StepTokens: r.StepTokens, ShareHeads: r.SharedHeads > 1}
	return c
}

// detailOf is the --per that writes such rows.
func detailOf(r *metrics.Row) replay.Detail {
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

// specs parses the row's policy and, before it, the one whose peak is its capacity.
func (c *cell) specs(table policies.Table) (all []policies.Spec, own policies.Spec, err error) {
	if own, err = table.Parse(c.policy); err != nil {
		return nil, own, err
	}
	if name, ok := strings.CutPrefix(c.capacity, "peak:"); ok {
		peak, err := table.Parse(name)
		if err != nil {
			return nil, own, err
		}
		if peak.Name() != own.Name() {
			all = append(all, peak)
		}
	}
	return append(all, own), own, nil
}

// options are what replays the cell. An error means that no run can have given it, but
// for errAmbiguous, with which that is not known.
func (c *cell) options(f *trace.File, specs []policies.Spec) (o replay.Options, err error) {
	if c.allocation != "" {
		return o, fmt.Errorf("%w: it needs the plan %s", errAmbiguous, c.allocation)
	}
	o = replay.Options{Policies: specs, TopK: c.topk, Candidates: c.candidates, Sink: &c.sink, Local: &c.local, Per: c.per, Seed: c.seed, Shape: c.shape}
	if c.per == "" {
		return o, fmt.Errorf("no --per of replay gives a row of a head alone")
	}
	if c.capacity != "null" {
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
	if o.Pool, err = replay.ParsePool(c.pool); err != nil {
		return o, err
	}
	if o.Prefetch, err = replay.ParsePrefetch(c.prefetch); err != nil {
		return o, err
	}
	if c.clusters != "" && !strings.HasPrefix(c.clusters, "lists") { // a row must not say which file to read
		return o, fmt.Errorf("%w: it needs the file of clusters %s", errAmbiguous, c.clusters)
	}
	if o.Clusters, err = replay.ParseClusters(c.clusters); err != nil {
		return o, err
	}
	if o.Outliers, err = replay.ParseOutliers(c.outliers); err != nil {
		return o, err
	}
	if o.Layers, err = layersOf(c.layers); err != nil {
		return o, err
	}
	o.Requests, err = requestsOf(c.requests, f)
	return o, err
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
