package cli

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
)

// checkPeaks refuses capacities that are the peak of no windowed policy of the run.
func checkPeaks(table policies.Table, specs []policies.Spec, capacities []replay.Capacity) error {
	for _, c := range capacities {
		if c.Peak() == "" {
			continue
		}
		spec, err := table.Parse(c.Peak())
		switch {
		case err != nil:
			return fmt.Errorf("capacity %v: %w", c, err)
		case !spec.Entry.Traits.Windowed:
			return fmt.Errorf("capacity %v: %s has a capacity itself; expected a policy without, as in peak:window:2", c, spec.Name())
		case spec.Name() != c.Peak():
			return fmt.Errorf("capacity %v: write it peak:%s", c, spec.Name())
		case !slices.ContainsFunc(specs, func(s policies.Spec) bool { return s.Name() == spec.Name() }):
			return fmt.Errorf("capacity %v: the run has no policy %s; add --policy %s", c, spec.Name(), spec.Name())
		}
	}
	return nil
}
