package policytest

import (
	"fmt"
	"math/rand/v2"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/trace"
)

// online cuts streams short: who does not see the future does the same up to the cut.
func (s *suite) online() error {
	if s.needs&policies.NeedNext != 0 {
		return nil
	}
	return s.seeds(onlineStreams, func(c *setting) error {
		counted := c.stream.Rows - c.stream.Windows
		if counted < 2 {
			return nil
		}
		whole, _, err := replayEngine(c, s.fresh())
		if err != nil {
			return err
		}
		rows := c.stream.Windows + 1 + rand.New(rand.NewPCG(c.seed, 34)).IntN(counted-1)
		cut, _, err := replayEngine(c.until(rows), s.fresh())
		if err == nil {
			err = differ("on the whole stream it", "cut short it", whole[:len(cut)], cut)
		}
		if err != nil {
			return fmt.Errorf("what it does depends on steps to come: with the stream cut after row %d, steps before the cut differ; Scope.Steps, Scope.Demand and Scope.Blocks are for taking memory, who decides by the future asks for NeedNext\n%w", rows, err)
		}
		return nil
	})
}

// until returns the setting with the first rows of its stream.
func (c *setting) until(rows int) *setting {
	whole, stream, short := c.stream, new(trace.Stream), *c
	stream.Reset(whole.StreamInfo)
	for row := range rows {
		stream.Append(trace.Row{Step: whole.Steps[row], Indices: whole.List(row), Scores: whole.ScoreList(row)})
	}
	short.stream = stream
	return &short
}
