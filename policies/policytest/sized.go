package policytest

import "fmt"

// sized tells a policy that does not claim Traits.Sized a capacity that is not the
// engine's: nothing may change. A claim that is not needed only costs the policy
// capacities that grow.
func (s *suite) sized() error {
	if s.entry.Traits.Sized || s.entry.Traits.Windowed {
		return nil
	}
	return s.seeds(sizedStreams, func(c *setting) error {
		_, want, err := replayEngine(c, s.fresh())
		if err != nil {
			return err
		}
		p := s.fresh()
		p.inflate = 3
		_, got, err := replayEngine(c, p)
		if err == nil && got != want {
			err = fmt.Errorf("counts %+v become %+v", want, got)
		}
		if err != nil {
			return fmt.Errorf("with Scope.Capacity three times what the engine keeps to: %w: a policy that looks at Scope.Capacity claims Traits.Sized, and where it can follow a capacity that grows it is a policies.Resizer", err)
		}
		return nil
	})
}
