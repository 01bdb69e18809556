package policytest

import "fmt"

// single asks for victims one by one, as the engine does where units have unequal sizes
// (--clusters): as many calls of Evict(1) after an Update give what one call gives. Those
// that do not run there are left out, and windows, which have no capacity to exceed.
func (s *suite) single() error {
	if s.entry.Traits.Sized || s.entry.Traits.Windowed || s.entry.Traits.Bypasses {
		return nil
	}
	return s.seeds(singleStreams, func(c *setting) error {
		want, _, err := replayEngine(c, s.fresh())
		if err != nil {
			return err
		}
		p := s.fresh()
		p.single = true
		got, _, err := replayEngine(c, p)
		if err == nil {
			err = differ("asked at once it", "asked one by one it", want, got)
		}
		if err != nil {
			return fmt.Errorf("Evict(1) several times after an Update is not Evict of as many, which --clusters needs: do in Update what is done once a step, or claim Traits.Sized\n%w", err)
		}
		return nil
	})
}
