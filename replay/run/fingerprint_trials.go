package run

import (
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// pattern describes one of the fixed streams of Fingerprint. The streams are drawn with
// integer arithmetic alone, so that every processor draws the same streams.
type pattern struct {
	prompt, steps, windows    int // tokens of the prompt, counted steps, prompt windows
	m, k                      int // length of the lists and of the demand, in blocks
	tokens, sink, local       int // tokens of a block, pinned at the start, and pinned at the end
	levels                    int // number of different scores. Few levels make ties
	change                    int // chance in 256 that a row gives a block a new score
	recent                    int // blocks at the end of the context that rank above all others
	scan                      bool
	gaps, short, pins, noRank bool
}

// patterns cover births, ties, pinned blocks in the lists, short lists, skipped steps and lists
// without ranks. They also cover a loop longer than the cache, a long context, many steps, and a
// demand of one block.
var patterns = []pattern{
	{prompt: 30, steps: 48, windows: 8, m: 9, k: 6, tokens: 1, sink: 2, local: 3, levels: 4, change: 90},
	{prompt: 40, steps: 40, windows: 4, m: 8, k: 8, tokens: 1, local: 1, levels: 32, change: 40, noRank: true},
	{prompt: 60, steps: 40, windows: 6, m: 10, k: 5, tokens: 2, sink: 3, local: 5, levels: 16, change: 60, gaps: true, short: true, pins: true},
	{prompt: 24, steps: 80, m: 6, k: 4, tokens: 1, sink: 1, local: 2, levels: 64, scan: true},
	{prompt: 620, steps: 40, windows: 8, m: 40, k: 28, tokens: 1, sink: 4, local: 16, levels: 64, change: 6},
	{prompt: 256, steps: 400, windows: 2, m: 4, k: 3, tokens: 16, local: 16, levels: 8, change: 30},
	{prompt: 5, steps: 12, windows: 1, m: 1, k: 1, tokens: 1, local: 1, levels: 2, change: 128},
}

// heads are the prompts of a request for a Divider. Some heads select more recent blocks than
// others.
var heads = sync.OnceValue(func() (prompts []policies.Prompt) {
	for n := range 8 {
		p := pattern{prompt: 500, steps: 1, windows: 4, m: 24, k: 16, tokens: 1, sink: 4, local: 8, levels: 64, change: 10, recent: 2 * n}
		t := makeTrial(p.draw(n), p.meta(), asRecorded, 1, 1)
		var prompt policies.Prompt
		d := t.view.(*demand.Delta)
		d.Prompt(&prompt)
		prompt.Windows = d.PromptWindows()
		prompts = append(prompts, prompt)
	}
	return prompts
})

// dice draws numbers below n.
type dice struct{ *rand.PCG }

func (d dice) below(n int) int { return int(d.Uint64() % uint64(n)) }

func (p *pattern) meta() *trace.Meta {
	m := &trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: p.k, Candidates: p.m, BlockTokens: p.tokens,
		Sink: &p.sink, Local: &p.local, ScoreKind: "logit"}
	if p.noRank {
		m.Order = trace.OrderIndex
	}
	return m
}

func (p *pattern) draw(n int) *trace.Stream {
	d := dice{rand.NewPCG(uint64(n), 1)}
	s := new(trace.Stream)
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "fingerprint", Layer: int32(n / 2), Head: int32(n % 2)}, PromptLen: int32(p.prompt)})
	var scores []int
	for row, step := 0, -p.windows; row < p.windows+p.steps; row++ {
		scores = p.drift(d, scores, (p.prompt+step+p.tokens)/p.tokens, row)
		s.Append(p.row(d, scores, step))
		if step++; p.gaps && step > 0 && d.below(8) == 0 {
			step += 2
		}
	}
	for range (p.prompt + p.tokens - 1) / p.tokens {
		s.PromptMass = append(s.PromptMass, float32(d.below(32))/8)
	}
	return s
}

// drift gives new blocks a score and changes some of the others.
func (p *pattern) drift(d dice, scores []int, blocks, row int) []int {
	for b := range scores {
		if d.below(256) < p.change {
			scores[b] = d.below(p.levels)
		}
	}
	for len(scores) < blocks {
		scores = append(scores, d.below(p.levels))
	}
	if p.scan {
		for b := range scores {
			scores[b] = p.levels - 1 - min(p.levels-1, (b+blocks*row-3*row)%blocks)
		}
	}
	return scores
}

// row lists the blocks with the highest scores. Equal scores are in random order.
func (p *pattern) row(d dice, scores []int, step int) trace.Row {
	type ranked struct{ score, tie, block int }
	var all []ranked
	for b, score := range scores {
		pinned := b*p.tokens < p.sink || (b+1)*p.tokens > p.prompt+step+1-p.local
		if p.recent > 0 && b >= len(scores)-p.local-p.recent {
			score += p.levels
		}
		if !pinned || p.pins && d.below(2) == 0 {
			all = append(all, ranked{score, d.below(1 << 16), b})
		}
	}
	if len(all) == 0 {
		all = []ranked{{block: d.below(len(scores))}} // a list is never empty
	}
	slices.SortFunc(all, func(a, b ranked) int {
		if a.score != b.score {
			return b.score - a.score
		}
		if a.tie != b.tie {
			return a.tie - b.tie
		}
		return a.block - b.block
	})
	length := min(p.m, len(all))
	if p.short && d.below(4) == 0 {
		length = 1 + d.below(length)
	}
	all = all[:length]
	if p.noRank {
		slices.SortFunc(all, func(a, b ranked) int { return a.block - b.block })
	}
	row := trace.Row{Step: int32(step)}
	for _, r := range all {
		row.Indices = append(row.Indices, int32(r.block))
		row.Scores = append(row.Scores, float32(r.score-8)/8)
		row.AttentionMass = append(row.AttentionMass, float32(d.below(17))/float32(16*length))
	}
	return row
}

// trial is a fixed stream and one way to replay it.
type trial struct {
	view  demand.Recorded
	key   trace.Key // of the stream, or of the first one of a pool
	start cache.Start
	kind  trialKind
	again bool // an earlier trial has the same rows at another capacity
}

// trialKind is the mechanism with which a trial replays its stream.
type trialKind uint8

const (
	asRecorded   trialKind = iota
	inBlocksOf             // blocks of several entries
	inClusters             // units of unequal sizes: Evict is called for one victim at a time
	inPool                 // streams that share a cache
	grows                  // a capacity that changes
	swaps                  // a prefetcher swaps into the cache
	belowLRU               // a tier that keeps the victims of an LRU cache
	belowLRUCopy           // a tier that keeps a copy of the misses of an LRU cache
)

// trials returns the trials of every fingerprint, which are made once. The lock of fingerprints
// guards them, because a View has scratch memory.
var trials = sync.OnceValue(makeTrials)

func makeTrials() (all []trial) {
	for n := range patterns {
		p := &patterns[n]
		s, m := p.draw(n), p.meta()
		for i, capacity := range []int{1, max(1, p.k-1), p.k, p.k + p.k/2, 3 * p.k} {
			all = append(all, makeTrial(s, m, asRecorded, capacity, (n+i)%4))
		}
		if p.tokens == 1 && p.k > 1 {
			for i, capacity := range []int{2, p.k - 1, p.k + 2} {
				all = append(all, makeTrial(s, m, inBlocksOf, capacity, n+i))
			}
		}
	}
	for _, n := range []int{0, 2} {
		p := &patterns[n]
		s, m := p.draw(n), p.meta()
		for kind := inPool; kind <= belowLRUCopy; kind++ {
			all = append(all, makeTrial(s, m, kind, p.k+1, n))
			all = append(all, makeTrial(s, m, kind, 2*p.k, n+1))
		}
	}
	s, m := patterns[0].draw(0), patterns[0].meta()
	all = append(all, makeTrial(s, m, inClusters, 7, 0), makeTrial(s, m, inClusters, 19, 1))
	type rows struct {
		kind    trialKind
		key     trace.Key
		windows int
	}
	known := map[rows]bool{}
	for i := range all {
		t := &all[i]
		r := rows{t.kind, t.key, t.view.Size().Windows}
		t.again, known[r] = known[r], true
	}
	return all
}

// trialEntries is the number of entries in a block of inBlocksOf.
const trialEntries = 3

// makeTrial prepares a trial. warmup modulo 4 selects the warm-up.
func makeTrial(s *trace.Stream, m *trace.Meta, kind trialKind, capacity, warmup int) trial {
	pins, l := pinsOf(m, &Options{}), demand.Layout{Factor: 1, Heads: 1, Positions: 1}
	fill := []setting.Warmup{{Kind: setting.WarmupCold}, {Kind: setting.WarmupRun, Windows: s.Windows}, {Kind: setting.WarmupStaging}, {Kind: setting.WarmupImportance, Windows: s.Windows}}[warmup%4]
	if kind > inBlocksOf && fill.Kind != setting.WarmupRun {
		fill = setting.Warmup{Kind: setting.WarmupCold}
	}
	t := trial{kind: kind, key: s.Key, start: cache.Start{Capacity: capacity, Ranks: m.Order == trace.OrderRank, Seed: streamSeed(1, s.Key)}}
	o := demand.Options{K: m.TopK, M: m.Candidates, Meta: m, Windows: fill.Replayed(), Members: true, NextUses: true}
	check := trace.NewChecker("fingerprint", m)
	switch kind {
	case inBlocksOf:
		l.Factor, pins.BlockTokens = trialEntries, trialEntries*pins.BlockTokens
	case inClusters:
		l.Clustered = true
	case grows:
		t.start.Later = []cache.CapacityAt{{Step: 5, Capacity: 2 * capacity}, {Step: 12, Capacity: capacity / 2}, {Step: 25, Capacity: capacity + 1}}
	case swaps:
		t.start.Prefetch, t.start.Staging, t.start.Swap = setting.PrefetchCandidates, 2, true
	}
	o.Pins, t.start.Unit = pins, l.Unit(pins)
	if !l.Plain() {
		j := &demand.Joiner{Layout: l, K: m.TopK, M: m.Candidates, Ranks: t.start.Ranks, Pins: pins}
		if l.Clustered {
			j.Group(trialClusters(s), s, m.Candidates)
		}
		joined, err := j.Join([]trace.Stream{*s})
		must(err)
		o.Joined, s = j, joined
	}
	if kind == inPool {
		t.view = poolOf(s, o, check)
	} else {
		d := new(demand.Delta)
		must(d.Build(s, o, check))
		t.view = d
	}
	t.start.Placed = demand.Place(fill, t.view, capacity, nil)
	return t
}

// trialClusters groups the first half of the context into clusters of one to four tokens. Each
// later token is a cluster of one.
func trialClusters(s *trace.Stream) *demand.Clusters {
	var of []int32
	for cluster := int32(0); len(of) < s.MaxSeqLen()/2; cluster++ {
		for range 1 + cluster%4 {
			of = append(of, cluster)
		}
	}
	return demand.NewClusters(map[trace.Key][]int32{s.Key: of}, 1)
}

// poolOf returns a pool of s and its mirror image. The mirror image has the same steps with the
// lists of s from last to first, cut to the context.
func poolOf(s *trace.Stream, o demand.Options, check *trace.Checker) *demand.Pool {
	other := new(trace.Stream)
	other.Reset(s.StreamInfo)
	other.Layer++
	for i := range s.Rows {
		row := trace.Row{Step: s.Steps[i]}
		from, blocks := s.Rows-1-i, int32(o.Pins.Blocks(s.SeqLen(i)))
		for j, x := range s.List(from) {
			if x < blocks {
				row.Indices, row.Scores = append(row.Indices, x), append(row.Scores, s.ScoreList(from)[j])
			}
		}
		if len(row.Indices) == 0 {
			row.Indices, row.Scores = []int32{0}, []float32{0}
		}
		other.Append(row)
	}
	shared := new(demand.Pool)
	shared.Grow(2)
	must(shared.Add(0, s, o, check))
	must(shared.Add(1, other, o, check))
	shared.Build()
	return shared
}

// must panics if err is not nil. The trials are fixed, so it never panics.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
