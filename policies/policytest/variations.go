package policytest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
)

// sized gives a policy that does not claim Traits.Sized a wrong capacity. Nothing may change. An
// unnecessary claim only excludes the policy from capacities that grow.
func (s *suite) sized() error {
	if s.entry.Traits.Sized || s.entry.Traits.Windowed {
		return nil
	}
	return s.seeds(sizedStreams, func(c *setting) error {
		p := s.fresh()
		p.inflate = 3
		if err := s.sameCounts(c, c, p); err != nil {
			return fmt.Errorf("with Scope.Capacity three times the engine's capacity: %w: a policy that reads Scope.Capacity sets Traits.Sized, and is a policies.Resizer if it can follow changes", err)
		}
		return nil
	})
}

// sameCounts compares the counts of a new instance on a with those of p on b, apart from pinned blocks.
func (s *suite) sameCounts(a, b *setting, p *probe) error {
	_, want, err1 := replayEngine(a, s.fresh())
	_, got, err2 := replayEngine(b, p)
	got.PinnedPeak = want.PinnedPeak
	if err := errors.Join(err1, err2); err != nil || got == want {
		return err
	}
	return fmt.Errorf("counts %+v become %+v", want, got)
}

// resized replays at capacities that grow and shrink, as with --capacity 1x+2x@64 and --reallocate.
// It includes every policy that runs there, and compares step by step with the reference.
func (s *suite) resized() error {
	if _, resizes := s.make().(policies.Resizer); s.entry.Traits.Windowed || s.entry.Traits.Sized && !resizes {
		return nil
	}
	err := s.seeds(resizeStreams, s.resizedOn)
	if err == nil && s.reference != nil && !s.referenceResizes() {
		return errors.New("the policy is a Resizer, but its Reference is not: add Resize(capacity int) to the Reference")
	}
	return err
}

func (s *suite) resizedOn(c *setting) error {
	c.later = c.changes()
	_, _, err := replayEngine(c, s.fresh())
	if err == nil && s.reference != nil && s.referenceResizes() {
		err = s.refereedOn(c)
	}
	if err != nil {
		return fmt.Errorf("with a changing capacity: %w", err)
	}
	return nil
}

// referenceResizes reports whether the reference follows a capacity that changes.
func (s *suite) referenceResizes() bool {
	if !s.entry.Traits.Sized {
		return true
	}
	_, resizes := s.reference().(policies.Resizer)
	return resizes
}

// changes draws later capacities: more, fewer or the same number of blocks.
func (c *setting) changes() (later []replay.CapacityAt) {
	r := rand.New(rand.NewPCG(c.seed, 33))
	step := int32(0)
	for range 1 + r.IntN(4) {
		later = append(later, replay.CapacityAt{Step: step, Capacity: 1 + r.IntN(3*c.topK)})
		step += 1 + int32(r.IntN(1+c.stream.Rows/3))
	}
	return later
}

// single requests victims one by one, as the engine does if units have unequal sizes (--clusters).
// Several calls of Evict(1) after an Update give the same as one call. Policies that cannot run
// there are left out, and so are windows, which have no capacity to exceed.
func (s *suite) single() error {
	if s.entry.Traits.Sized || s.entry.Traits.Windowed || s.entry.Traits.Bypasses {
		return nil
	}
	return s.seeds(singleStreams, func(c *setting) error {
		p := s.fresh()
		p.single = true
		if err := s.compare(c, c, p, "in one call it", "in single calls it"); err != nil {
			return fmt.Errorf("n calls of Evict(1) differ from Evict(n), which --clusters needs: move the work of a step to Update, or set Traits.Sized\n%w", err)
		}
		return nil
	})
}

// shifted renumbers all blocks by a multiple of Traits.Aligned, with sinks and prompt longer by the same number. The
// order of blocks stays, so the counts do too. Some constants are small. Others move the stream
// across a power of two, where numbers in too few bits overflow. Random policies are left out.
func (s *suite) shifted() error {
	if s.entry.Traits.Random {
		return nil
	}
	return s.seeds(shiftStreams, func(c *setting) error {
		unit := max(1, s.entry.Traits.Aligned)
		raise := (c.raise() + unit - 1) / unit * unit
		if err := s.sameCounts(c, c.shift(raise), s.fresh()); err != nil {
			return fmt.Errorf("with a constant added to all block indices: %w: indices may only break ties, lowest first (SEMANTICS S12), or set Traits.Aligned", err)
		}
		return nil
	})
}

func (c *setting) raise() int {
	if bits := c.seed / 2 % 20; bits >= 7 { // of small streams and of larger ones
		return max(1, 1<<bits-c.blocks(c.stream.MaxSeqLen())/2)
	}
	return 1 + int(c.seed%7)
}

func (c *setting) shift(blocks int) *setting {
	tokens := blocks * c.blockTokens
	raised := *c
	stream := *c.stream
	stream.PromptLen += int32(tokens)
	stream.Indices = slices.Clone(stream.Indices)
	for i := range stream.Indices {
		stream.Indices[i] += int32(blocks * max(1, c.entries))
	}
	raised.stream, raised.sink = &stream, c.sink+tokens
	raised.meta.Sink = &raised.sink
	return &raised
}

// peeked asks a Peeker before every eviction for its next victim and compares it with the eviction.
// The question may change nothing.
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
			return p.err // the engine may see only a consequence of it
		}
		if err == nil && got != want {
			err = fmt.Errorf("counts %+v become %+v with calls of Peek, which must change nothing", want, got)
		}
		if err != nil {
			return err
		}
		return s.drains(c)
	})
}

// drains asks a Peeker after a step's eviction, as a prefetcher that swaps does. It evicts the
// named block and repeats until nothing is left.
func (s *suite) drains(c *setting) (err error) {
	defer catch(&err)
	calls, err := s.record(c)
	if err != nil {
		return err
	}
	until := rand.New(rand.NewPCG(c.seed, 38)).IntN(calls.steps()) + 1
	policy, left := calls.playSteps(s.make(), until)
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
			return fmt.Errorf("%sblock %d, which is not in E", what, first)
		}
		if victims := policy.Evict(1, nil); len(victims) != 1 || victims[0] != first {
			return fmt.Errorf("%sblock %d, but Evict(1) then names %v: both must name the same victim, as a swapping prefetcher needs", what, first, victims)
		}
		delete(left, first)
	}
}

// playSteps makes the calls of the given number of steps, and returns the policy and E.
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

// asPeeked calls Peek twice and compares the answers.
func (p *probe) asPeeked() (int32, bool) {
	peeker := p.policy.(policies.Peeker)
	first, named := peeker.Peek()
	if again, still := peeker.Peek(); again != first || still != named {
		p.fail("Peek names block %d (%v), then block %d (%v): it must change nothing", first, named, again, still)
	}
	return first, named
}

// compare compares the victims with the block that Peek named before.
func (p *probe) compare(first int32, named bool, victims []int32) {
	if len(victims) == 0 || named && victims[0] == first {
		return
	}
	what := "no block"
	if named {
		what = fmt.Sprintf("block %d", first)
	}
	p.fail("Peek names %s, but Evict then %v: the first victim must be the same (is Peek that of an embedded policy?)", what, victims)
}
