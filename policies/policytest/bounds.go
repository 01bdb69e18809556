package policytest

import (
	"fmt"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/opt"
	"github.com/kvreplay/kvreplay/policies/optbypass"
)

// bounded holds the policy against the optimum at the same capacity; a policy without
// capacity against the optimum given its peak.
func (s *suite) bounded() error { return s.seeds(boundStreams, s.boundedOn) }

func (s *suite) boundedOn(c *setting) error {
	bound := opt.Entry
	if s.entry.Traits.Bypasses {
		bound = optbypass.Entry
	}
	newBound, _, err := bound.New("")
	if err != nil {
		return err
	}
	steps, got, err := replayEngine(c, s.fresh())
	if err != nil {
		return err
	}
	best := *c
	if c.capacity == policies.Unbounded {
		best.capacity = peak(steps)
	}
	_, least, err := replayEngine(&best, &probe{policy: newBound()})
	if err != nil {
		return fmt.Errorf("%s: %w", bound.Name, err)
	}
	if got.Misses < least.Misses {
		return fmt.Errorf("misses %d blocks, %s %d at capacity %d: nobody misses less than the optimum; is Traits.Bypasses or Traits.Windowed wrong?", got.Misses, bound.Name, least.Misses, best.capacity)
	}
	return nil
}

// peak is the most that is kept after a step, warm-up included; 1 at least.
func peak(steps []step) int {
	most := 1
	for _, st := range steps {
		most = max(most, st.resident)
	}
	return most
}

// stackCapacities are tried a stream.
const stackCapacities = 8

// stacked checks the stack property at capacities above the largest demand, below
// which the surplus of S5 decides with the policy.
func (s *suite) stacked() error {
	if !s.entry.Traits.Stack || s.entry.Traits.Windowed {
		return nil
	}
	return s.seeds(stackStreams, func(c *setting) error {
		p := s.fresh()
		if _, _, err := replayEngine(c, p); err != nil {
			return err
		}
		last := int64(-1)
		for capacity := p.scope.Demand + 1; capacity <= p.scope.Demand+stackCapacities; capacity++ {
			larger := *c
			larger.capacity = capacity
			_, counts, err := replayEngine(&larger, s.fresh())
			if err != nil {
				return err
			}
			if last >= 0 && counts.Misses > last {
				return fmt.Errorf("Traits.Stack is set, but capacity %d misses %d blocks where one less misses %d: the order of eviction depends on the capacity; drop the trait", capacity, counts.Misses, last)
			}
			last = counts.Misses
		}
		return nil
	})
}
