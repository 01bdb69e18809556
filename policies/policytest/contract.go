package policytest

import (
	"errors"
	"fmt"
)

// Streams that a check draws; -short halves them.
const (
	legalStreams     = 600
	agreeStreams     = 200
	referenceStreams = 1200
	boundStreams     = 600
	stackStreams     = 300
	sweepStreams     = 200
	shiftStreams     = 200
	sizedStreams     = 100
	peekStreams      = 100
	singleStreams    = 100
	resizeStreams    = 100
)

// legal replays with a new instance a stream: the engine checks every answer.
func (s *suite) legal() error {
	return s.seeds(legalStreams, func(c *setting) error {
		_, _, err := replayEngine(c, s.fresh())
		return err
	})
}

// deterministic compares two instances, and two seeds of the run.
func (s *suite) deterministic() error {
	err := s.seeds(agreeStreams, func(c *setting) error {
		if err := s.compare(c, c, "one instance", "another"); err != nil {
			return fmt.Errorf("not a function of its inputs: two instances with one seed differ (global randomness, a clock, the order of a map?)\n%w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	drew := false
	err = s.seeds(agreeStreams, func(c *setting) error {
		other := *c
		other.runSeed += 1000
		err := s.compare(c, &other, "with one seed it", "with another it")
		drew = drew || err != nil
		if err != nil && !s.entry.Traits.Random {
			return fmt.Errorf("results depend on Scope.Seed: set Traits.Random\n%w", err)
		}
		return nil
	})
	if err == nil && s.entry.Traits.Random && !drew && *onlySeed == 0 {
		return errors.New("the entry's Traits.Random is set, but no seed changes anything: draw from Scope.Seed, or drop the trait")
	}
	return err
}

// compare replays two settings with an instance each.
func (s *suite) compare(a, b *setting, first, second string) error {
	x, _, err1 := replayEngine(a, s.fresh())
	y, _, err2 := replayEngine(b, s.fresh())
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return differ(first, second, x, y)
}

// borrows overwrites all that the policy was lent after every call.
func (s *suite) borrows() error { return s.seeds(agreeStreams, s.borrowsOn) }

func (s *suite) borrowsOn(c *setting) error {
	plain, _, err := replayEngine(c, s.fresh())
	if err != nil {
		return err
	}
	p := s.fresh()
	p.spoil = true
	spoilt, _, err := replayEngine(c, p)
	if p.err != nil {
		return p.err
	}
	if err == nil {
		err = differ("normally it", "with lists overwritten it", plain, spoilt)
	}
	if err != nil {
		return fmt.Errorf("keeps a slice that it was given: lists are valid until the call returns, and are overwritten here after it; copy what is needed later\n%w", err)
	}
	return nil
}

// forgets replays streams A, B, A with one instance.
func (s *suite) forgets() error {
	var last *setting
	return s.seeds(agreeStreams, func(a *setting) error {
		if last == nil {
			last = a
		}
		b := last
		last = a
		want, _, err := replayEngine(a, s.fresh())
		if err != nil {
			return err
		}
		p := s.fresh()
		for i, c := range []*setting{a, b, a} {
			got, _, err := replayEngine(c, p)
			if err == nil && c == a {
				err = differ("a new instance", "one that has seen another stream", want, got)
			}
			if err != nil {
				return fmt.Errorf("Reset does not forget: on stream %d of A, B, A with one instance\n%w", i+1, err)
			}
		}
		return nil
	})
}

// refereed compares every step with the reference.
func (s *suite) refereed() error { return s.seeds(referenceStreams, s.refereedOn) }

func (s *suite) refereedOn(c *setting) error {
	if s.reference == nil {
		return nil
	}
	p := s.fresh()
	got, _, err := replayEngine(c, p)
	if err != nil {
		return err
	}
	c.scopeSeed = p.scope.Seed
	want, err := replayReference(c, s.reference())
	if err != nil {
		return err
	}
	return differ("the policy", "the reference", got, want)
}
