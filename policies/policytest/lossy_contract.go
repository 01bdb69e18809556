package policytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

func (s *suite) lossyLegal(c *lossySetting) error {
	_, err := replayLossy(c, s.lossyFresh())
	return err
}

func sameDrops(a, b string, x, y []dropped) error {
	for i := range min(len(x), len(y)) {
		if !slices.Equal(x[i].lost, y[i].lost) || !slices.Equal(x[i].victims, y[i].victims) {
			return fmt.Errorf("step T = %d: %s lost %v and drops %v, %s lost %v and drops %v", x[i].T, a, x[i].lost, x[i].victims, b, y[i].lost, y[i].victims)
		}
	}
	return nil
}

func (s *suite) lossyPair(c *lossySetting, x, y *lossyProbe, a, b string) error {
	want, err1 := replayLossy(c, x)
	got, err2 := replayLossy(c, y)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return sameDrops(a, b, want, got)
}

// lossyDeterministic compares two instances, and two seeds of the run.
func (s *suite) lossyDeterministic() error {
	err := s.lossySeeds(func(c *lossySetting) error {
		if err := s.lossyPair(c, s.lossyFresh(), s.lossyFresh(), "one instance", "another"); err != nil {
			return fmt.Errorf("not a function of its inputs (global randomness, a clock, the order of a map?)\n%w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.draws(func(judge func(error) error) error {
		return s.lossySeeds(func(c *lossySetting) error {
			other := *c
			other.o.Seed += 1000
			x, err1 := replayLossy(c, s.lossyFresh())
			y, err2 := replayLossy(&other, s.lossyFresh())
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			return judge(sameDrops("with one seed it", "with another it", x, y))
		})
	})
}

func (s *suite) lossyBorrows(c *lossySetting) error {
	spoilt := s.lossyFresh()
	spoilt.spoil = true
	err := s.lossyPair(c, s.lossyFresh(), spoilt, "normally it", "with lists overwritten it")
	if spoilt.err != nil {
		return spoilt.err
	}
	if err != nil {
		return fmt.Errorf("keeps a slice or a pointer that it was given: Scope, Prompt, Step and their lists are valid until the call returns, and are overwritten here after it; copy what is needed later\n%w", err)
	}
	return nil
}

func (s *suite) lossyForgets(c *lossySetting) error {
	other := s.lossyDraw(c.seed%lossyStreams + 1)
	p := s.lossyFresh()
	if _, err := replayLossy(other, p); err != nil {
		return err
	}
	if err := s.lossyPair(c, s.lossyFresh(), p, "a new instance", "one that has seen another stream"); err != nil {
		return fmt.Errorf("Reset and Prompt do not forget\n%w", err)
	}
	return nil
}

// lossyApart makes the calls of two replays in turn, an instance each.
func (s *suite) lossyApart() error {
	apart := s.besideLast()
	return s.lossySeeds(func(c *lossySetting) error {
		calls, err := s.record(c)
		if err != nil {
			return err
		}
		return apart(calls)
	})
}

// lossyOnline cuts streams short: what was dropped up to the cut stays the same.
func (s *suite) lossyOnline() error {
	return s.lossySeeds(func(c *lossySetting) error {
		counted := c.stream.Rows - c.stream.Windows
		if counted < 2 {
			return nil
		}
		whole, err1 := replayLossy(c, s.lossyFresh())
		rows := c.stream.Windows + 1 + rand.New(rand.NewPCG(c.seed, 40)).IntN(counted-1)
		short := *c
		short.stream = firstRows(c.stream, rows)
		cut, err2 := replayLossy(&short, s.lossyFresh())
		err := errors.Join(err1, err2)
		if err == nil {
			err = sameDrops("on the whole stream it", "cut short it", whole, cut)
		}
		if err != nil {
			return fmt.Errorf("what it drops depends on steps to come: with the stream cut after row %d, steps before the cut differ; Scope.Steps, Scope.Demand and Scope.Blocks are for taking memory, Prompt.Most for Divide\n%w", rows, err)
		}
		return nil
	})
}
