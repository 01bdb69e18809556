package replay

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/trace"
)

// refereeCheck is the observer that compares a cell with the referee's replay of it, step by
// step.
type refereeCheck struct {
	steps, at   int // of the referee
	countedOnly bool
	compare     func(at int, s *StepReport) error
	err         error
}

// newRefereeChecks replays a cell and its tiers; the checks are theirs, the cell's first.
// streams share the cache, each with the heads that share its blocks; request are all of
// a request whose importance is one.
func newRefereeChecks(p *plan, policy string, streams, request [][]*trace.Stream, st start, lower []tierStart) ([]*refereeCheck, error) {
	kinds := map[WarmupKind]referee.WarmupKind{WarmupRun: referee.WarmRun, WarmupCold: referee.WarmCold,
		WarmupImportance: referee.WarmImportance, WarmupStaging: referee.WarmStaging}
	config := referee.Config{
		Policy: policy, TopK: p.topk, Candidates: p.m, Capacity: st.capacity, Growth: growthOf(st.later),
		Warmup: referee.Warmup{Kind: kinds[p.warmup.Kind], Windows: p.warmup.Windows, Over: request},
		Sink:   p.pins.Sink, Local: p.pins.Local, BlockTokens: p.pins.BlockTokens,
		Entries: p.layout.factor, StepTokens: p.layout.mtp,
		Prefetch: referee.Prefetch{Predicted: st.prefetch == PrefetchPredicted, Size: st.staging, Swap: st.swaps},
	}
	if c := p.opt.Clusters; c != nil {
		config.Page = c.page
		if config.Clusters = c.file[streams[0][0].Key]; c.file == nil {
			config.Clusters = numbered(chains(streams[0][0], streams[0][0].MaxSeqLen(), p.meta.Candidates))
		}
	}
	switch o := p.opt.Outliers; o.Source {
	case OutliersWindows:
		config.Outliers = o.Count
	case OutliersUnlisted:
		config.Unlisted = o.Count
	}
	var tiers []referee.Tier
	for n, t := range lower {
		tiers = append(tiers, referee.Tier{Policy: p.opt.Tiers[n].Policy.Name(), Capacity: t.capacity, Growth: growthOf(t.later), Inclusive: p.opt.Inclusive, Placed: t.placed})
	}
	all, err := referee.RunPool(streams, p.ranks, config, tiers)
	if err != nil {
		return nil, err
	}
	checks := make([]*refereeCheck, len(all))
	for n := range all {
		want, entries := all[n], n == 0 && p.layout.weighed()
		checks[n] = &refereeCheck{steps: len(want), compare: func(at int, s *StepReport) error { return compareExact(&want[at], s, entries) }}
	}
	return checks, nil
}

func growthOf(later []grown) (growth []referee.Growth) {
	for _, g := range later {
		growth = append(growth, referee.Growth{From: g.from, Capacity: g.blocks})
	}
	return growth
}

// newLossyCheck replays cell c on the i-th selected stream with the referee, which reads the
// whole request.
func newLossyCheck(p *plan, i, c int, cell *cell, st start) ([]*refereeCheck, error) {
	from, to := p.requestOf(i)
	reader := p.file.NewReader(trace.ReadScores | trace.ReadMasses | trace.ReadPromptMass)
	defer reader.Close()
	config := referee.LossyConfig{Policy: p.cells[c].spec.Name(), TopK: p.topk, Candidates: p.m, Windows: p.warmup.Replayed(),
		Sink: p.pins.Sink, Local: p.pins.Local, BlockTokens: p.pins.BlockTokens, Attention: st.attention.given, Masses: st.attention.masses, Covered: st.attention.covered}
	var streams []*trace.Stream
	for n := from; n < to; n++ {
		s := new(trace.Stream)
		if err := reader.Read(p.streams[n], s); err != nil {
			return nil, err
		}
		blocks, err := p.cells[c].capacity.Blocks(p.sizingOf(n))
		if err != nil {
			blocks = st.capacity // a peak, which only methods have that do not divide
		}
		streams, config.Capacities = append(streams, s), append(config.Capacities, blocks)
	}
	want, err := referee.RunLossy(streams, i-from, config)
	compare := func(at int, s *StepReport) error { return compareLossy(&want[at], s, cell) }
	return []*refereeCheck{{steps: len(want), countedOnly: true, compare: compare}}, err
}

// observer returns an observer that compares and then calls next.
func (r *refereeCheck) observer(next Observer) Observer {
	return func(s *StepReport) {
		if r.err == nil && (s.T >= 0 || !r.countedOnly) {
			r.err = r.check(s)
		}
		if next != nil {
			next(s)
		}
	}
}

func (r *refereeCheck) check(s *StepReport) error {
	if r.at == r.steps {
		return fmt.Errorf("referee: the engine replays step %d, the referee has ended", s.T)
	}
	r.at++
	return r.compare(r.at-1, s)
}

// verdict is the first difference, or nil.
func (r *refereeCheck) verdict() error {
	if r.err == nil && r.at != r.steps {
		return fmt.Errorf("referee: the engine replayed %d steps, the referee %d", r.at, r.steps)
	}
	return r.err
}

// compareExact compares a step of an exact cell. With entries, those of the demand count too.
func compareExact(w *referee.StepCounts, s *StepReport, entries bool) error {
	for _, f := range []struct {
		what        string
		engine, ref int
	}{
		{"step", int(s.T), int(w.T)}, {"stream", s.Stream, w.Stream}, {"demand", s.Demand, w.Demand}, {"births", s.Births, w.Births}, {"misses", len(s.Misses), w.Misses},
		{"overflow", s.Overflow, w.Overflow}, {"evictions", len(s.Victims), w.Evictions}, {"residents", s.Resident, w.Resident}, {"pinned blocks", s.Pinned, w.Pinned},
	} {
		if f.engine != f.ref {
			return fmt.Errorf("referee: step %d: %s %d, the referee counts %d", w.Step, f.what, f.engine, f.ref)
		}
	}
	if entries && (s.DemandEntries != int64(w.DemandEntries) || s.MissedEntries != int64(w.MissedEntries)) {
		return fmt.Errorf("referee: step %d: %d entries demanded and %d missed, the referee counts %d and %d",
			w.Step, s.DemandEntries, s.MissedEntries, w.DemandEntries, w.MissedEntries)
	}
	if e, f := s.Prefetched, w.Prefetched; e != (prefetched{int64(f.Moved), int64(f.Useful), int64(f.Late), int64(f.Useless)}) {
		return fmt.Errorf("referee: step %d: prefetched %+v, the referee counts %+v", w.Step, e, f)
	}
	return compareLists(w.Step, []listPair{{"missed blocks", s.Misses, w.Missed}, {"victims", sorted(s.Victims), w.Victims}, {"blocks kept out", s.KeptOut, w.KeptOut}})
}

// compareLossy compares a counted step of a lossy cell.
func compareLossy(w *referee.LossyCounts, s *StepReport, c *cell) error {
	switch {
	case s.T != w.T || s.Step != w.Step:
		return fmt.Errorf("referee: step %d (T = %d), the referee is at %d (T = %d)", s.Step, s.T, w.Step, w.T)
	case s.Births != len(w.Born) || s.Resident != len(w.Held):
		return fmt.Errorf("referee: step %d: %d births and %d held, the referee counts %d and %d", w.Step, s.Births, s.Resident, len(w.Born), len(w.Held))
	case !nearMass(s.KeptMass, w.Kept) || !nearMass(s.CoveredMass, w.Covered):
		return fmt.Errorf("referee: step %d: mass %v of %v kept, the referee has %v of %v",
			w.Step, float64(s.KeptMass)/massUnit, float64(s.CoveredMass)/massUnit, w.Kept, w.Covered)
	}
	return compareLists(w.Step, []listPair{{"held", c.heldBlocks(), w.Held}, {"lost", s.Lost, w.Lost}, {"dropped", sorted(s.Victims), w.Dropped}})
}

// nearMass compares a mass in parts of massUnit with a sum of floats.
func nearMass(parts int64, mass float64) bool {
	return math.Abs(float64(parts)/massUnit-mass) < 1e-6
}

func sorted(blocks []int32) []int32 { return slices.Sorted(slices.Values(blocks)) }

type listPair struct {
	what        string
	engine, ref []int32
}

func compareLists(step int32, pairs []listPair) error {
	for _, p := range pairs {
		if !slices.Equal(p.engine, p.ref) {
			return fmt.Errorf("referee: step %d: %s %v, the referee has %v", step, p.what, p.engine, p.ref)
		}
	}
	return nil
}

// checkObserved compares the misses that were observed of the request's streams with the
// referee's.
func (w *worker) checkObserved(sizes []int) error {
	p, a := w.plan, &w.request
	blocks := make([]int, len(sizes))
	for i, size := range sizes {
		blocks[i] = size / p.pins.BlockTokens
	}
	for n, heads := range a.streams {
		c := referee.Config{Policy: "lru", TopK: p.topk, Candidates: p.m, Capacity: 1, Warmup: referee.Warmup{Kind: referee.WarmCold},
			Sink: p.pins.Sink, Local: p.pins.Local, BlockTokens: p.pins.BlockTokens, Entries: p.layout.factor, StepTokens: p.layout.mtp}
		if p.warmup.Kind == WarmupRun {
			c.Warmup = referee.Warmup{Kind: referee.WarmRun, Windows: p.warmup.Windows}
		}
		if p.opt.Outliers.Source == OutliersWindows {
			c.Outliers = p.opt.Outliers.Count
		}
		want, err := referee.Observed(heads, p.ranks, c, p.opt.Reallocation.Every, blocks)
		if err != nil {
			return err
		}
		if got := a.observed[n].misses; !reflect.DeepEqual(got, want) {
			return fmt.Errorf("referee: %v: an LRU cache of %v blocks misses %v by intervals of %d steps, the referee counts %v", a.observed[n].key, blocks, got, p.opt.Reallocation.Every, want)
		}
	}
	return nil
}
