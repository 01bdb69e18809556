package replay

// Counts are what a cell counts over counted steps. They are integers, so pooling is
// exact in any order.
type Counts struct {
	Streams      int64
	Steps        int64
	Demand       int64
	Misses       int64
	Evictions    int64
	Births       int64
	Overflow     int64
	ResidentSum  int64 // blocks resident after each step, summed
	ResidentPeak int64
	Made         int64 // positions decoded
	Picked       int64 // entries demanded, Missed of them absent; where blocks hold several (Delta.Picked)
	Missed       int64
	Moved        int64 // entries fetched
	StagingPeak  int64 // most entries of a step that were demanded and not kept
	PinnedPeak   int64 // most entries of a stream that are pinned: sinks, local window, outliers

	Prefetched, PrefetchUseful, PrefetchLate, PrefetchUseless int64 // blocks (Prefetch)

	// Of lossy policies: demanded blocks that were dropped, and attention mass in parts of
	// 2⁻³², summed over steps: of listed blocks that were still there, and of all listed.
	Lost, KeptMass, CoveredMass int64
}

// addMoved counts what a step carried over the link.
func (c *Counts) addMoved(m *moved) {
	c.Picked += m.picked
	c.Missed += m.missed
	c.Moved += m.fetched + m.ahead
	c.StagingPeak = max(c.StagingPeak, m.staged)
}

// addPrefetched counts what a step fetched ahead.
func (c *Counts) addPrefetched(p *prefetched) {
	c.Prefetched += p.moved
	c.PrefetchUseful += p.useful
	c.PrefetchLate += p.late
	c.PrefetchUseless += p.useless
}

// Add pools o into c.
func (c *Counts) Add(o *Counts) {
	c.Streams += o.Streams
	c.Steps += o.Steps
	c.Demand += o.Demand
	c.Misses += o.Misses
	c.Evictions += o.Evictions
	c.Births += o.Births
	c.Overflow += o.Overflow
	c.ResidentSum += o.ResidentSum
	c.ResidentPeak = max(c.ResidentPeak, o.ResidentPeak)
	c.Made += o.Made
	c.Picked += o.Picked
	c.Missed += o.Missed
	c.Moved += o.Moved
	c.StagingPeak = max(c.StagingPeak, o.StagingPeak)
	c.PinnedPeak = max(c.PinnedPeak, o.PinnedPeak)
	c.Lost += o.Lost
	c.KeptMass += o.KeptMass
	c.CoveredMass += o.CoveredMass
	c.addPrefetched(&prefetched{o.Prefetched, o.PrefetchUseful, o.PrefetchLate, o.PrefetchUseless})
}

// StepReport is one step of one cell on one stream, warm-up included. Slices belong
// to the engine and are valid until the observer returns.
type StepReport struct {
	T        int32 // as policies.Step.T
	Step     int32 // the trace's step
	Stream   int   // of those that share the cache, whose row it is; 0 for one alone
	First    int32 // its first block: block b of the stream is First + b
	Demand   int
	Misses   []int32 // ascending; what was prefetched is none
	Births   int
	Victims  []int32 // blocks evicted at the end of the step, in the policy's order
	KeptOut  []int32 // members of D_t not kept: overflow or bypass, ascending
	Overflow int
	Resident int   // blocks of the stream after the step, pinned ones not counted
	Pinned   int   // pinned blocks
	Made     int   // positions decoded
	Moved    int64 // entries fetched, ahead or on demand

	Prefetched prefetched

	// DemandEntries and MissedEntries are entries of D_t and of what of it was missed; 0
	// where blocks hold one.
	DemandEntries, MissedEntries int64

	// Of lossy policies: the demanded blocks that were dropped, ascending, and the step's
	// masses as in Counts.
	Lost                  []int32
	KeptMass, CoveredMass int64
}

// Observer sees every step of a cell; nil where nobody looks.
type Observer func(*StepReport)
