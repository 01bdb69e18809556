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
	s, born, counted := &c.step, d.Born.Row(i), i >= d.Windows
	if len(c.later) > 0 {
		c.grow(d.step(i))
	}
	s.T, s.Demand, s.Offered, s.Pass = int32(i-d.Windows), int(d.Size[i]), born, nil
	c.victims = c.victims[:0]
	prefetches := counted && c.staging.source != PrefetchNothing
	if err := c.arrive(d, i, prefetches); err != nil {
		return err
	}
	c.sift(d, i)
	c.fetch(prefetches)
	overflow := c.overflow(d, i, ranks)
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
		c.shares.settle(i, len(born)+len(c.miss)-c.leftOut, nil, c.victims, c.size, counted)
		own := c.shares.stream(i)
		n, resident, evicted = &c.shares.counts[own], c.shares.size[own], 0
	}
	if counted {
		n.Steps++
		n.Demand += int64(s.Demand)
		n.Misses += int64(len(c.fetched))
		n.Evictions += int64(evicted)
		n.Births += int64(len(born))
		n.Overflow += int64(overflow)
		n.ResidentSum += int64(resident)
		n.ResidentPeak = max(n.ResidentPeak, int64(resident))
		n.Made += d.Made(i)
		n.addMoved(&moved)
		if prefetches {
			n.addPrefetched(&c.staging.counts)
		}
	}
	if look != nil {
		c.tell(d, i, overflow, resident, &moved, look)
	}
	return nil
}

// arrive makes what comes before the demand is looked at resident: births, and what is
// fetched ahead.
func (c *cell) arrive(d *Delta, i int, prefetches bool) error {
	born := d.Born.Row(i)
	if prefetches && c.staging.swaps {
		if err := c.swapIn(d, i); err != nil {
			return err
		}
		c.step.Offered = c.offer(born)
	}
	for _, x := range born {
		c.state[x] = outside
	}
	c.size += c.weigh(born)
	if prefetches && !c.staging.swaps {
		c.staging.fill(c, d, i)
	}
	return nil
}

// fetch makes the misses resident; what of them was fetched ahead is none that counts.
func (c *cell) fetch(prefetches bool) {
	c.size += c.weigh(c.miss)
	c.fetched = c.miss
	switch {
	case !prefetches:
	case c.staging.swaps:
		c.useSwapped()
	default:
		c.fetched = c.staging.take(c.miss)
	}
}

// tell reports row i to an observer.
func (c *cell) tell(d *Delta, i, overflow, resident int, moved *moved, look Observer) {
	s := &c.step
	keptOut := s.Members
	if !c.emptied {
		slices.Sort(c.passed)
		keptOut = c.passed
	}
	c.report = StepReport{T: s.T, Step: d.step(i), Stream: c.shares.stream(i), First: c.shares.first(i), Demand: s.Demand, Misses: c.fetched, Births: d.Born.len(i),
		Victims: c.victims, KeptOut: keptOut, Overflow: overflow, Resident: resident, Pinned: d.pinnedBlocks(i),
		Prefetched: c.staging.counts, Made: int(d.Made(i)), Moved: moved.fetched + moved.ahead, DemandEntries: moved.picked, MissedEntries: moved.missed}
	look(&c.report)
}
