// Package serial replays a trace one access at a time, as cache simulators do. Package replay
// replays whole steps instead. The comparison shows the effect of the step semantics. See
// README.md.
package serial

import (
	"context"
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// Options select the replays of a trace. Everything but Policies and Capacities may be zero.
type Options struct {
	Policies   []policies.Spec // names must be in Policies()
	Capacities []replay.Capacity
	Warmup     replay.Warmup // cold start or windows, zero for auto
	TopK       int           // K in blocks, 0 for the trace's
	Layers     []int32       // nil for all
	Requests   []string      // nil for all
	Workers    int           // workers of the replay by steps, 0 for one
}

// Row holds the counts of a policy at a capacity, pooled over streams.
type Row struct {
	Trace    string `json:"trace"`
	Policy   string `json:"policy"`
	TopK     int    `json:"topk"`
	Capacity string `json:"capacity"`
	Warmup   string `json:"warmup"`
	Streams  int    `json:"streams"`
	// Accesses are the demanded blocks of counted steps without pinned ones. A replay by steps
	// counts the same number.
	Accesses int64 `json:"accesses"`
	// Misses are the misses of golang-lru's cache, which replays one access after the other.
	Misses int64 `json:"misses"`
	// BirthMisses are the part of Misses on the first access of a block that left the local window
	// during the replay. The block was resident as part of the window. A replay by steps keeps it
	// as a birth, so it misses the block only after an eviction.
	BirthMisses int64 `json:"birth_misses"`
	// StepMisses are the misses of the policy with the same name under step semantics.
	StepMisses int64 `json:"step_misses"`
}

// Run replays the trace of f access by access and by steps. Notes are remarks for the user.
func Run(ctx context.Context, f *trace.File, o Options) (rows []Row, notes []string, err error) {
	if err := o.Validate(); err != nil {
		return nil, nil, err
	}
	bySteps, notes, err := o.steps(f)
	if err != nil {
		return nil, nil, err
	}
	steps, err := run(ctx, f, bySteps)
	if err != nil {
		return nil, nil, err
	}
	t := newTally(steps.Rows)
	err = eachStream(ctx, f, t, func(s *trace.Stream, rows []result.Row) error {
		accesses := flatten(nil, s, &rows[0])
		for i := range rows {
			if err := t.count(&rows[i], accesses); err != nil {
				return fmt.Errorf("serial replay of %s: %v: %w", f.Path(), s.Key, err)
			}
		}
		return nil
	})
	return t.rows, append(notes, steps.Notes...), err
}

// Validate reports policies, capacities and warm-ups that a replay of single accesses does not
// support.
func (o *Options) Validate() error {
	for _, p := range o.Policies {
		if _, ok := caches[p.Entry.Name]; !ok {
			return fmt.Errorf("policy %s has no per-access cache, expected one of %s", p.Name(), strings.Join(Policies(), ", "))
		}
	}
	for _, c := range o.Capacities {
		if len(c.Later()) > 0 {
			return fmt.Errorf("capacity %v grows, but a per-access cache has one size. Name each size as a capacity", c)
		}
	}
	if k := o.Warmup.Kind; k == replay.WarmupImportance || k == replay.WarmupStaging {
		return fmt.Errorf("warm-up %v places blocks without accesses, expected lru:W or cold", o.Warmup)
	}
	return nil
}

// tally pools the streams' rows of the replay by steps.
type tally struct {
	byStream map[trace.Key][]result.Row
	digest   string // digest of the trace that was replayed by steps
	rows     []Row
	at       map[[2]string]int // index in rows by policy and capacity
}

func newTally(steps []result.Row) *tally {
	t := &tally{byStream: map[trace.Key][]result.Row{}, at: map[[2]string]int{}}
	for _, r := range steps {
		t.digest = r.TraceDigest
		key := trace.Key{Request: *r.RequestID, Layer: *r.LayerID, Head: optional.Or(r.Head, trace.NoHead)}
		t.byStream[key] = append(t.byStream[key], r)
		cell := [2]string{r.Policy, *r.Capacity}
		if _, ok := t.at[cell]; !ok {
			t.at[cell] = len(t.rows)
			t.rows = append(t.rows, Row{Trace: r.Trace, Policy: r.Policy, TopK: r.TopK, Capacity: *r.Capacity, Warmup: r.Warmup})
		}
	}
	return t
}

// count replays one stream's accesses with one cache.
func (t *tally) count(step *result.Row, accesses []access) error {
	if step.CapacityEntries == nil {
		return fmt.Errorf("capacity %s: expected a fixed number of entries", *step.Capacity)
	}
	n, err := play(step.Policy, int(*step.CapacityEntries)/step.BlockTokens, accesses)
	if err != nil {
		return fmt.Errorf("%s at capacity %s: %w", step.Policy, *step.Capacity, err)
	}
	if n.accesses != step.Demand {
		panic(fmt.Sprintf("serial: %d accesses, expected the demand %d of the replay by steps", n.accesses, step.Demand))
	}
	r := &t.rows[t.at[[2]string{step.Policy, *step.Capacity}]]
	r.Streams++
	r.Accesses += n.accesses
	r.Misses += n.misses
	r.BirthMisses += n.births
	r.StepMisses += step.Misses
	return nil
}
