package replay

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// State of a block in a cell.
const (
	absent   uint8 = iota
	outside        // resident, not demanded: member of E
	demanded       // resident by rule
	keptOut        // demanded, fetched, not kept
)

// cell replays one policy at one capacity. It keeps its memory from stream to stream;
// one per goroutine.
type cell struct {
	policy   policies.Policy
	needs    policies.Needs
	bypasser policies.Bypasser // nil for most
	admits   bool              // and an Admitter
	resizer  policies.Resizer  // nil where the capacity is of no interest

	below *tier // nil for most

	state    []uint8
	weight   []int32 // entries that each unit takes; nil where each is a block, which counts one
	size     int     // resident blocks, or their weight
	capacity int     // likewise
	scope    policies.Scope
	step     policies.Step
	unit     int64 // entries of a block
	staging  staging
	counts   Counts
	shares   shares // of streams that share the cache
	report   StepReport

	later    []grown
	held     int  // weight of what is kept of D_t, where units are weighed
	leftOut  int  // blocks of pass that are not kept after the step
	emptied  bool // nothing of D_{t-1} was kept: Members stands for what enters
	unmarked bool // and nothing of D_t was resident: its blocks are not marked as demanded

	hit, miss, exit, pass, passed, victims []int32
	fetched                                []int32 // misses that were not staged
	exitNext                               []int32
	merged, sorted, offered                []int32
}

func newCell(p policies.Policy) *cell {
	c := &cell{policy: p, needs: policies.NeedsOf(p)}
	c.bypasser, _ = p.(policies.Bypasser)
	_, c.admits = p.(policies.Admitter)
	c.resizer, _ = p.(policies.Resizer)
	return c
}

// start is how a cell begins on a stream.
type start struct {
	capacity int     // blocks
	later    []grown // and what it grows to
	divided  bool    // changes because memory is divided anew
	placed   []int32 // resident before step 0: importance or staging warm-up, ascending
	ranks    bool    // lists are in rank order
	seed     uint64
	unit     int64 // entries of a block
	prefetch PrefetchSource
	staging  int  // blocks of the buffer
	swaps    bool // into the cache: no buffer
}

// run replays the stream that d was built from, and the tiers below along with it.
func (c *cell) run(d *Delta, st start, look Observer, below ...tierStart) (Counts, error) {
	if err := c.reset(d, st); err != nil {
		return Counts{}, err
	}
	if c.below != nil {
		if err := c.below.reset(d, below); err != nil {
			return Counts{}, err
		}
	}
	for i := range d.Rows {
		err := c.apply(d, i, st.ranks, look)
		if err == nil && c.below != nil {
			err = c.below.step(c, d.Born.Row(i), i, st.ranks)
		}
		if err != nil {
			return Counts{}, fmt.Errorf("step %d: %w", d.step(i), err)
		}
	}
	c.counts.PrefetchUseless = c.counts.Prefetched - c.counts.PrefetchUseful
	return c.counts, nil
}

// reset starts a stream.
func (c *cell) reset(d *Delta, st start) error {
	c.scope = policies.Scope{Blocks: d.Blocks, Capacity: st.capacity, Steps: d.Rows, Windows: d.Windows, Demand: d.MaxDemand, Seed: st.seed}
	if d.pool != nil {
		c.scope.PerStep = len(d.pool.members)
	}
	if err := c.policy.Reset(&c.scope); err != nil {
		return err
	}
	c.state = policies.Fill(c.state, d.Blocks, absent)
	c.weight, c.later = d.Weight, st.later
	c.size, c.capacity, c.passed, c.emptied, c.unmarked = 0, st.capacity, c.passed[:0], false, false
	c.counts, c.unit = Counts{Streams: 1, PinnedPeak: int64(d.PinnedPeak) * st.unit}, st.unit
	c.staging.reset(&st, d.Blocks)
	c.shares.reset(d, st.unit, st.placed)
	c.place(d, st.placed)
	return nil
}

// place makes a warm-up's blocks resident, last used and inserted at step -1.
func (c *cell) place(d *Delta, placed []int32) {
	if len(placed) == 0 {
		return
	}
	c.step = policies.Step{Offered: placed}
	for _, x := range placed {
		c.state[x] = outside
	}
	c.size = len(placed)
	if c.needs&policies.NeedNext != 0 {
		next := make([]int32, len(placed))
		for i, x := range placed {
			next[i] = d.FirstUse[x]
		}
		c.step.OfferedNext = next
	}
	c.policy.Update(&c.step)
}

// apply replays row i: births, classification, fetch, eviction (SEMANTICS S3, S4).
func (c *cell) apply(d *Delta, i int, ranks bool, look Observer) error {
	s := &c.step
	t := int32(i - d.Windows)
	if len(c.later) > 0 {
		c.grow(d.step(i))
	}
	born := d.Born.Row(i)
	s.T, s.Demand, s.Offered, s.Pass = t, int(d.Size[i]), born, nil
	c.victims = c.victims[:0]
	prefetches := c.staging.source != PrefetchNothing && t >= 0
	if prefetches && c.staging.swaps {
		if err := c.swapIn(d, i); err != nil {
			return err
		}
		s.Offered = c.offer(born)
	}
	for _, x := range born {
		c.state[x] = outside
	}
	c.size += c.weigh(born)
	if prefetches && !c.staging.swaps {
		c.staging.fill(c, d, i)
	}
	if !c.emptied {
		c.classify(d.Enter.Row(i))
	} else if members := d.Members.Row(i); c.onlyBirths(members, born) {
		c.hit, c.miss, c.unmarked = c.hit[:0], append(c.miss[:0], members...), true
	} else {
		c.classify(members)
	}
	s.Exit = d.Exit.Row(i)
	if c.needs != 0 {
		c.columns(d, i)
	}
	if c.emptied {
		s.Exit, s.ExitNext = nil, nil
	} else if len(c.passed) == 0 {
		for _, x := range s.Exit {
			c.state[x] = outside
		}
	} else {
		c.returnPassed(s)
	}
	s.Hit, s.Miss = c.hit, c.miss
	c.size += c.weigh(c.miss)
	c.fetched = c.miss
	switch {
	case !prefetches:
	case c.staging.swaps:
		c.useSwapped()
	default:
		c.fetched = c.staging.take(c.miss)
	}
	overflow := max(0, s.Demand-c.capacity)
	if c.weight != nil {
		if overflow = c.surplusWeighed(d, i, ranks); overflow > 0 {
			s.Pass = c.pass
		}
	} else if overflow > 0 && c.bypasser == nil {
		c.surplus(d.ranked(i), overflow, ranks)
		s.Pass = c.pass
	}
	c.policy.Update(s)
	if err := c.keepOut(overflow); err != nil {
		return err
	}
	c.leftOut = 0
	if c.bypasser != nil || overflow > 0 {
		c.leftOut = len(c.pass)
	}
	moved := c.moved(d, i)
	if err := c.evict(); err != nil {
		return err
	}
	n, resident, evicted := &c.counts, c.size, len(c.victims)
	if c.shares.pool != nil {
		c.shares.settle(i, len(born)+len(c.miss)-c.leftOut, nil, c.victims, c.size, t >= 0)
		own := c.shares.stream(i)
		n, resident, evicted = &c.shares.counts[own], c.shares.size[own], 0
	}
	if t >= 0 {
		n.Steps++
		n.Demand += int64(s.Demand)
		n.Misses += int64(len(c.fetched))
		n.Evictions += int64(evicted)
		n.Births += int64(len(born))
		n.Overflow += int64(overflow)
		n.ResidentSum += int64(resident)
		n.ResidentPeak = max(n.ResidentPeak, int64(resident))
		n.Made += d.Made(i)
		n.Picked += moved.picked
		n.Missed += moved.missed
		n.Moved += moved.fetched + moved.ahead
		n.StagingPeak = max(n.StagingPeak, moved.staged)
		if prefetches {
			n.addPrefetched(&c.staging.counts)
		}
	}
	if look != nil {
		keptOut := s.Members
		if !c.emptied {
			slices.Sort(c.passed)
			keptOut = c.passed
		}
		c.report = StepReport{T: t, Step: d.step(i), Stream: c.shares.stream(i), First: c.shares.first(i), Demand: s.Demand, Misses: c.fetched, Births: len(born),
			Victims: c.victims, KeptOut: keptOut, Overflow: overflow, Resident: resident, Pinned: d.pinnedBlocks(i),
			Prefetched: c.staging.counts, Made: int(d.Made(i)), Moved: moved.fetched + moved.ahead, DemandEntries: moved.picked, MissedEntries: moved.missed}
		look(&c.report)
	}
	return nil
}

// onlyBirths reports whether births are all that is resident and none is demanded:
// every member is then a miss without a look at its state.
func (c *cell) onlyBirths(members, born []int32) bool {
	return c.size == len(born) && (len(born) == 0 || len(members) == 0 || members[len(members)-1] < born[0])
}

// classify splits what enters the demand into hits and misses, against the residents
// at the step's start.
func (c *cell) classify(enter []int32) {
	n := len(enter)
	c.hit, c.miss = slices.Grow(c.hit[:0], n+1)[:n+1], slices.Grow(c.miss[:0], n+1)[:n+1]
	hit, miss, state := c.hit, c.miss, c.state
	h, m := 0, 0
	for _, x := range enter { // both are written, one is kept: no branch to mispredict
		hit[h], miss[m] = x, x
		was := int(state[x])
		h += was
		m += 1 - was
		state[x] = demanded
	}
	c.hit, c.miss = hit[:h], miss[:m]
}

// returnPassed handles blocks that were kept out a step ago: those that left the
// demand are gone, those still in it are missed again. Which they are is as good as
// random: every block is written, and counted where it belongs.
func (c *cell) returnPassed(s *policies.Step) {
	state, left := c.state, s.Exit
	c.exit = slices.Grow(c.exit[:0], len(left)+1)[:len(left)+1]
	exit, n := c.exit, 0
	if next := s.ExitNext; next != nil {
		c.exitNext = slices.Grow(c.exitNext[:0], len(left)+1)[:len(left)+1]
		nexts, m := c.exitNext, 0
		for j, x := range left { // before states change
			nexts[m] = next[j]
			m += 1 - int(isKeptOut(state[x]))
		}
		s.ExitNext = nexts[:m]
	}
	for _, x := range left {
		out := isKeptOut(state[x])
		exit[n] = x
		n += 1 - int(out)
		state[x] = outside - out // or absent
	}
	s.Exit = exit[:n]
	again := c.passed
	n = 0
	for _, x := range c.passed {
		out := isKeptOut(state[x])
		again[n] = x
		n += int(out)
		state[x] -= (keptOut - demanded) * out // those that left are absent by now
	}
	if again = again[:n]; n > 0 {
		slices.Sort(again)
		c.merged = mergeSorted(c.merged[:0], c.miss, again)
		c.miss, c.merged = c.merged, c.miss
	}
	c.passed = c.passed[:0]
}

// isKeptOut is 1 for keptOut and 0 for every other state.
func isKeptOut(state uint8) uint8 { return state & (state >> 1) & 1 }

func mergeSorted(dst, a, b []int32) []int32 {
	for len(a) > 0 && len(b) > 0 {
		if a[0] < b[0] {
			dst, a = append(dst, a[0]), a[1:]
		} else {
			dst, b = append(dst, b[0]), b[1:]
		}
	}
	return append(append(dst, a...), b...)
}

// columns fills what the policy asked for.
func (c *cell) columns(d *Delta, i int) {
	s := &c.step
	if c.needs&policies.NeedCandidates != 0 {
		s.Candidates = d.Candidates(i)
	}
	if c.needs&policies.NeedDemand != 0 {
		s.Members = d.Members.Row(i)
	}
	if c.needs&policies.NeedPicked != 0 {
		s.Picked = d.picked(i)
	}
	if c.needs&policies.NeedScores != 0 {
		s.List, s.Scores = d.scored(i)
	}
	if c.needs&policies.NeedNext == 0 {
		return
	}
	s.OfferedNext = d.BornNext[d.Born.ends[i]:d.Born.ends[i+1]]
	s.ExitNext = d.ExitNext[d.Exit.ends[i]:d.Exit.ends[i+1]]
	if i+1 < d.Rows {
		s.Leaving = d.Exit.Row(i + 1)
		s.LeavingNext = d.ExitNext[d.Exit.ends[i+1]:d.Exit.ends[i+2]]
	} else {
		s.Leaving, s.LeavingNext = nil, nil
	}
}

// surplus chooses which members of D_t are not kept: worst rank first, without ranks
// lowest index first (SEMANTICS S5).
func (c *cell) surplus(list []int32, n int, ranks bool) {
	c.pass = c.pass[:0]
	take := func(x int32) {
		if len(c.pass) < n && c.state[x] == demanded {
			c.pass = append(c.pass, x)
		}
	}
	if !ranks {
		for _, x := range list {
			take(x)
		}
		return
	}
	for i := len(list) - 1; i >= 0; i-- {
		take(list[i])
	}
}

// keepOut takes the engine's or the policy's choice of members of D_t out of the cache.
func (c *cell) keepOut(overflow int) error {
	if c.bypasser != nil {
		c.pass = c.bypasser.Bypass(overflow, c.pass[:0])
	} else if overflow == 0 {
		c.keepAll()
		return nil
	}
	if len(c.pass) < overflow {
		return fmt.Errorf("policy keeps %d demanded blocks out, the demand exceeds the capacity by %d", len(c.pass), overflow)
	}
	if c.unmarked {
		c.unmarked = false
		if slices.Equal(c.pass, c.step.Members) { // again nothing is kept
			c.size -= c.weigh(c.pass)
			return nil
		}
		c.markMembers()
	}
	out := keptOut
	c.emptied = len(c.pass) == c.step.Demand && c.needs&policies.NeedDemand != 0
	if c.emptied {
		out = absent
	}
	for _, x := range c.pass {
		if uint32(x) >= uint32(len(c.state)) || c.state[x] != demanded {
			return fmt.Errorf("policy keeps block %d out, which is not in the demand (or named twice)", x)
		}
		c.state[x] = out
	}
	c.size -= c.weigh(c.pass)
	if c.emptied {
		c.passed = c.passed[:0]
		return nil
	}
	c.passed = append(c.passed[:0], c.pass...)
	return nil
}

// keepAll ends what began when nothing of a step's demand was kept: all of D_t is.
func (c *cell) keepAll() {
	if c.unmarked {
		c.markMembers()
	}
	c.emptied, c.unmarked = false, false
}

// markMembers marks D_t as demanded.
func (c *cell) markMembers() {
	for _, x := range c.step.Members {
		c.state[x] = demanded
	}
}

// evict asks for as many victims as the capacity needs and checks each.
func (c *cell) evict() error {
	if c.weight != nil {
		return c.evictWeighed()
	}
	need, before := max(0, c.size-c.capacity), len(c.victims)
	c.victims = c.policy.Evict(need, c.victims)
	victims := c.victims[before:]
	if len(victims) < need {
		return fmt.Errorf("policy named %d victims, %d are needed (capacity %d blocks, %d resident)", len(victims), need, c.capacity, c.size)
	}
	for _, x := range victims {
		if uint32(x) >= uint32(len(c.state)) || c.state[x] != outside {
			return c.illegalVictim(x)
		}
		c.state[x] = absent
	}
	if c.staging.swaps {
		for _, x := range victims {
			c.lose(x)
		}
	}
	c.size -= len(victims)
	return nil
}

// notKept are the members of D_t that left with the step, ascending.
func (c *cell) notKept() []int32 {
	kept := c.pass[:c.leftOut]
	c.sorted = append(c.sorted[:0], kept...)
	slices.Sort(c.sorted)
	return c.sorted
}

func (c *cell) illegalVictim(x int32) error {
	why := "is not resident (or was named twice)"
	switch {
	case uint32(x) >= uint32(len(c.state)):
		why = fmt.Sprintf("does not exist, blocks are 0 to %d", len(c.state)-1)
	case c.state[x] == demanded || c.state[x] == keptOut:
		why = "is in the step's demand"
	}
	return fmt.Errorf("policy named block %d as a victim, which %s", x, why)
}
