package policytest

import (
	"fmt"

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
		return err
	})
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
