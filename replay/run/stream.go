package run

import (
	"cmp"
	"fmt"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// StreamOptions configure the replay of one stream by RunStream.
type StreamOptions struct {
	TopK       int            // K in blocks. 0: the metadata's
	Candidates int            // M in blocks. 0: the metadata's
	Capacity   int            // blocks, or policies.Unbounded for policies without capacity
	Warmup     setting.Warmup // zero: cold. Auto is an error
	Seed       uint64
	Shape      setting.Shape  // ShareHeads has no effect
	Observer   cache.Observer // receives every step. May be nil

	// Later lists later capacities, by ascending steps. Lossy policies ignore it.
	Later []cache.CapacityAt
}

// Engine replays streams that are in memory, one after the other, with one policy instance each.
// Tests of policies and studies of single streams use it. Run does the same work on a file for many
// cells at once.
type Engine struct {
	delta demand.Delta
	join  demand.Joiner
	cells map[policies.Policy]*cache.Cell
}

// RunStream replays s with p. The instance p is reset and may be used again. RunStream checks every
// rule of the stream's lists, and that s has the columns that p needs. Unlike Run, it accepts a
// lossy policy that needs prompt windows if the warm-up replays none.
func (e *Engine) RunStream(s *trace.Stream, m *trace.Meta, p policies.Policy, o StreamOptions) (cache.Counts, error) {
	o.TopK, o.Candidates = cmp.Or(o.TopK, m.TopK), cmp.Or(o.Candidates, m.Candidates)
	if o.Warmup.Scope != setting.ScopeStream {
		return cache.Counts{}, fmt.Errorf("replay stream: warm-up %v needs a whole request, expected one of the stream", o.Warmup)
	}
	if err := o.Warmup.Check(); err != nil {
		return cache.Counts{}, fmt.Errorf("replay stream: %w", err)
	}
	if o.Warmup.Kind == setting.WarmupAuto || o.Warmup.Kind == setting.WarmupImportance && len(s.Scores) == 0 {
		return cache.Counts{}, fmt.Errorf("replay stream: warm-up %v, expected one other than auto, and scores for importance", o.Warmup)
	}
	if o.Capacity < 1 || o.TopK < 1 || o.TopK > o.Candidates || o.Warmup.Windows > s.Windows {
		return cache.Counts{}, fmt.Errorf("replay stream: capacity %d, K %d, M %d, warm-up %v of %d windows, expected capacity ≥ 1 and 1 ≤ K ≤ M", o.Capacity, o.TopK, o.Candidates, o.Warmup, s.Windows)
	}
	if s.Windows == s.Rows {
		return cache.Counts{}, fmt.Errorf("replay stream: %v has only prompt windows, expected a step from 0 on", s.Key)
	}
	needs, has := policies.NeedsOf(p), columnsOf(s, m, &o)
	_, lossy := p.(policies.Lossy)
	why := has.missing(needs)
	if lossy && why == "" {
		why = has.missingLossy(needs &^ policies.NeedWindows)
	}
	if why != "" {
		return cache.Counts{}, fmt.Errorf("replay stream: the policy cannot run: %s", why)
	}
	l, err := demand.NewLayout(o.Shape, m)
	if err != nil {
		return cache.Counts{}, fmt.Errorf("replay stream: %w", err)
	}
	if lossy && !l.Plain() {
		return cache.Counts{}, fmt.Errorf("replay stream: a lossy policy replays streams as recorded. Remove Shape")
	}
	c := e.cell(p, lossy)
	pins := pinsOf(m, &Options{Shape: o.Shape})
	check, ranks := trace.NewChecker("stream", m), m.Order == trace.OrderRank
	do := demand.Options{K: o.TopK, M: o.Candidates, Pins: pins, Meta: m, Windows: o.Warmup.Replayed(),
		Members: lossy || needs&policies.NeedDemand != 0, NextUses: !lossy && needs&policies.NeedNext != 0}
	st := cache.Start{Capacity: o.Capacity, Ranks: ranks, Seed: streamSeed(o.Seed, s.Key), Unit: l.Unit(pins), Attention: streamAttention(s, m, &o)}
	if !l.Plain() {
		if e := check.First(s); e != nil {
			return cache.Counts{}, e
		}
		e.join.Layout, e.join.K, e.join.M, e.join.Ranks, e.join.Pins = l, o.TopK, o.Candidates, ranks, pins
		if s, err = e.join.Join([]trace.Stream{*s}); err != nil {
			return cache.Counts{}, err
		}
		do.Joined = &e.join
	}
	if err := e.delta.Build(s, do, check); err != nil {
		return cache.Counts{}, err
	}
	if !lossy {
		for _, at := range o.Later {
			if at.Capacity < 1 {
				return cache.Counts{}, fmt.Errorf("replay stream: capacity %d from step %d on, expected at least 1", at.Capacity, at.Step)
			}
		}
		st.Later = o.Later
		st.Placed = demand.Place(o.Warmup, &e.delta, o.Capacity, nil)
	}
	return c.Run(&e.delta, st, o.Observer)
}

// cell returns the cell of a policy. It makes the cell at the first call.
func (e *Engine) cell(p policies.Policy, lossy bool) *cache.Cell {
	c := e.cells[p]
	switch {
	case c != nil:
		return c
	case e.cells == nil:
		e.cells = map[policies.Policy]*cache.Cell{}
	}
	if c = cache.NewCell(p); lossy {
		c = cache.NewLossyCell(p)
	}
	e.cells[p] = c
	return c
}
