package policytest

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/opt"
	"github.com/kvreplay/kvreplay/policies/optbypass"
)

// bounded compares the policy with the optimum at the same capacity. For a policy without capacity,
// the optimum gets the policy's peak.
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
	_, least, err := replayEngine(&best, &probe{policy: newBound(), rule: fetch})
	if err != nil {
		return fmt.Errorf("%s: %w", bound.Name, err)
	}
	if got.Misses < least.Misses {
		return fmt.Errorf("misses %d blocks, but the optimum %s misses %d at capacity %d: check Traits.Bypasses and Traits.Windowed", got.Misses, bound.Name, least.Misses, best.capacity)
	}
	return nil
}

// peak returns the largest number of residents after a step, warm-up included, and at least 1.
func peak(steps []step) int {
	most := 1
	for _, st := range steps {
		most = max(most, st.resident)
	}
	return most
}

// stackAbove are the capacities, less the largest demand, at which the stack property is tried.
// Each capacity is compared with the next. The last one exceeds any stream.
var stackAbove = []int{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32, 64, 1024}

// stacked checks the stack property step by step at capacities above the largest demand. At lower
// capacities the overflow of S5 decides too.
func (s *suite) stacked() error {
	if !s.entry.Traits.Stack || s.entry.Traits.Windowed {
		return nil
	}
	return s.seeds(stackStreams, func(c *setting) error {
		p := s.fresh()
		if _, _, err := replayEngine(c, p); err != nil {
			return err
		}
		var last []step
		smaller := 0
		for _, above := range stackAbove {
			larger := *c
			larger.capacity = p.scope.Demand + above
			steps, _, err := replayEngine(&larger, s.fresh())
			if err != nil {
				return err
			}
			if last != nil {
				if err := includes(steps, last); err != nil {
					return fmt.Errorf("Traits.Stack is set, but capacity %d %w which capacity %d hits: the eviction order depends on the capacity, so remove the trait", larger.capacity, err, smaller)
				}
			}
			last, smaller = steps, larger.capacity
		}
		return nil
	})
}

// includes checks that one history misses only blocks that another one misses too.
func includes(larger, smaller []step) error {
	for i := range larger {
		for _, x := range larger[i].misses {
			if _, missed := slices.BinarySearch(smaller[i].misses, x); !missed {
				return fmt.Errorf("misses block %d at step T = %d,", x, larger[i].T)
			}
		}
	}
	return nil
}
