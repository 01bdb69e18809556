package cache

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/trace"
)

// Check is an observer that compares a cell with the referee's replay of it, step by step.
type Check struct {
	steps, at   int // number of the referee's steps, and the next one to compare
	countedOnly bool
	compare     func(at int, s *StepReport) error
	err         error
}

// NewChecks replays a cell and its tiers with the referee. It returns one check for the cell and one
// for each tier, in this order. streams are the streams that share the cache, each with the heads
// that share its blocks. With entries, the cell's check also compares counts of entries.
func NewChecks(streams [][]*trace.Stream, ranks bool, config referee.Config, tiers []referee.Tier, entries bool) ([]*Check, error) {
	all, err := referee.RunPool(streams, ranks, config, tiers)
	if err != nil {
		return nil, err
	}
	checks := make([]*Check, len(all))
	for n := range all {
		want, entries := all[n], n == 0 && entries
		checks[n] = &Check{steps: len(want), compare: func(at int, s *StepReport) error { return compareExact(&want[at], s, entries) }}
	}
	return checks, nil
}

// NewLossyCheck replays stream at of a request with the referee and returns the check of cell c. The
// referee needs all streams of the request, because it divides memory among them.
func NewLossyCheck(streams []*trace.Stream, at int, config referee.LossyConfig, c *Cell) (*Check, error) {
	want, err := referee.RunLossy(streams, at, config)
	compare := func(at int, s *StepReport) error { return compareLossy(&want[at], s, c) }
	return &Check{steps: len(want), countedOnly: true, compare: compare}, err
}

// Observer returns an observer that compares a step and then calls next, which may be nil.
func (r *Check) Observer(next Observer) Observer {
	return func(s *StepReport) {
		if r.err == nil && (s.T >= 0 || !r.countedOnly) {
			r.err = r.check(s)
		}
		if next != nil {
			next(s)
		}
	}
}

func (r *Check) check(s *StepReport) error {
	if r.at == r.steps {
		return fmt.Errorf("referee: the engine replays step %d, the referee has no more steps", s.T)
	}
	r.at++
	return r.compare(r.at-1, s)
}

// Verdict returns an error that describes the first difference, or nil.
func (r *Check) Verdict() error {
	if r.err == nil && r.at != r.steps {
		return fmt.Errorf("referee: the engine replayed %d steps, the referee %d", r.at, r.steps)
	}
	return r.err
}

// compareExact compares a step of an exact cell. With entries, it also compares counts of entries.
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
	if e, f := s.Prefetched, w.Prefetched; e != (Prefetched{int64(f.Moved), int64(f.Useful), int64(f.Late), int64(f.Useless)}) {
		return fmt.Errorf("referee: step %d: prefetched %+v, the referee counts %+v", w.Step, e, f)
	}
	return compareLists(w.Step, []listPair{{"missed blocks", s.Misses, w.Missed}, {"victims", sorted(s.Victims), w.Victims}, {"bypassed blocks", s.KeptOut, w.KeptOut}})
}

// compareLossy compares a counted step of a lossy cell.
func compareLossy(w *referee.LossyCounts, s *StepReport, c *Cell) error {
	switch {
	case s.T != w.T || s.Step != w.Step:
		return fmt.Errorf("referee: the engine is at step %d (T = %d), the referee at step %d (T = %d)", s.Step, s.T, w.Step, w.T)
	case s.Births != len(w.Born) || s.Resident != len(w.Held):
		return fmt.Errorf("referee: step %d: %d births and %d held, the referee counts %d and %d", w.Step, s.Births, s.Resident, len(w.Born), len(w.Held))
	case !nearMass(s.KeptMass, w.Kept) || !nearMass(s.CoveredMass, w.Covered):
		return fmt.Errorf("referee: step %d: mass %v of %v kept, the referee has %v of %v",
			w.Step, float64(s.KeptMass)/MassUnit, float64(s.CoveredMass)/MassUnit, w.Kept, w.Covered)
	}
	return compareLists(w.Step, []listPair{{"held", c.heldBlocks(), w.Held}, {"lost", s.Lost, w.Lost}, {"dropped", sorted(s.Victims), w.Dropped}})
}

// nearMass reports whether a mass in parts of 1/MassUnit nearly equals a sum of floats.
func nearMass(parts int64, mass float64) bool {
	return math.Abs(float64(parts)/MassUnit-mass) < 1e-6
}

func sorted(blocks []int32) []int32 { return slices.Sorted(slices.Values(blocks)) }

type listPair struct {
	what        string
	engine, ref []int32
}

func compareLists(step int32, pairs []listPair) error {
	for _, p := range pairs {
		if !slices.Equal(p.engine, p.ref) {
			return fmt.Errorf("referee: step %d: %s %v, the referee lists %v", step, p.what, p.engine, p.ref)
		}
	}
	return nil
}
