package policytest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// longRows are the lengths of long streams. The last has more steps than 16 bits can number. One
// block is demanded in nearly all of them.
var longRows = []int{1 << 10, 1 << 12, 1<<16 + 1<<12}

const (
	longTokens = 1 << 13 // tokens per block, so that births are few
	longHot    = 0.99    // chance that the hot block is demanded
)

// patience is the longest time for the next longer stream, by a linear estimate from the one
// before. Some references compute every value from the whole history, which takes quadratic time.
const patience = 2 * time.Second

// long compares the policy with the reference on streams that are long and have few blocks.
func (s *suite) long() error {
	if s.reference == nil || s.needs&policies.NeedNext != 0 { // the model searches for the next use from every step on
		return nil
	}
	for i, rows := range longRows {
		c, start := s.longSetting(rows), time.Now()
		if err := s.refereedOn(c); err != nil {
			return fmt.Errorf("on a stream of %d steps: %w (does a counter of steps or demands overflow?)\n%v", rows, err, c)
		}
		if s.short || i+1 == len(longRows) || !s.patient && time.Since(start)*time.Duration(longRows[i+1]/rows) > patience {
			break
		}
	}
	return nil
}

func (s *suite) longSetting(rows int) *setting {
	const blocks, demand = 12, 4
	sink, local := 0, 1
	c := &setting{topK: demand, candidates: demand, capacity: 7, sink: sink, local: local, blockTokens: longTokens, runSeed: 1,
		warmup: replay.Warmup{Kind: replay.WarmupCold}}
	c.meta = trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: demand, Candidates: demand, BlockTokens: longTokens, Sink: &sink, Local: &local, ScoreKind: "logit"}
	entries := 1
	if s.picks() {
		entries = 2
	}
	if s.entry.Traits.Windowed {
		c.capacity = policies.Unbounded
	}
	if s.needs&(policies.NeedCandidates|policies.WantCandidates) != 0 {
		c.candidates, c.meta.Candidates = demand+1, demand+1
	}
	c.inBlocks(entries)
	c.stream = new(trace.Stream)
	c.stream.Reset(trace.StreamInfo{Key: trace.Key{Request: "long", Head: trace.NoHead}, PromptLen: int32(c.blockTokens*blocks + 1)})
	r := rand.New(rand.NewPCG(1, 35))
	var scores []float32
	for i := range c.candidates {
		scores = append(scores, float32(-i))
	}
	for row := range rows {
		c.stream.Append(trace.Row{Step: int32(row), Indices: longRow(r, c.candidates, blocks*entries), Scores: scores})
	}
	return c
}

// longRow draws a list: entry 0 first, as a rule, and others.
func longRow(r *rand.Rand, length, entries int) (list []int32) {
	others := r.Perm(entries - 1)[:length]
	if r.Float64() < longHot {
		list = append(list, 0)
	}
	for _, x := range others[:length-len(list)] {
		list = append(list, int32(x+1))
	}
	return list
}
