package policytest_test

import (
	"math/rand/v2"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/optbypass"
)

// The policies of this file have one fault each. TestKitBites names the faults.

// namesDemanded never takes hits out.
type namesDemanded struct{ lru.Policy }

func (p *namesDemanded) Update(s *policies.Step) {
	unhit := *s
	unhit.Hit = nil
	p.Policy.Update(&unhit)
}

// namesTwice repeats its first victim.
type namesTwice struct{ lru.Policy }

func (p *namesTwice) Evict(n int, dst []int32) []int32 {
	at := len(dst)
	if dst = p.Policy.Evict(n, dst); n > 1 {
		dst[at+1] = dst[at]
	}
	return dst
}

// namesUnknownBlock counts from the wrong end.
type namesUnknownBlock struct {
	lru.Policy
	blocks int32
}

func (p *namesUnknownBlock) Reset(sc *policies.Scope) error {
	p.blocks = int32(sc.Blocks)
	return p.Policy.Reset(sc)
}

func (p *namesUnknownBlock) Evict(n int, dst []int32) []int32 {
	for i, x := range p.Policy.Evict(n, nil) {
		dst = append(dst, p.blocks+x+int32(i))
	}
	return dst
}

// namesLowest evicts 0, 1, 2 …
type namesLowest struct{ lru.Policy }

func (p *namesLowest) Evict(n int, dst []int32) []int32 {
	for x := range int32(n) {
		dst = append(dst, x)
	}
	return dst
}

// namesFew leaves one.
type namesFew struct{ lru.Policy }

func (p *namesFew) Evict(n int, dst []int32) []int32 { return p.Policy.Evict(n-1, dst) }

// halvesItself eagerly drops the blocks above its capacity less one, without claiming Traits.Sized.
type halvesItself struct {
	lru.Policy
	capacity, size int
}

func (p *halvesItself) Reset(sc *policies.Scope) error {
	p.capacity, p.size = sc.Capacity, 0
	return p.Policy.Reset(sc)
}

func (p *halvesItself) Update(s *policies.Step) {
	p.size += len(s.Exit) + len(s.Offered) - len(s.Hit)
	p.Policy.Update(s)
}

func (p *halvesItself) Evict(n int, dst []int32) []int32 {
	n = max(n, p.size-p.capacity/2)
	p.size -= n
	return p.Policy.Evict(n, dst)
}

// needsWork reads its first victim without checking that there is one.
type needsWork struct{ lru.Policy }

func (p *needsWork) Evict(n int, dst []int32) []int32 {
	victims := p.Policy.Evict(n, nil)
	if victims[0] < 0 {
		panic("negative")
	}
	return append(dst, victims...)
}

// ignoresBirths ignores the blocks that left the local window.
type ignoresBirths struct{ lru.Policy }

func (p *ignoresBirths) Update(s *policies.Step) {
	unborn := *s
	unborn.Offered, unborn.Hit = nil, slices.DeleteFunc(slices.Clone(s.Hit), func(x int32) bool { return slices.Contains(s.Offered, x) })
	p.Policy.Update(&unborn)
}

// keepsSlice adds the blocks that left the demand only in Evict.
type keepsSlice struct {
	lru.Policy
	exit []int32
}

func (p *keepsSlice) Update(s *policies.Step) {
	p.exit = s.Exit
	p.Policy.Update(&policies.Step{Offered: s.Offered, Hit: s.Hit})
}

func (p *keepsSlice) Evict(n int, dst []int32) []int32 {
	p.Policy.Update(&policies.Step{Exit: p.exit})
	return p.Policy.Evict(n, dst)
}

// sortsExit puts the highest index first.
type sortsExit struct{ lru.Policy }

func (p *sortsExit) Update(s *policies.Step) {
	slices.Reverse(s.Exit)
	p.Policy.Update(s)
}

// appendsExit appends one lent list to another in place.
type appendsExit struct{ lru.Policy }

func (p *appendsExit) Update(s *policies.Step) {
	joined := *s
	joined.Exit, joined.Offered = append(s.Exit, s.Offered...), nil
	p.Policy.Update(&joined)
}

// zeroesScores clears the scores that it has read.
type zeroesScores struct{ lru.Policy }

func (p *zeroesScores) Needs() policies.Needs { return policies.NeedScores }

func (p *zeroesScores) Update(s *policies.Step) {
	clear(s.Scores)
	p.Policy.Update(s)
}

// sumsPicked adds up the numbers in place.
type sumsPicked struct{ lru.Policy }

func (p *sumsPicked) Needs() policies.Needs { return policies.NeedDemand | policies.NeedPicked }

func (p *sumsPicked) Update(s *policies.Step) {
	for i := 1; i < len(s.Picked); i++ {
		s.Picked[i] += s.Picked[i-1]
	}
	p.Policy.Update(s)
}

// answersOnce does not answer a second call of Evict in a step.
type answersOnce struct {
	lru.Policy
	answered bool
}

func (p *answersOnce) Update(s *policies.Step) {
	p.answered = false
	p.Policy.Update(s)
}

func (p *answersOnce) Evict(n int, dst []int32) []int32 {
	if p.answered {
		return dst
	}
	p.answered = n > 0
	return p.Policy.Evict(n, dst)
}

// panicsResized does not follow a capacity that changes.
type panicsResized struct{ lru.Policy }

func (*panicsResized) Resize(int) { panic("fixed") }

// growsOnly is MIN with bypass at the largest capacity so far.
type growsOnly struct {
	optbypass.Policy
	most int
}

func (p *growsOnly) Reset(sc *policies.Scope) error {
	p.most = sc.Capacity
	return p.Policy.Reset(sc)
}

func (p *growsOnly) Resize(capacity int) {
	p.most = max(p.most, capacity)
	p.Policy.Resize(p.most)
}

// ownSlice does not append to dst.
type ownSlice struct {
	lru.Policy
	victims []int32
}

func (p *ownSlice) Evict(n int, _ []int32) []int32 {
	p.victims = p.Policy.Evict(n, p.victims[:0])
	return p.victims
}

// counting is LFU with a map of all counts, which it never forgets.
type counting struct {
	lru.Policy
	out    map[int32]bool
	counts map[int32]int
}

func (p *counting) Reset(sc *policies.Scope) error {
	p.out = map[int32]bool{}
	if p.counts == nil {
		p.counts = map[int32]int{}
	}
	return nil
}

func (p *counting) Update(s *policies.Step) {
	for _, list := range [][]int32{s.Exit, s.Offered} {
		for _, x := range list {
			p.out[x] = true
		}
	}
	for _, x := range s.Hit {
		delete(p.out, x)
		p.counts[x]++
	}
	for _, x := range s.Miss {
		p.counts[x]++
	}
}

// take evicts n blocks, first by less.
func (p *counting) take(n int, dst []int32, less func(a, b int32) int) []int32 {
	var all []int32
	for x := range p.out {
		all = append(all, x)
	}
	slices.SortFunc(all, less)
	for _, x := range all[:min(n, len(all))] {
		delete(p.out, x)
		dst = append(dst, x)
	}
	return dst
}

// remembers keeps its counts over Reset.
type remembers struct{ counting }

func (p *remembers) Evict(n int, dst []int32) []int32 {
	return p.take(n, dst, func(a, b int32) int {
		if c := p.counts[a] - p.counts[b]; c != 0 {
			return c
		}
		return int(a - b)
	})
}

// growsNot allocates its memory only at the first stream.
type growsNot struct {
	lru.Policy
	taken bool
}

func (p *growsNot) Reset(sc *policies.Scope) error {
	if p.taken {
		p.Evict(1<<20, nil)
		return nil
	}
	p.taken = true
	return p.Policy.Reset(sc)
}

// drawsGlobally draws its victims from the global random source.
type drawsGlobally struct{ counting }

func (p *drawsGlobally) Evict(n int, dst []int32) []int32 {
	lots := map[int32]int{}
	for x := range p.out {
		lots[x] = rand.IntN(1 << 30)
	}
	return p.take(n, dst, func(a, b int32) int { return lots[a] - lots[b] })
}

// mapOrder takes victims in map order.
type mapOrder struct{ counting }

func (p *mapOrder) Evict(n int, dst []int32) []int32 {
	for x := range p.out {
		if n == 0 {
			break
		}
		n--
		delete(p.out, x)
		dst = append(dst, x)
	}
	return dst
}

// drawsSecretly draws its victims from the seed, without claiming Traits.Random.
type drawsSecretly struct {
	counting
	random *rand.Rand
}

func (p *drawsSecretly) Reset(sc *policies.Scope) error {
	p.random = rand.New(rand.NewPCG(sc.Seed, 1))
	return p.counting.Reset(sc)
}

func (p *drawsSecretly) Evict(n int, dst []int32) []int32 {
	flip := int32(p.random.IntN(2)*2 - 1)
	return p.take(n, dst, func(a, b int32) int { return int(flip * (a - b)) })
}

// allocates allocates a buffer per step.
type allocates struct{ lru.Policy }

func (p *allocates) Evict(n int, dst []int32) []int32 {
	return append(dst, p.Policy.Evict(n, nil)...)
}

// tiesLate takes the highest index of those that left the demand together.
type tiesLate struct{ lru.Policy }

func (p *tiesLate) Update(s *policies.Step) {
	backwards := *s
	backwards.Exit = slices.Clone(s.Exit)
	slices.Reverse(backwards.Exit)
	p.Policy.Update(&backwards)
}

// birthsFirst inserts births before the blocks demanded at the step before.
type birthsFirst struct{ lru.Policy }

func (p *birthsFirst) Update(s *policies.Step) {
	p.Policy.Update(&policies.Step{Offered: s.Offered})
	p.Policy.Update(&policies.Step{Exit: s.Exit, Hit: s.Hit})
}

// eager keeps only the demand.
type eager struct{ lru.Policy }

func (p *eager) Evict(_ int, dst []int32) []int32 { return p.EvictTo(p.Len(), dst) }

// bypasses has the method Bypass but keeps all blocks.
type bypasses struct{ lru.Policy }

func (p *bypasses) Bypass(_ int, dst []int32) []int32 { return dst }

// oddFirst prefers odd numbers.
type oddFirst struct{ counting }

func (p *oddFirst) Evict(n int, dst []int32) []int32 {
	return p.take(n, dst, func(a, b int32) int {
		if c := b&1 - a&1; c != 0 {
			return int(c)
		}
		return int(a - b)
	})
}

// faultySweep is LRU with a faulty wrapper around its pass.
type faultySweep struct {
	lru.Policy
	wrap func(policies.Sweep) policies.Sweep
}

func (p *faultySweep) Sweep(policies.Policy) policies.Sweep { return p.wrap(p.Policy.Sweep(&p.Policy)) }

// sweeps makes a policy from a pass.
func sweeps(wrap func(policies.Sweep) policies.Sweep) policies.Entry {
	return line(func() policies.Policy { return &faultySweep{wrap: wrap} })
}

// tooNear is one less than the distance.
type tooNear struct{ policies.Sweep }

func (w tooNear) Distances(s *policies.Step, dst []int32) []int32 {
	at := len(dst)
	dst = w.Sweep.Distances(s, dst)
	for i := range dst[at:] {
		dst[at+i]--
	}
	return dst
}

// demandTwice counts the demand as if it were not resident.
type demandTwice struct {
	policies.Sweep
	demand int32
}

func (w *demandTwice) Distances(s *policies.Step, dst []int32) []int32 {
	w.demand = int32(s.Demand)
	return w.Sweep.Distances(s, dst)
}

func (w *demandTwice) Residents(sizes, dst []int32) []int32 {
	at := len(dst)
	dst = w.Sweep.Residents(sizes, dst)
	for i := range sizes {
		dst[at+i] = min(sizes[i], dst[at+i]+w.demand)
	}
	return dst
}

// startsOnce resets its pass only at the first stream.
type startsOnce struct {
	policies.Sweep
	blocks int
}

func (w *startsOnce) Reset(sc *policies.Scope, sizes []int32) error {
	if w.blocks >= sc.Blocks {
		return nil
	}
	w.blocks = sc.Blocks
	return w.Sweep.Reset(sc, sizes)
}

// joinsLate reports the blocks that left the demand to the inner pass one call late.
type joinsLate struct {
	policies.Sweep
	late policies.Step
}

func (w *joinsLate) Reset(sc *policies.Scope, sizes []int32) error {
	w.late = policies.Step{}
	return w.Sweep.Reset(sc, sizes)
}

func (w *joinsLate) join() {
	w.Sweep.Distances(&w.late, nil)
	w.late = policies.Step{Demand: w.late.Demand}
}

func (w *joinsLate) Distances(s *policies.Step, dst []int32) []int32 {
	w.join()
	w.late = policies.Step{Demand: s.Demand, Exit: s.Exit, Offered: s.Offered, Hit: s.Hit}
	return w.Sweep.Distances(&policies.Step{Demand: s.Demand, Miss: s.Miss}, dst)
}

func (w *joinsLate) Residents(sizes, dst []int32) []int32 {
	w.join()
	return w.Sweep.Residents(sizes, dst)
}

// evictsNewest has a different rule, but the Sweep of the policy that it embeds.
type evictsNewest struct{ counting }

func (p *evictsNewest) Evict(n int, dst []int32) []int32 {
	return p.take(n, dst, func(a, b int32) int { return int(b - a) })
}

func (p *evictsNewest) Sweep(policies.Policy) policies.Sweep {
	return p.Policy.Sweep(&p.Policy)
}

// peeksAway evicts the block that Peek names.
type peeksAway struct{ lru.Policy }

func (p *peeksAway) Peek() (int32, bool) {
	victims := p.Policy.Evict(1, nil)
	if len(victims) == 0 {
		return -1, false
	}
	return victims[0], true
}
