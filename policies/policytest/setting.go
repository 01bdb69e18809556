package policytest

import (
	"flag"
	"fmt"
	"math/rand/v2"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// seedFlag is the flag of tests that sets the seed of the only stream to draw.
const seedFlag = "-policytest.seed"

var onlySeed = flag.Uint64(seedFlag[1:], 0, "policytest: draw only the stream of this `seed`, which a failure prints (default 0, all)")

// setting is one stream and one way to replay it.
type setting struct {
	seed                     uint64 // of the draw, or 0 if a fuzz target decoded it
	seedFlag                 string // of the suite
	stream                   *trace.Stream
	meta                     trace.Meta
	topK, candidates         int
	capacity                 int
	later                    []replay.CapacityAt // later changes of the capacity
	warmup                   replay.Warmup
	sink, local, blockTokens int
	entries                  int    // of a list per block, 0 for one
	runSeed                  uint64 // the run's --seed
	scopeSeed                uint64 // the seed that the engine derives from it for this stream
}

// draw draws a setting that the policy can use. Odd seeds give streams of a dozen blocks, even ones
// of a hundred.
func (s *suite) draw(seed uint64) *setting {
	r := rand.New(rand.NewPCG(seed, 31))
	kind := replaytest.Medium
	if seed%2 == 1 {
		kind = replaytest.Small
	}
	o := s.usable(kind(r))
	stream, meta := replaytest.Stream(r, o), o.Meta(1+r.IntN(o.M))
	s.addMasses(r, stream, o)
	c := s.configure(r, stream, meta)
	c.seed, c.seedFlag, c.runSeed = seed, s.seedFlag, seed
	return c
}

// addMasses draws attention masses for a lossy policy.
func (s *suite) addMasses(r *rand.Rand, stream *trace.Stream, o replaytest.Options) {
	if s.rule == lose {
		replaytest.Masses(r, stream, max(1, o.BlockTokens))
	}
}

// usable adds the columns that the policy needs, and a counted step, which every run requires.
func (s *suite) usable(o replaytest.Options) replaytest.Options {
	o.Steps = max(o.Steps, 1)
	o.Scores = o.Scores || s.needs&policies.NeedScores != 0
	o.Ascending = o.Ascending && s.needs&policies.NeedCandidates == 0
	if s.picks() {
		o.BlockTokens = 1 // lists of entries, which the replay groups into blocks
	}
	if s.rule == lose {
		o.Windows = max(o.Windows, 1)
	}
	return o
}

// configure draws the way a stream is replayed.
func (s *suite) configure(r *rand.Rand, stream *trace.Stream, meta trace.Meta) *setting {
	c := &setting{stream: stream, meta: meta, topK: meta.TopK, candidates: meta.TopK, blockTokens: meta.BlockTokens}
	if s.rule == lose { // it sees whole lists and all windows
		c.candidates, c.warmup = meta.Candidates, replay.Warmup{Kind: replay.WarmupCold}
		if stream.Windows > 0 {
			c.warmup = replay.Warmup{Kind: replay.WarmupRun, Windows: stream.Windows}
		}
		c.capacity = 1 + r.IntN(3*c.topK)
		return c
	}
	if meta.Order == trace.OrderRank {
		c.candidates += r.IntN(meta.Candidates - meta.TopK + 1)
	}
	c.sink, c.local, _ = meta.Pins()
	if s.picks() {
		c.inBlocks(1 + r.IntN(4))
	}
	c.warmup = s.drawWarmup(r, stream)
	c.capacity = 1 + r.IntN(3*c.topK)
	if s.entry.Traits.Windowed {
		c.capacity = policies.Unbounded
	}
	return c
}

// drawWarmup draws a warm-up that the stream and the policy can use.
func (s *suite) drawWarmup(r *rand.Rand, stream *trace.Stream) replay.Warmup {
	kind, n := r.IntN(6), 0
	if stream.Windows > 0 {
		n = 1 + r.IntN(stream.Windows)
	}
	switch {
	case kind == 4 && !s.entry.Traits.Windowed:
		return replay.Warmup{Kind: replay.WarmupStaging}
	case kind == 5 && !s.entry.Traits.Windowed && n > 0 && len(stream.Scores) > 0:
		return replay.Warmup{Kind: replay.WarmupImportance, Windows: n}
	case kind > 0 && n > 0:
		return replay.Warmup{Kind: replay.WarmupRun, Windows: n}
	}
	return replay.Warmup{Kind: replay.WarmupCold}
}

// picks reports whether the policy uses the number of demanded entries of a block.
func (s *suite) picks() bool { return s.needs&policies.NeedPicked != 0 }

// inBlocks groups the lists' entries into blocks of the given number of entries.
func (c *setting) inBlocks(entries int) {
	c.entries = entries
	c.blockTokens *= entries
}

func (c *setting) blockOf(x int32) int32 { return x / int32(max(1, c.entries)) }

func (c *setting) replayedWindows() int {
	if c.warmup.Kind == replay.WarmupRun {
		return c.warmup.Windows
	}
	return 0
}

func (c *setting) blocks(seqLen int) int { return (seqLen + c.blockTokens - 1) / c.blockTokens }

func (c *setting) streamOptions(observe replay.Observer) replay.StreamOptions {
	return replay.StreamOptions{TopK: c.topK, Candidates: c.candidates, Capacity: c.capacity, Warmup: c.warmup, Seed: c.runSeed, Observer: observe, Later: c.later,
		Shape: replay.Shape{BlockTokens: c.meta.BlockTokens * max(1, c.entries)}}
}

func (c *setting) refereeConfig() referee.Config {
	kinds := map[replay.WarmupKind]referee.WarmupKind{replay.WarmupRun: referee.WarmRun, replay.WarmupCold: referee.WarmCold,
		replay.WarmupImportance: referee.WarmImportance, replay.WarmupStaging: referee.WarmStaging}
	return referee.Config{Policy: "lru", TopK: c.topK, Candidates: c.candidates, Capacity: c.capacity,
		Warmup: referee.Warmup{Kind: kinds[c.warmup.Kind], Windows: c.warmup.Windows},
		Sink:   c.sink, Local: c.local, BlockTokens: c.blockTokens, Entries: c.entries}
}

// String returns the setting as failures show it.
func (c *setting) String() string {
	capacity := fmt.Sprint(c.capacity)
	if c.capacity == policies.Unbounded {
		capacity = "unbounded"
	}
	text := fmt.Sprintf("stream of %d rows: capacity %s, K %d, M %d, order=%s, warm-up %v, prompt %d, sink %d, local %d, block_tokens %d",
		c.stream.Rows, capacity, c.topK, c.candidates, c.meta.Order, c.warmup, c.stream.PromptLen, c.sink, c.local, c.blockTokens)
	for _, at := range c.later {
		text += fmt.Sprintf(", capacity %d from step %d on", at.Capacity, at.Step)
	}
	if c.entries > 1 {
		text += fmt.Sprintf(", blocks of %d entries", c.entries)
	}
	if c.seed != 0 {
		text += fmt.Sprintf("; repeat with %s=%d", c.seedFlag, c.seed)
	}
	return text
}

// lossyStreams is the number of streams that every check of a lossy policy draws.
const lossyStreams = 120

// seeds calls check with settings from seed 1 on. It returns the failure on the smallest stream,
// which is the easiest to follow by hand.
func (s *suite) seeds(n int, check func(c *setting) error) error {
	if s.rule == lose {
		n = lossyStreams
	}
	if s.short {
		n /= 2
	}
	from, to := uint64(1), uint64(n)
	if s.seed != 0 {
		from, to = s.seed, s.seed
	}
	var smallest error
	size := 0
	for seed := from; seed <= to; seed++ {
		c := s.draw(seed)
		if smallest != nil && len(c.stream.Indices) >= size {
			continue
		}
		if err := check(c); err != nil {
			smallest, size = fmt.Errorf("%w\n%v", err, c), len(c.stream.Indices)
		}
	}
	return smallest
}
