package policytest

import (
	"fmt"
	"slices"
)

// shifted renumbers all blocks by a constant, with sinks and prompt longer by as much:
// the order of blocks stays, so the counts do. Policies that draw are left out.
func (s *suite) shifted() error {
	if s.entry.Traits.Random {
		return nil
	}
	return s.seeds(shiftStreams, func(c *setting) error {
		_, want, err := replayEngine(c, s.fresh())
		if err != nil {
			return err
		}
		_, got, err := replayEngine(c.shift(1+int(c.seed%7)), s.fresh())
		got.PinnedPeak = want.PinnedPeak // sinks are longer
		if err == nil && got != want {
			err = fmt.Errorf("counts %+v become %+v", want, got)
		}
		if err != nil {
			return fmt.Errorf("with every block's index raised by a constant: %w: order may depend on indices only through ties, lowest first (SEMANTICS S12)", err)
		}
		return nil
	})
}

// shift returns the setting with every block's index raised.
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
