package policytest

import (
	"fmt"
	"slices"
)

// shifted renumbers all blocks by a constant, with sinks and prompt longer by as much:
// the order of blocks stays, so the counts do. Some constants are small, some bring the
// stream across a power of two, where numbers kept in too few bits begin anew. Policies
// that draw are left out.
func (s *suite) shifted() error {
	if s.entry.Traits.Random {
		return nil
	}
	return s.seeds(shiftStreams, func(c *setting) error {
		_, want, err := replayEngine(c, s.fresh())
		if err != nil {
			return err
		}
		_, got, err := replayEngine(c.shift(c.raise()), s.fresh())
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

// raise draws a constant.
func (c *setting) raise() int {
	if bits := c.seed / 2 % 20; bits >= 7 { // of small streams and of larger ones
		return max(1, 1<<bits-c.blocks(c.stream.MaxSeqLen())/2)
	}
	return 1 + int(c.seed%7)
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
