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
	short := *c
	short.stream = firstRows(c.stream, rows)
	return &short
}

// firstRows returns a stream of the first rows of another.
func firstRows(whole *trace.Stream, rows int) *trace.Stream {
	stream := new(trace.Stream)
	stream.Reset(whole.StreamInfo)
	for i := range rows {
		row := trace.Row{Step: whole.Steps[i], Indices: whole.List(i), Scores: whole.ScoreList(i)}
		if len(whole.AttentionMass) > 0 {
			row.AttentionMass = whole.AttentionMass[whole.Offsets[i]:whole.Offsets[i+1]]
		}
		stream.Append(row)
	}
	stream.PromptMass = whole.PromptMass
	return stream
}
