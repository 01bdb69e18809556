package cache

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// State of a block in a cell.
const (
	absent   uint8 = iota
	outside        // resident and not demanded: a member of E
	demanded       // in the demand, and thus resident
	keptOut        // demanded and fetched, but not kept
)

// Cell replays one policy at one capacity on a View. It is the step machine of every cache:
// exact, lossy, or a lower tier. A step is arrive, classify, keep, evict, report (SEMANTICS
// S3, S4). The miss rule decides about demanded blocks that are absent. A cell reuses its memory
// for the next stream. Goroutines must not share a cell.
type Cell struct {
	Policy   policies.Policy // decides about resident blocks
	needs    policies.Needs
	bypasser policies.Bypasser // nil if the policy is no Bypasser
	admits   bool              // the policy is an Admitter
	follower bool              // the policy is a Follower
	tracker  bool              // the policy is a Tracker
	resizer  policies.Resizer  // nil if the policy is no Resizer
	rule     missRule
	lossy    *lose // the rule of a lossy policy, nil for other policies
	Lower    *Tier // the tier below, nil if there is none

	state    []uint8
	weight   []int32 // capacity that each unit takes, in entries. Nil if every unit takes 1
	size     int     // number of resident blocks, or their weight
	capacity int     // in the unit of size
	later    []CapacityAt
	ranks    bool  // lists are in rank order
	unit     int64 // entries of a block
	windows  int
	picked   bool    // the view knows the demanded entries of blocks
	held     []int32 // demanded entries by block, valid for the blocks that may be misses of the step
	scope    policies.Scope
	step     policies.Step
	change   demand.Change
	staging  staging
	counter  counter
	last     StepReport

	hit, miss, victims []int32
	fetched            []int32 // misses that were not staged
	arrived            []int32 // blocks that became resident without being demanded
	overflow           int     // demanded blocks beyond the capacity
	pass, passed       []int32 // demanded blocks that are not kept: in this step, and in the one before
	demandWeight       int     // weight of D_t, if units have weights
	keptWeight         int     // weight of the kept part of D_t, if units have weights
	entered            bool    // all misses are blocks that enter the demand
	emptied            bool    // no block of D_{t-1} was kept: all of D_t enters
	unmarked           bool    // no block of D_t was resident, and none is marked as demanded

	followed  bool          // the view is a followed pool
	tracked   bool          // the view is a tracked pool
	gone      [][]int32     // of each stream of a tracked pool: blocks that were evicted while demanded
	stream    int           // of the row, in a tracked pool
	offered   []int32       // blocks that arrived in an exclusive tier
	following demand.Change // of the next row, for policies that see the future

	left, leftNext, merged, ones []int32
	merging                      []int32 // scratch of returnPassed
	sorter                       demand.Sorter
}

// missRule is the part of a step that depends on the kind of cache.
type missRule interface {
	// arrive makes the blocks resident that arrive before the demand is classified.
	arrive(c *Cell, v demand.View, i int) error
	// classify finds hits and misses and fills the policy's step.
	classify(c *Cell, v demand.View, i int)
	// keep decides which demanded blocks stay, after the policy's update.
	keep(c *Cell, v demand.View, i int) error
}

// fetch is the rule of exact policies: a missed block is fetched, and kept if there is room. moveUp
// is the rule of exclusive tiers. Every demanded block leaves for the cache above. The blocks that
// the cache above gave up arrive after the demand. For lose see lossy.go.
type (
	fetch  struct{}
	moveUp struct{}
)

// NewCell returns the cell of an exact policy.
func NewCell(p policies.Policy) *Cell {
	c := &Cell{Policy: p, needs: policies.NeedsOf(p), rule: fetch{}}
	c.bypasser, _ = p.(policies.Bypasser)
	_, c.admits = p.(policies.Admitter)
	c.resizer, _ = p.(policies.Resizer)
	c.follower, c.tracker = policies.Follows(p), policies.Tracks(p)
	return c
}

// Start holds the capacities and options of a cell on a stream.
type Start struct {
	Capacity  int          // blocks
	Later     []CapacityAt // later capacities, by ascending steps
	Divided   bool         // Later comes from a new division of memory
	Placed    []int32      // blocks that a warm-up places before step 0, ascending
	Ranks     bool         // lists are in rank order
	Seed      uint64
	Unit      int64 // entries of a block
	Prefetch  setting.PrefetchSource
	Staging   int              // blocks of the buffer
	Swap      bool             // prefetched blocks go into the cache, not into a buffer
	Attention demand.Attention // for lossy policies

	NewPredictor func() policies.Predictor // for the source PrefetchEcho. A cell keeps the first one
}

// Reported returns the smallest and the largest capacity per stream that rows report. For a
// capacity that only grows, both are its final size.
func (st *Start) Reported(streams int) (least, most int64) {
	if n := len(st.Later); n > 0 && !st.Divided {
		return int64(st.Later[n-1].Capacity / streams), int64(st.Later[n-1].Capacity / streams)
	}
	least, most = int64(st.Capacity/streams), int64(st.Capacity/streams)
	for _, g := range st.Later {
		least, most = min(least, int64(g.Capacity)), max(most, int64(g.Capacity))
	}
	return least, most
}

// CapacityAt is a capacity in blocks that holds from a decode step on.
type CapacityAt struct {
	Step     int32
	Capacity int
}

// Run replays a view with the cell and its tiers. It returns the counts of the first stream. Method
// Counts returns those of all streams.
func (c *Cell) Run(v demand.View, st Start, observer Observer, lower ...TierStart) (Counts, error) {
	v = c.follow(v, &st)
	if err := c.reset(v, st); err != nil {
		return Counts{}, err
	}
	n := 0
	for t := c.Lower; t != nil; t = t.Cell.Lower {
		if err := t.reset(v, st.Staging, lower[n]); err != nil {
			return Counts{}, err
		}
		n++
	}
	for i := range v.Size().Rows {
		err := c.apply(v, i, observer)
		above := c
		for t := c.Lower; t != nil && err == nil; t = t.Cell.Lower {
			t.push(above, c)
			if err = t.Cell.apply(&t.view, i, t.observer); err != nil {
				err = fmt.Errorf("tier below the GPU's cache: %w", err)
			}
			above = t.Cell
		}
		if err != nil {
			return Counts{}, fmt.Errorf("step %d: %w", v.Step(i), err)
		}
	}
	return c.counter.finish(), nil
}

// follow chooses the cheapest view of a pool. It uses Followed if the capacity always holds the latest
// demands of all streams. It uses Tracked if at most half of a step's demand does not fit. Otherwise it uses
// the pool.
func (c *Cell) follow(v demand.View, st *Start) demand.View {
	c.followed, c.tracked = false, false
	pool, ok := v.(*demand.Pool)
	if !ok {
		return v
	}
	least := st.Capacity
	for _, later := range st.Later {
		least = min(least, later.Capacity)
	}
	if f, ok := pool.Followed(c.needs); ok && (c.follower || c.tracker) {
		lacks := pool.Latest(c.needs) - least
		if c.followed = c.follower && lacks <= 0; c.followed {
			f.Foresee()
			return f
		}
		if c.tracked = c.tracker && lacks <= pool.MaxDemand/2 && least >= pool.MaxDemand; c.tracked {
			return demand.Tracked{Pool: pool}
		}
	}
	if c.needs&policies.NeedNext != 0 {
		pool.Foresee()
	}
	return v
}

// Counts returns the counts of the latest run, one for each stream that shares the cache.
func (c *Cell) Counts() []Counts { return c.counter.streams }

// Peak returns the largest number of resident blocks of all streams in a pool together.
func (c *Cell) Peak() int64 { return c.counter.peak }

// reset starts a stream.
func (c *Cell) reset(v demand.View, st Start) error {
	x := v.Size()
	c.scope = policies.Scope{Blocks: x.Blocks, Capacity: st.Capacity, Steps: x.Rows, Windows: x.Windows, Demand: x.MaxDemand, Seed: st.Seed}
	c.scope.Followed, c.scope.Tracked = c.followed, c.tracked
	if c.tracked {
		c.gone = slices.Grow(c.gone[:0], x.Streams)[:x.Streams]
		for i, blocks := range c.gone {
			c.gone[i] = blocks[:0]
		}
	}
	if x.Streams > 1 {
		c.scope.PerStep = x.Streams
	}
	if err := c.Policy.Reset(&c.scope); err != nil {
		return err
	}
	c.weight, c.later, c.capacity, c.ranks, c.unit, c.windows, c.picked = x.Weight, st.Later, st.Capacity, st.Ranks, st.Unit, x.Windows, x.HasPicked
	c.size, c.pass, c.passed, c.demandWeight, c.emptied, c.unmarked = 0, c.pass[:0], c.passed[:0], 0, false, false
	c.fetched = nil
	if c.picked {
		c.held = policies.Fill(c.held, x.Blocks, 0)
	}
	c.sorter.Reset(x.Blocks)
	c.counter.reset(x, st.Unit, st.Placed)
	c.last = StepReport{}
	if c.lossy != nil {
		c.state = policies.Fill(c.state, x.Blocks, outside)
		return c.lossy.reset(v, st.Attention)
	}
	c.state = policies.Fill(c.state, x.Blocks, absent)
	c.staging.reset(v, &st)
	c.place(x.FirstUse, st.Placed)
	return nil
}

// place makes the blocks of a warm-up resident. Policies see them as inserted at step -1.
func (c *Cell) place(firstUse, placed []int32) {
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
	c.Policy.Update(&c.step)
}

// apply replays row i.
func (c *Cell) apply(v demand.View, i int, observer Observer) error {
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
	c.Policy.Update(s)
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

// resize sets the capacity of a decode step. It may be smaller than before.
func (c *Cell) resize(step int32) {
	for len(c.later) > 0 && step >= c.later[0].Step {
		c.capacity = c.later[0].Capacity
		c.later = c.later[1:]
		if c.resizer != nil {
			c.resizer.Resize(c.capacity)
		}
	}
}

// arrive makes births resident, and prefetches.
func (fetch) arrive(c *Cell, v demand.View, i int) error {
	born := c.change.Born
	prefetches := c.prefetches(i)
	c.arrived, c.step.Offered = born, born
	if prefetches && c.staging.swaps {
		if err := c.swapIn(i); err != nil {
			return err
		}
		c.step.Offered = c.offer(born)
	}
	for _, x := range born {
		c.state[x] = outside
	}
	c.size += c.weigh(born)
	if prefetches && !c.staging.swaps {
		c.staging.fill(c.state, i)
	}
	if c.staging.learns() {
		c.staging.learn(born, i, c.ranks)
	}
	return nil
}

// prefetches reports whether the cell prefetches for row i.
func (c *Cell) prefetches(i int) bool {
	return c.staging.source != setting.PrefetchNothing && i >= c.windows
}

// classify makes the misses resident. It does not count prefetched blocks as misses.
func (fetch) classify(c *Cell, v demand.View, i int) {
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

// keep removes the demanded blocks that overflow or that the policy bypasses.
func (fetch) keep(c *Cell, _ demand.View, _ int) error { return c.keepOut() }

// arrive makes the blocks resident that a staging buffer above dropped before the demand. The blocks
// that the cache above gives up arrive after it.
func (moveUp) arrive(c *Cell, _ demand.View, _ int) error {
	for _, x := range c.change.Returned {
		c.state[x] = outside
	}
	c.size += len(c.change.Returned)
	return nil
}

func (moveUp) classify(c *Cell, v demand.View, i int) {
	demand := v.Members(i)
	c.classify(demand)
	c.fetched = c.miss
	c.step = policies.Step{T: c.step.T, Demand: len(demand), Hit: c.hit, Miss: c.miss, Pass: demand, Offered: c.change.Returned}
	if c.needs != 0 {
		c.columns(v, i)
	}
}

// keep removes the demanded blocks and then makes the blocks resident that the cache above gave up.
func (moveUp) keep(c *Cell, v demand.View, i int) error {
	s := &c.step
	for _, x := range v.Members(i) {
		c.state[x] = absent
	}
	born := c.change.Born
	for _, x := range born {
		c.state[x] = outside
	}
	c.size += len(born) - len(c.hit)
	s.T, s.Demand, s.Hit, s.Miss, s.Pass, s.Offered = s.T+1, 0, nil, nil, nil, born
	c.Policy.Update(s)
	c.arrived = append(append(c.offered[:0], c.change.Returned...), born...)
	c.offered = c.arrived
	return nil
}

// report counts row i and calls the observer, if any. Without an observer it does not set the fields
// that only observers read.
func (c *Cell) report(v demand.View, i int, observer Observer) {
	if i < c.windows && observer == nil && !c.counter.pooled() {
		return
	}
	r := &c.last
	r.T, r.Positions = int32(i-c.windows), c.change.Positions
	r.Misses, r.Victims, r.Births, r.Overflow, r.Resident = c.fetched, c.victims, len(c.arrived), c.overflow, c.size
	c.addTraffic(r, v, i)
	if c.counter.pooled() {
		r.Stream = i % len(c.counter.streams)
		r.First, r.arrived, r.own = int32(r.Stream)*c.counter.stride, c.arrived, len(c.miss)-len(c.pass)
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
		c.passed = c.sorter.Sort(c.passed)
		r.KeptOut = c.passed
	}
	observer(r)
}
