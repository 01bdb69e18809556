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

// cell replays one policy at one capacity on a View. It is the step machine of every cache:
// exact, lossy, or a lower tier. A step is arrive, classify, keep, evict, report (SEMANTICS
// S3, S4). Its miss rule says what happens to demanded blocks that are absent. A cell keeps
// its memory from stream to stream. Each goroutine has its own.
type cell struct {
	policy   policies.Policy
	needs    policies.Needs
	bypasser policies.Bypasser // nil for most
	admits   bool              // the policy is an Admitter
	resizer  policies.Resizer  // nil if the policy does not follow a capacity
	rule     missRule
	lossy    *lose // the rule of a lossy policy; nil for all others
	lower    *tier // nil for most

	state    []uint8
	weight   []int32 // entries that each unit takes; nil if each is a block, which counts one
	size     int     // resident blocks, or their weight
	capacity int     // likewise
	later    []grown
	ranks    bool  // lists are in rank order
	unit     int64 // entries of a block
	windows  int
	picked   bool // the view knows the demanded entries of blocks
	scope    policies.Scope
	step     policies.Step
	change   Change
	staging  staging
	counter  counter
	last     StepReport

	hit, miss, victims []int32
	fetched            []int32 // misses that were not staged
	arrived            []int32 // blocks that became resident without being demanded
	overflow           int     // demanded blocks beyond the capacity
	pass, passed       []int32 // demanded blocks that are not kept: in this step, and in the one before
	leftOut            int     // blocks of pass that are not kept after the step
	keptWeight         int     // weight of the kept part of D_t, if units are weighed
	emptied            bool    // nothing of D_{t-1} was kept: all of D_t enters
	unmarked           bool    // and nothing of D_t was resident: its blocks are not marked as demanded

	following                    Change // of the next row, for policies that see the future
	left, leftNext, merged, ones []int32
}

// missRule is the part of a step that depends on the kind of cache.
type missRule interface {
	// arrive makes the blocks resident that come before the demand is looked at.
	arrive(c *cell, v View, i int) error
	// classify finds hits and misses and fills the policy's step.
	classify(c *cell, v View, i int)
	// keep decides which demanded blocks stay, after the policy's update.
	keep(c *cell, v View, i int) error
}

// fetch is the rule of exact policies: a missed block is fetched, and kept if there is room.
// moveUp is that of exclusive tiers: a demanded block leaves for the tier above, found or not,
// and what that tier gave up arrives after it. For lose see lossy.go.
type (
	fetch  struct{}
	moveUp struct{}
)

func newCell(p policies.Policy) *cell {
	c := &cell{policy: p, needs: policies.NeedsOf(p), rule: fetch{}}
	c.bypasser, _ = p.(policies.Bypasser)
	_, c.admits = p.(policies.Admitter)
	c.resizer, _ = p.(policies.Resizer)
	return c
}

// start is how a cell begins on a stream.
type start struct {
	capacity  int     // blocks
	later     []grown // the capacities that follow
	divided   bool    // they follow because memory is divided anew
	placed    []int32 // resident before step 0: importance or staging warm-up, ascending
	ranks     bool    // lists are in rank order
	seed      uint64
	unit      int64 // entries of a block
	prefetch  PrefetchSource
	staging   int       // blocks of the buffer
	swaps     bool      // prefetched blocks go into the cache: there is no buffer
	attention attention // for lossy policies
}

// run replays a view, and the tiers below along with it. It returns the counts of the first
// stream; counter has those of all.
func (c *cell) run(v View, st start, observer Observer, lower ...tierStart) (Counts, error) {
	if err := c.reset(v, st); err != nil {
		return Counts{}, err
	}
	n := 0
	for t := c.lower; t != nil; t = t.cell.lower {
		if err := t.reset(v, lower[n]); err != nil {
			return Counts{}, err
		}
		n++
	}
	for i := range v.Bounds().Rows {
		err := c.apply(v, i, observer)
		above := c
		for t := c.lower; t != nil && err == nil; t = t.cell.lower {
			t.view.push(above)
			if err = t.cell.apply(&t.view, i, t.observer); err != nil {
				err = fmt.Errorf("tier below the GPU's: %w", err)
			}
			above = t.cell
		}
		if err != nil {
			return Counts{}, fmt.Errorf("step %d: %w", v.Step(i), err)
		}
	}
	return c.counter.finish(), nil
}

// reset starts a stream.
func (c *cell) reset(v View, st start) error {
	x := v.Bounds()
	c.scope = policies.Scope{Blocks: x.Blocks, Capacity: st.capacity, Steps: x.Rows, Windows: x.Windows, Demand: x.MaxDemand, Seed: st.seed}
	if x.Streams > 1 {
		c.scope.PerStep = x.Streams
	}
	if err := c.policy.Reset(&c.scope); err != nil {
		return err
	}
	c.weight, c.later, c.capacity, c.ranks, c.unit, c.windows, c.picked = x.Weight, st.later, st.capacity, st.ranks, st.unit, x.Windows, x.HasPicked
	c.size, c.passed, c.leftOut, c.emptied, c.unmarked = 0, c.passed[:0], 0, false, false
	c.fetched = nil
	c.counter.reset(x, st.unit, st.placed)
	c.last = StepReport{}
	if c.lossy != nil {
		c.state = policies.Fill(c.state, x.Blocks, outside)
		return c.lossy.reset(c, v, st.attention)
	}
	c.state = policies.Fill(c.state, x.Blocks, absent)
	c.staging.reset(v, &st)
	c.place(x.FirstUse, st.placed)
	return nil
}

// place makes a warm-up's blocks resident, last used and inserted at step -1.
func (c *cell) place(firstUse, placed []int32) {
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
			next[i] = firstUse[x]
		}
		c.step.OfferedNext = next
	}
	c.policy.Update(&c.step)
}

// apply replays row i.
func (c *cell) apply(v View, i int, observer Observer) error {
	if len(c.later) > 0 {
		c.resize(v.Step(i))
	}
	s := &c.step
	v.Change(i, &c.change)
	c.last.Demand = c.change.Demand
	s.T, s.Demand, s.Pass = int32(i-c.windows), c.last.Demand, nil
	c.victims = c.victims[:0]
	if err := c.rule.arrive(c, v, i); err != nil {
		return err
	}
	c.rule.classify(c, v, i)
	c.policy.Update(s)
	if err := c.rule.keep(c, v, i); err != nil {
		return err
	}
	if c.lossy == nil || i >= c.windows {
		if err := c.evict(); err != nil {
			return err
		}
	}
	c.report(v, i, observer)
	return nil
}

// resize gives the cell its capacity at a decode step, which may be smaller than before.
func (c *cell) resize(step int32) {
	for len(c.later) > 0 && step >= c.later[0].from {
		c.capacity = c.later[0].blocks
		c.later = c.later[1:]
		if c.resizer != nil {
			c.resizer.Resize(c.capacity)
		}
	}
}

// arrive makes births resident, and the blocks that are fetched ahead.
func (fetch) arrive(c *cell, v View, i int) error {
	born := c.change.Born
	prefetches := c.prefetches(i)
	c.arrived, c.step.Offered = born, born
	if prefetches && c.staging.swaps {
		if err := c.swapIn(i); err != nil {
			return err
		}
		c.step.Offered = c.staging.offer(born)
	}
	for _, x := range born {
		c.state[x] = outside
	}
	c.size += c.weigh(born)
	if prefetches && !c.staging.swaps {
		c.staging.fill(c.state, i)
	}
	return nil
}

// prefetches reports whether blocks are fetched ahead of row i.
func (c *cell) prefetches(i int) bool {
	return c.staging.source != PrefetchNothing && i >= c.windows
}

// classify makes the misses resident. Those that were fetched ahead are not counted.
func (fetch) classify(c *cell, v View, i int) {
	c.split(v, i)
	c.size += c.weigh(c.miss)
	c.fetched = c.miss
	switch {
	case !c.prefetches(i):
	case c.staging.swaps:
		c.useSwapped()
	default:
		c.fetched = c.staging.take(c.miss)
	}
	c.chooseOverflow(v, i)
}

// keep takes the demanded blocks out that the capacity or the policy keeps out.
func (fetch) keep(c *cell, _ View, _ int) error {
	if err := c.keepOut(); err != nil {
		return err
	}
	c.leftOut = 0
	if c.bypasser != nil || c.overflow > 0 {
		c.leftOut = len(c.pass)
	}
	return nil
}

// arrive does nothing: what the tier above gives up comes after the demand.
func (moveUp) arrive(*cell, View, int) error { return nil }

func (moveUp) classify(c *cell, v View, i int) {
	demand := v.Members(i)
	c.classify(demand)
	c.fetched = c.miss
	c.step = policies.Step{T: c.step.T, Demand: len(demand), Hit: c.hit, Miss: c.miss, Pass: demand}
	if c.needs != 0 {
		c.columns(v, i)
	}
}

// keep lets the demand leave, and takes in what the tier above gave up, in that order.
func (moveUp) keep(c *cell, v View, i int) error {
	s := &c.step
	for _, x := range v.Members(i) {
		c.state[x] = absent
	}
	c.arrived = c.change.Born
	for _, x := range c.arrived {
		c.state[x] = outside
	}
	c.size += len(c.arrived) - len(c.hit)
	s.T, s.Demand, s.Hit, s.Miss, s.Pass, s.Offered = s.T+1, 0, nil, nil, nil, c.arrived
	c.policy.Update(s)
	return nil
}

// report counts row i and tells an observer of it. Fields of the report that only observers
// read are left as they are without one.
func (c *cell) report(v View, i int, observer Observer) {
	if i < c.windows && observer == nil && !c.counter.pooled() {
		return
	}
	r := &c.last
	r.T, r.Made = int32(i-c.windows), c.change.Positions
	r.Misses, r.Victims, r.Births, r.Overflow, r.Resident = c.fetched, c.victims, len(c.arrived), c.overflow, c.size
	c.addTraffic(r, v, i)
	if c.counter.pooled() {
		r.Stream = i % len(c.counter.streams)
		r.First, r.arrived, r.own = int32(r.Stream)*c.counter.stride, c.arrived, len(c.miss)-c.leftOut
		if _, exclusive := c.rule.(moveUp); exclusive {
			r.own = -len(c.hit)
		}
	}
	if c.lossy != nil {
		r.Lost, r.KeptMass, r.CoveredMass = c.lossy.lost, c.lossy.kept, c.lossy.covered
	}
	c.counter.observe(r)
	if observer == nil {
		return
	}
	r.Step, r.Pinned, r.KeptOut = v.Step(i), v.Pinned(i), c.step.Members
	if !c.emptied {
		slices.Sort(c.passed)
		r.KeptOut = c.passed
	}
	observer(r)
}
