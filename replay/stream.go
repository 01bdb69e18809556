package replay

import (
	"fmt"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// StreamOptions say how RunStream replays one stream.
type StreamOptions struct {
	TopK       int    // K in blocks; 0: the metadata's
	Candidates int    // M in blocks; 0: the metadata's
	Capacity   int    // blocks; policies.Unbounded for policies without capacity
	Warmup     Warmup // zero: cold; auto is an error, as there is nothing to settle it against
	Seed       uint64
	Shape      Shape    // but for ShareHeads: one stream is replayed
	Observer   Observer // sees every step; may be nil

	// Later is what the capacity becomes, by rising steps; nothing of it goes to lossy policies.
	Later []CapacityAt
}

// CapacityAt is a capacity, in blocks, from a decode step on.
type CapacityAt struct {
	Step     int32
	Capacity int
}

// Engine replays streams that are in memory, one after the other, with one policy
// instance each: what tests of policies and studies of single streams use. A Run over
// a file does the same work for many cells at once.
type Engine struct {
	delta Delta
	join  joiner
	cells map[policies.Policy]*cell
}

// RunStream replays s with p. The instance p is reset and may be used again. Every
// rule of the stream's lists is checked, and that s has the columns that p needs; prompt windows,
// without which Run leaves some lossy policies out, are what Warmup says.
func (e *Engine) RunStream(s *trace.Stream, m *trace.Meta, p policies.Policy, o StreamOptions) (Counts, error) {
	if o.TopK == 0 {
		o.TopK = m.TopK
	}
	if o.Candidates == 0 {
		o.Candidates = m.Candidates
	}
	if o.Warmup.Scope != setting.ScopeStream {
		return Counts{}, fmt.Errorf("replay stream: warm-up %v is over a whole request", o.Warmup)
	}
	if err := o.Warmup.Check(); err != nil {
		return Counts{}, fmt.Errorf("replay stream: %w", err)
	}
	if o.Warmup.Kind == WarmupAuto || o.Warmup.Kind == WarmupImportance && len(s.Scores) == 0 {
		return Counts{}, fmt.Errorf("replay stream: warm-up %v, expected one that is settled, and scores for importance", o.Warmup)
	}
	if o.Capacity < 1 || o.TopK < 1 || o.TopK > o.Candidates || o.Warmup.Windows > s.Windows {
		return Counts{}, fmt.Errorf("replay stream: capacity %d, K %d, M %d, warm-up %v with %d windows", o.Capacity, o.TopK, o.Candidates, o.Warmup, s.Windows)
	}
	if s.Windows == s.Rows {
		return Counts{}, fmt.Errorf("replay stream: %v has no counted step (step ≥ 0)", s.Key)
	}
	needs, has := policies.NeedsOf(p), columnsOf(s, m, &o)
	_, lossy := p.(policies.Lossy)
	why := has.lack(needs)
	if lossy && why == "" {
		why = has.lackLossy(needs &^ policies.NeedWindows)
	}
	if why != "" {
		return Counts{}, fmt.Errorf("replay stream: the policy cannot run here: %s", why)
	}
	l, err := settleShape(o.Shape, m)
	if err != nil {
		return Counts{}, fmt.Errorf("replay stream: %w", err)
	}
	if lossy && !l.plain() {
		return Counts{}, fmt.Errorf("replay stream: a lossy policy runs on streams as recorded, without a shape of their own")
	}
	c := e.cell(p, lossy)
	pins := pinsOf(m, &Options{Shape: o.Shape})
	check, ranks := trace.NewChecker("stream", m), m.Order == trace.OrderRank
	do := deltaOptions{k: o.TopK, m: o.Candidates, pins: pins, meta: m, windows: o.Warmup.Replayed(),
		members: lossy || c.needs&policies.NeedDemand != 0, nexts: !lossy && c.needs&policies.NeedNext != 0}
	st := start{capacity: o.Capacity, ranks: ranks, seed: streamSeed(o.Seed, s.Key), unit: l.unit(pins), attention: streamAttention(s, m, &o)}
	if !l.plain() {
		if e := check.First(s); e != nil {
			return Counts{}, e
		}
		e.join.layout, e.join.k, e.join.m, e.join.ranks = l, o.TopK, o.Candidates, ranks
		if err := e.join.join([]trace.Stream{*s}, pins.BlockTokens); err != nil {
			return Counts{}, err
		}
		do.joined, s = &e.join, &e.join.out
	}
	if err := e.delta.build(s, do, check); err != nil {
		return Counts{}, err
	}
	if !lossy {
		for _, at := range o.Later {
			if at.Capacity < 1 {
				return Counts{}, fmt.Errorf("replay stream: capacity %d from step %d on", at.Capacity, at.Step)
			}
			st.later = append(st.later, grown{at.Step, at.Capacity})
		}
		st.placed = placeBlocks(o.Warmup, &e.delta, o.Capacity, nil)
	}
	return c.run(&e.delta, st, o.Observer)
}

// cell is the cell of a policy, always the same.
func (e *Engine) cell(p policies.Policy, lossy bool) *cell {
	c := e.cells[p]
	switch {
	case c != nil:
		return c
	case e.cells == nil:
		e.cells = map[policies.Policy]*cell{}
	}
	if c = newCell(p); lossy {
		c = newLossyCell(p)
	}
	e.cells[p] = c
	return c
}
