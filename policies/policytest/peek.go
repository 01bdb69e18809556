package policytest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// peeked asks a Peeker, before every eviction, what would go first, and holds the policy
// to it; that it is asked may change nothing.
func (s *suite) peeked() error {
	if _, ok := s.make().(policies.Peeker); !ok {
		return nil
	}
	return s.seeds(peekStreams, func(c *setting) error {
		_, want, err := replayEngine(c, s.fresh())
		if err != nil {
			return err
		}
		p := s.fresh()
		p.peek = true
		_, got, err := replayEngine(c, p)
		if p.err != nil {
			return p.err // the engine may see no more than what came of it
		}
		if err == nil && got != want {
			err = fmt.Errorf("counts %+v become %+v where Peek is asked: it must change nothing", want, got)
		}
		if err != nil {
			return err
		}
		return s.drains(c)
	})
}

// drains asks a Peeker after a step's eviction, as a prefetcher that swaps does, and
// evicts what it names, until nothing is left.
func (s *suite) drains(c *setting) (err error) {
	defer catch(&err)
	p := s.fresh()
	p.script = new(script)
	if _, _, err := replayEngine(c, p); err != nil {
		return err
	}
	until := rand.New(rand.NewPCG(c.seed, 38)).IntN(p.script.steps()) + 1
	policy, left := p.script.playSteps(s.make(), until)
	peeker := policy.(policies.Peeker)
	for {
		first, named := peeker.Peek()
		if !named && len(left) == 0 {
			return nil
		}
		what := fmt.Sprintf("after %d steps, E is %v and Peek names ", until, slices.Sorted(maps.Keys(left)))
		switch {
		case !named:
			return fmt.Errorf("%sno block", what)
		case !left[first]:
			return fmt.Errorf("%sblock %d, which is not in it", what, first)
		}
		if victims := policy.Evict(1, nil); len(victims) != 1 || victims[0] != first {
			return fmt.Errorf("%sblock %d, and Evict(1) then %v: a prefetcher that swaps asks between Evict and the next Update", what, first, victims)
		}
		delete(left, first)
	}
}

// playSteps makes the calls of so many steps, and returns the policy and E.
func (r *script) playSteps(p policies.Policy, steps int) (policies.Policy, map[int32]bool) {
	r.begin(p)
	at := &probe{outside: map[int32]bool{}}
	for i := range r.calls {
		c := &r.calls[i]
		if c.kind == callUpdate {
			if steps--; steps < 0 {
				break
			}
			at.follow(&c.step)
		}
		got := c.make(p, nil)
		if c.kind == callEvict {
			at.gone = got
		}
	}
	at.follow(&policies.Step{})
	return p, at.outside
}

// asPeeked asks what would go first, and asks again.
func (p *probe) asPeeked() (int32, bool) {
	peeker := p.policy.(policies.Peeker)
	first, named := peeker.Peek()
	if again, still := peeker.Peek(); again != first || still != named {
		p.fail("Peek names block %d (%v), asked again block %d (%v): it must forget nothing", first, named, again, still)
	}
	return first, named
}

// compare holds what is evicted against what Peek named before.
func (p *probe) compare(first int32, named bool, victims []int32) {
	if len(victims) == 0 || named && victims[0] == first {
		return
	}
	what := "no block"
	if named {
		what = fmt.Sprintf("block %d", first)
	}
	p.fail("Peek names %s, and Evict then %v: the first victim must be the one that was named (is it the Peek of what the policy embeds?)", what, victims)
}
