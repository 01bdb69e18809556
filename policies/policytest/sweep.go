package policytest

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
)

// sizesAboveDemand are the capacities, less the largest demand, at which a pass is compared with
// single runs.
var sizesAboveDemand = []int{0, 1, 2, 4, 8, 16, 64}

// single is a run of a policy at one size, without its pass.
type single struct {
	size     int32
	capacity int
	steps    []step
}

// swept compares every step of a Sweeper's pass with single runs, with one pass for all streams.
func (s *suite) swept() error {
	pass := policies.SweepOf(s.make())
	if pass == nil {
		return nil
	}
	return s.seeds(sweepStreams, func(c *setting) error {
		cold := *c // a pass starts with an empty cache
		if c.replayedWindows() == 0 {
			cold.warmup = replay.Warmup{Kind: replay.WarmupCold}
		}
		runs, told, err := s.singles(&cold)
		if err != nil {
			return err
		}
		if err = follow(pass, told, runs, true); err == nil {
			return nil
		}
		switch {
		case follow(policies.SweepOf(s.make()), told, runs, true) == nil:
			return fmt.Errorf("the pass of the Sweeper: Reset does not forget: only a new pass agrees with single runs\n%w", err)
		case follow(policies.SweepOf(s.make()), told, runs, false) == nil:
			return fmt.Errorf("the pass of the Sweeper: keeps a slice after the call: lists are valid only during it, so copy them\n%w", err)
		}
		return fmt.Errorf("the pass of the Sweeper: %w\na pass must agree with single runs: if the policy changes the rule of a policy that it embeds, let SweepOf return nil", err)
	})
}

// singles runs the policy at a few sizes. The script is the input of a pass: the engine reports the
// same changes at every size, except for hits.
func (s *suite) singles(c *setting) (runs []single, told *script, err error) {
	p := s.fresh()
	if _, _, err := replayEngine(c, p); err != nil {
		return nil, nil, err
	}
	pass := policies.SweepOf(s.make())
	told = new(script)
	for _, more := range sizesAboveDemand {
		at := *c
		if !s.entry.Traits.Windowed {
			at.capacity = max(1, p.scope.Demand) + more
		}
		probe := s.fresh()
		if runs == nil {
			probe.script = told
		}
		steps, _, err := replayEngine(&at, probe)
		if err != nil {
			return nil, nil, err
		}
		runs = append(runs, single{pass.Size(at.capacity), at.capacity, steps})
		if s.entry.Traits.Windowed {
			break
		}
	}
	return runs, told, nil
}

// follow plays the script to a pass and compares it with single runs, step by step.
func follow(pass policies.Sweep, told *script, runs []single, spoil bool) (err error) {
	p := &probe{spoil: spoil, at: "Reset"}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panics in %s: %v", p.at, r)
		}
	}()
	scope := told.scope
	sizes := make([]int32, len(runs))
	for i, r := range runs {
		sizes[i] = r.size
	}
	scope.Capacity = int(slices.Max(sizes))
	if err := pass.Reset(&scope, sizes); err != nil {
		return err
	}
	i := 0
	for _, call := range told.calls {
		if call.kind != callUpdate {
			continue
		}
		if err := p.followStep(pass, entering(&call.step), sizes, runs, i); err != nil {
			return err
		}
		i++
	}
	return nil
}

// entering returns a step as a pass receives it. Hit has the births that are demanded at once, and
// Miss all other blocks that enter the demand.
func entering(s *policies.Step) *policies.Step {
	enter := sorted(slices.Concat(s.Hit, s.Miss))
	born := func(x int32) bool { return slices.Contains(s.Offered, x) }
	return &policies.Step{T: s.T, Demand: s.Demand, Offered: s.Offered, Exit: s.Exit, Members: s.Members, Candidates: s.Candidates,
		Hit:  slices.DeleteFunc(slices.Clone(enter), func(x int32) bool { return !born(x) }),
		Miss: slices.DeleteFunc(enter, born)}
}

// followStep applies the i-th step to a pass.
func (p *probe) followStep(pass policies.Sweep, s *policies.Step, sizes []int32, runs []single, i int) error {
	p.at = fmt.Sprintf("Distances at T = %d", s.T)
	given := p.lend(s)
	distances := p.answer("Distances", nil, func(dst []int32) []int32 { return pass.Distances(given, dst) })
	p.takeBack(given)
	p.at = fmt.Sprintf("Residents at T = %d", s.T)
	residents := p.answer("Residents", nil, func(dst []int32) []int32 { return pass.Residents(slices.Clone(sizes), dst) })
	if p.err != nil {
		return p.err
	}
	told := fmt.Sprintf("received: |D_t| = %d, Offered %v, Hit %v, Miss %v, Exit %v\nDistances returns %v; Residents of sizes %v returns %v", s.Demand,
		s.Offered, s.Hit, s.Miss, s.Exit, distances, sizes, residents)
	if len(distances) != len(s.Miss) || len(residents) != len(sizes) {
		return fmt.Errorf("step T = %d: expected a distance for each block of Miss and a number for each size\n%s", s.T, told)
	}
	for j, r := range runs {
		if err := r.agrees(i, s.Miss, distances, residents[j]); err != nil {
			return fmt.Errorf("step T = %d: %w\n%s", s.T, err, told)
		}
	}
	return nil
}

// agrees compares the answer of a pass for the i-th step with the run.
func (r *single) agrees(i int, entered, distances []int32, residents int32) error {
	did := &r.steps[i]
	for j, x := range entered {
		if _, missed := slices.BinarySearch(did.misses, x); missed != (distances[j] > r.size) {
			verb := map[bool]string{true: "misses", false: "hits"}
			return fmt.Errorf("method Distances gives %d for block %d, so size %d %s it, but a run at this size (capacity %d) %s it", distances[j], x, r.size, verb[!missed], r.capacity, verb[missed])
		}
	}
	if int(residents) != did.resident {
		return fmt.Errorf("method Residents gives %d at size %d, but a run at this size (capacity %d) holds %d after the step", residents, r.size, r.capacity, did.resident)
	}
	return nil
}
