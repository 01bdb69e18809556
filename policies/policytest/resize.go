package policytest

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
)

// resized replays at capacities that grow and shrink, as --capacity 1x+2x@64 and
// --reallocate have them: with every policy that runs there, and step by step with the
// reference.
func (s *suite) resized() error {
	if _, resizes := s.make().(policies.Resizer); s.entry.Traits.Windowed || s.entry.Traits.Sized && !resizes {
		return nil
	}
	err := s.seeds(resizeStreams, s.resizedOn)
	if err == nil && s.reference != nil && !s.referenceResizes() {
		return errors.New("the policy is a Resizer and its Reference is not: it follows a capacity that changes, and nothing says whether rightly; give the Reference a Resize(capacity int), too")
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
		return fmt.Errorf("at a capacity that changes: %w", err)
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

// changes draws what the capacity becomes: more, less, or what it was.
func (c *setting) changes() (later []replay.CapacityAt) {
	r := rand.New(rand.NewPCG(c.seed, 33))
	step := int32(0)
	for range 1 + r.IntN(4) {
		later = append(later, replay.CapacityAt{Step: step, Capacity: 1 + r.IntN(3*c.topK)})
		step += 1 + int32(r.IntN(1+c.stream.Rows/3))
	}
	return later
}
