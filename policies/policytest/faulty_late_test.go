package policytest_test

import (
	"cmp"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/fifo"
	"github.com/kvreplay/kvreplay/policies/lfudecay"
	"github.com/kvreplay/kvreplay/policies/lru"
)

// The policies of this file have faults that a short stream, or one instance, does not show.
// TestKitBites names the faults.

// allocatesSeldom allocates a buffer at every thousandth step.
type allocatesSeldom struct {
	lru.Policy
	steps  int
	buffer []int32
}

func (p *allocatesSeldom) Update(s *policies.Step) {
	if p.steps++; p.steps%1000 == 0 {
		p.buffer = make([]int32, 1000)
	}
	p.Policy.Update(s)
}

// keepsLog appends all blocks that left the demand to a list, and never empties the list.
type keepsLog struct {
	lru.Policy
	log []int32
}

func (p *keepsLog) Update(s *policies.Step) {
	p.log = append(p.log, s.Exit...)
	p.Policy.Update(s)
}

// holdsMuch takes eight bytes per block that it does not state.
type holdsMuch struct {
	lru.Policy
	stamps []int64
}

func (p *holdsMuch) Reset(sc *policies.Scope) error {
	p.stamps = policies.Fill(p.stamps, sc.Blocks, 0)
	return p.Policy.Reset(sc)
}

// stampsStreams is LFU with counts that are valid if their stamp equals the stream's, which has one
// byte.
type stampsStreams struct {
	counting
	stream uint8
	stamps []uint8
	counts []int32
}

func (p *stampsStreams) Reset(sc *policies.Scope) error {
	p.stream++
	for len(p.stamps) < sc.Blocks {
		p.stamps, p.counts = append(p.stamps, 0), append(p.counts, 0)
	}
	return p.counting.Reset(sc)
}

func (p *stampsStreams) Update(s *policies.Step) {
	for _, x := range slices.Concat(s.Hit, s.Miss) {
		p.counts[x] = p.of(x) + 1
		p.stamps[x] = p.stream
	}
	p.counting.Update(s)
}

func (p *stampsStreams) of(x int32) int32 {
	if p.stamps[x] != p.stream {
		return 0
	}
	return p.counts[x]
}

func (p *stampsStreams) Evict(n int, dst []int32) []int32 {
	return p.take(n, dst, func(a, b int32) int { return cmp.Or(cmp.Compare(p.of(a), p.of(b)), cmp.Compare(a, b)) })
}

// keepsScope reads its Scope again after Reset.
type keepsScope struct {
	counting
	scope *policies.Scope
}

func (p *keepsScope) Reset(sc *policies.Scope) error {
	p.scope = sc
	return p.counting.Reset(sc)
}

func (p *keepsScope) Evict(n int, dst []int32) []int32 {
	return p.take(n, dst, func(a, b int32) int {
		if p.scope.Blocks > 0 {
			return cmp.Compare(b, a)
		}
		return cmp.Compare(a, b)
	})
}

// changesScope counts down in the capacity of its Scope.
type changesScope struct{ lru.Policy }

func (p *changesScope) Reset(sc *policies.Scope) error {
	sc.Capacity--
	return p.Policy.Reset(sc)
}

// prefersThousands evicts the newest of every thousand blocks, and the first thousand first.
type prefersThousands struct{ counting }

func (p *prefersThousands) Evict(n int, dst []int32) []int32 {
	return p.take(n, dst, func(a, b int32) int { return cmp.Or(cmp.Compare(a/1000, b/1000), cmp.Compare(b, a)) })
}

// numbersShort keeps the number of a block in 16 bits.
type numbersShort struct{ counting }

func (p *numbersShort) Evict(n int, dst []int32) []int32 {
	return p.take(n, dst, func(a, b int32) int { return cmp.Compare(int16(a), int16(b)) })
}

// stacksSmall is LRU if the cache is small and FIFO if it is large.
type stacksSmall struct {
	lru   lru.Policy
	fifo  fifo.Policy
	large bool
}

func (p *stacksSmall) Reset(sc *policies.Scope) error {
	p.large = sc.Capacity > sc.Demand+20
	return cmp.Or(p.lru.Reset(sc), p.fifo.Reset(sc))
}

func (p *stacksSmall) Update(s *policies.Step) {
	p.lru.Update(s)
	p.fifo.Update(s)
}

func (p *stacksSmall) Evict(n int, dst []int32) []int32 {
	if p.large {
		return p.fifo.Evict(n, dst)
	}
	return p.lru.Evict(n, dst)
}

// sharesScratch passes the blocks that left the demand from Update to Evict in a package variable.
type sharesScratch struct{ lru.Policy }

var scratch policies.Step

func (p *sharesScratch) Reset(sc *policies.Scope) error {
	scratch = policies.Step{}
	return p.Policy.Reset(sc)
}

func (p *sharesScratch) Update(s *policies.Step) {
	p.Policy.Update(&scratch) // the blocks that a warm-up placed
	scratch = policies.Step{Exit: slices.Clone(s.Exit), Offered: slices.Clone(s.Offered), Hit: slices.Clone(s.Hit)}
}

func (p *sharesScratch) Evict(n int, dst []int32) []int32 {
	p.Policy.Update(&scratch)
	scratch = policies.Step{}
	return p.Policy.Evict(n, dst)
}

// deaf is a Resizer that ignores the new capacity.
type deaf struct{ lru.Policy }

func (*deaf) Resize(int) {}

// stampsShort is LRU that keeps steps in 16 bits.
type stampsShort struct {
	counting
	last map[int32]int16
}

func (p *stampsShort) Reset(sc *policies.Scope) error {
	p.last = map[int32]int16{}
	return p.counting.Reset(sc)
}

func (p *stampsShort) Update(s *policies.Step) {
	for _, x := range slices.Concat(s.Exit, s.Offered) {
		p.last[x] = int16(s.T - 1)
	}
	p.counting.Update(s)
}

func (p *stampsShort) Evict(n int, dst []int32) []int32 {
	return p.take(n, dst, func(a, b int32) int { return cmp.Or(cmp.Compare(p.last[a], p.last[b]), cmp.Compare(a, b)) })
}

// playsEnd has another rule for the last steps.
type playsEnd struct {
	counting
	end, now int32
}

func (p *playsEnd) Reset(sc *policies.Scope) error {
	p.end = int32(sc.Steps - sc.Windows - 3)
	return p.counting.Reset(sc)
}

func (p *playsEnd) Update(s *policies.Step) {
	p.now = s.T
	p.counting.Update(s)
}

func (p *playsEnd) Evict(n int, dst []int32) []int32 {
	return p.take(n, dst, func(a, b int32) int {
		if p.now > p.end {
			return cmp.Compare(a, b)
		}
		return cmp.Compare(b, a)
	})
}

// peeksOnce names its first victim of a step, even if it was evicted since.
type peeksOnce struct {
	lru.Policy
	first int32
	named bool
}

func (p *peeksOnce) Update(s *policies.Step) {
	p.Policy.Update(s)
	p.first, p.named = p.Policy.Peek()
}

func (p *peeksOnce) Peek() (int32, bool) { return p.first, p.named }

// followsFirstIn is FIFO. It does not track the blocks that leave a pool without notice.
type followsFirstIn struct{ fifo.Policy }

func (p *followsFirstIn) Follows(self policies.Policy) bool { return self == p }

// tracksNot follows a pool whose capacity lacks a part of the demand as if it had room for all.
type tracksNot struct{ lru.Policy }

func (p *tracksNot) Follows(self policies.Policy) bool { return self == p }
func (p *tracksNot) Tracks(self policies.Policy) bool  { return self == p }

func (p *tracksNot) Reset(sc *policies.Scope) error {
	blind := *sc
	blind.Tracked = false
	return p.Policy.Reset(&blind)
}

// countsUpdates has a half-life in updates. It should be in steps.
type countsUpdates struct{ lfudecay.Policy }

func (p *countsUpdates) Reset(sc *policies.Scope) error {
	p.HalfLife = 4
	alone := *sc
	alone.PerStep = 0
	return p.Policy.Reset(&alone)
}
