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
	onlineStreams    = 200
	apartStreams     = 100
	poolTraces       = 6
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
	return s.draws(func(judge func(error) error) error {
		return s.seeds(agreeStreams, func(c *setting) error {
			other := *c
			other.runSeed += 1000
			return judge(s.compare(c, &other, "with one seed it", "with another it"))
		})
	})
}

// draws holds Traits.Random against pairs of replays with two seeds of the run: judge is
// told how each differs, or nil.
func (s *suite) draws(pairs func(judge func(differ error) error) error) error {
	drew := false
	err := pairs(func(differ error) error {
		drew = drew || differ != nil
		if differ != nil && !s.entry.Traits.Random {
			return fmt.Errorf("results depend on Scope.Seed: set Traits.Random\n%w", differ)
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
		return fmt.Errorf("keeps a slice or a pointer that it was given: Scope, Step and their lists are valid until the call returns, and are overwritten here after it; copy what is needed later\n%w", err)
	}
	return nil
}

// forgets replays streams A, B, A with one instance, and A again after as many streams as
// a counter of 8 or 16 bits can count.
func (s *suite) forgets() error {
	if err := s.forgetsOther(); err != nil {
		return err
	}
	for _, again := range []struct {
		after int // streams
		seed  uint64
	}{{1 << 8, 4}, {1 << 8, 6}, {1 << 8, 14}, {1 << 8, 16}, {1 << 16, 14}} {
		if s.short && again.after > 1<<8 || *onlySeed != 0 {
			continue
		}
		if err := s.forgetsMany(s.draw(again.seed), again.after); err != nil {
			return err
		}
	}
	return nil
}

// forgetsMany begins so many streams from a replay of a stream to the next of the same:
// a stamp that counts streams, in too few bits, is then what it was.
func (s *suite) forgetsMany(c *setting, streams int) (err error) {
	defer catch(&err)
	p := s.fresh()
	want, _, err := replayEngine(c, p)
	if err != nil {
		return err
	}
	for range streams - 1 {
		scope := p.scope
		if err := p.policy.Reset(&scope); err != nil {
			return fmt.Errorf("Reset does not forget: it refuses a stream that it has taken before: %w\n%v", err, c)
		}
	}
	got, _, err := replayEngine(c, p)
	if err == nil {
		err = differ("a new instance", "the old one", want, got)
	}
	if err != nil {
		return fmt.Errorf("Reset does not forget: on a stream that an instance has seen %d streams before (a count of streams in too few bits?)\n%w\n%v", streams, err, c)
	}
	return nil
}

func (s *suite) forgetsOther() error {
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
