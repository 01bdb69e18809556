package policytest

import (
	"fmt"
	"math/rand/v2"

	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// record replays a setting and returns the calls that were made.
func (s *suite) record(c *lossySetting) (*script, error) {
	p := s.lossyFresh()
	p.script = new(script)
	_, err := replayLossy(c, p)
	return p.script, err
}

// lossyAllocates counts the allocations of a replay that the instance has made before.
func (s *suite) lossyAllocates() error {
	steps := 2400
	if s.short {
		steps = 1200
	}
	r := rand.New(rand.NewPCG(1, 38))
	o := replaytest.Options{Prompt: 1200, Steps: steps, Windows: 16, M: 32, Locality: 0.95, Local: 4, BlockTokens: 4}
	stream, meta := replaytest.Stream(r, o), o.Meta(24)
	replaytest.Masses(r, stream, o.BlockTokens)
	for _, factor := range []int{1, 3} {
		c := lossySettle(stream, meta, factor*meta.TopK)
		calls, err := s.record(c)
		if err != nil {
			return fmt.Errorf("%w\n%v", err, c)
		}
		if err := calls.allocates(s.make(), make([]int32, 0, c.stream.MaxSeqLen())); err != nil {
			return fmt.Errorf("%w: take memory in Reset or Prompt (policies.Fill keeps it from stream to stream) and reuse buffers as s[:0]\n%v", err, c)
		}
	}
	return nil
}

// lossyHeldOver is heldOver for a lossy policy, which is handed all of the context.
func (s *suite) lossyHeldOver(blocks int) (bytes float64, err error) {
	calls, err := s.record(wide(blocks))
	if err != nil {
		return 0, err
	}
	return calls.held(s)
}

// wide is a short stream over a prompt of so many blocks, with the budget of a small one.
func wide(blocks int) *lossySetting {
	const listed, windows, steps = 16, 4, 24
	r, sink, local := rand.New(rand.NewPCG(1, 39)), 0, 1
	stream := new(trace.Stream)
	stream.Reset(trace.StreamInfo{Key: trace.Key{Request: "wide", Head: trace.NoHead}, PromptLen: int32(blocks)})
	for step := -windows; step < steps; step++ {
		row := trace.Row{Step: int32(step)}
		for i := range listed { // one of each part of the prompt: they differ
			row.Indices = append(row.Indices, int32(i*(blocks/(2*listed))+r.IntN(blocks/(2*listed))))
		}
		stream.Append(row)
	}
	replaytest.Masses(r, stream, 1)
	meta := trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: listed, Candidates: listed, BlockTokens: 1, Sink: &sink, Local: &local}
	return lossySettle(stream, meta, 4*listed)
}

// lossySettle is how a stream is replayed, with all of its windows.
func lossySettle(stream *trace.Stream, meta trace.Meta, budget int) *lossySetting {
	c := &lossySetting{stream: stream, meta: meta}
	c.o = replay.StreamOptions{Capacity: budget, Warmup: replay.Warmup{Kind: replay.WarmupRun, Windows: stream.Windows}}
	if stream.Windows == 0 {
		c.o.Warmup = replay.Warmup{Kind: replay.WarmupCold}
	}
	return c
}
