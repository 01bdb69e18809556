package cache

import (
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// StepReport is one step of one cell on one stream, warm-up included. Slices belong
// to the engine and are valid until the observer returns.
type StepReport struct {
	T         int32 // policies.Step.T
	Step      int32 // the trace's step
	Stream    int   // number of the row's stream in its pool, 0 without a pool
	First     int32 // the first block of the stream: its block b is First + b
	Demand    int
	Misses    []int32 // ascending, without prefetched blocks
	Births    int
	Victims   []int32 // blocks evicted at the end of the step, in the policy's order
	KeptOut   []int32 // members of D_t not kept because of overflow or bypass, ascending
	Overflow  int
	Resident  int   // resident blocks of the stream after the step, without pinned ones
	Pinned    int   // pinned blocks
	Positions int   // decoded positions
	Moved     int64 // entries fetched, by prefetch or on demand

	Prefetched Prefetched

	// DemandEntries and MissedEntries count the entries of D_t and of its misses. They are 0 if a
	// block holds one entry.
	DemandEntries, MissedEntries int64

	// Lost lists the demanded blocks that a lossy policy dropped, ascending. KeptMass and
	// CoveredMass are the masses of the step, as in Counts.
	Lost                  []int32
	KeptMass, CoveredMass int64

	staged  int64   // entries that were demanded and not kept
	own     int     // change of the stream's resident blocks that comes from its demand
	arrived []int32 // blocks that arrived for other reasons
}

// Observer sees every step of a cell. It may be nil.
type Observer func(*StepReport)

// addTraffic sets the numbers of entries that the step fetches and stages. A step fetches whole
// blocks. With an Admitter, it fetches the missed entries and stages them. It also fetches the
// whole block if the block is kept.
func (c *Cell) addTraffic(r *StepReport, v demand.View, i int) {
	r.staged = int64(c.weigh(c.pass)) * c.unit
	r.Moved = int64(c.weigh(c.fetched)) * c.unit
	if c.picked {
		if r.DemandEntries, r.MissedEntries = 0, 0; c.admits {
			r.Moved, r.staged = 0, 0
		}
		blocks, picked := c.change.Enter, c.change.EnterPicked
		if !c.entered {
			blocks, picked = v.Members(i), v.Picked(i)
		}
		c.addEntries(r, blocks, picked)
	}
	if c.staging.source != setting.PrefetchNothing {
		r.Prefetched = c.staging.counts
		r.Moved += r.Prefetched.Moved * c.unit
	}
}

// addEntries counts entries if blocks hold several. blocks include the misses, and picked is the
// number of demanded entries in each.
func (c *Cell) addEntries(r *StepReport, blocks, picked []int32) {
	r.DemandEntries = c.change.Entries
	held := c.held
	for j, x := range blocks {
		held[x] = picked[j]
	}
	for _, x := range c.fetched {
		n := int64(held[x])
		r.MissedEntries += n
		if !c.admits {
			continue
		}
		r.Moved += n
		r.staged += n
		if c.state[x] == demanded {
			r.Moved += c.unit
		}
	}
}

// Counts are the sums of a cell's counted steps. They are integers, so that pooling is
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
	Positions    int64 `json:"Made"` // decoded positions
	Picked       int64 // entries demanded, 0 if a block holds one entry
	Missed       int64 // entries of Picked that were absent
	Moved        int64 // entries fetched
	StagingPeak  int64 // largest number of entries in a step that were demanded and not kept
	PinnedPeak   int64 // largest number of pinned entries of a stream: sinks, local window, outliers

	Prefetched, PrefetchUseful, PrefetchLate, PrefetchUseless int64 // blocks, as in type Prefetched

	// Lost counts the demanded blocks that a lossy policy dropped. KeptMass is the attention mass
	// of the listed blocks that were not dropped, CoveredMass that of all listed blocks. Masses
	// are in units of 1/MassUnit.
	Lost, KeptMass, CoveredMass int64
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
	c.Positions += o.Positions
	c.Picked += o.Picked
	c.Missed += o.Missed
	c.Moved += o.Moved
	c.StagingPeak = max(c.StagingPeak, o.StagingPeak)
	c.PinnedPeak = max(c.PinnedPeak, o.PinnedPeak)
	c.Prefetched += o.Prefetched
	c.PrefetchUseful += o.PrefetchUseful
	c.PrefetchLate += o.PrefetchLate
	c.PrefetchUseless += o.PrefetchUseless
	c.Lost += o.Lost
	c.KeptMass += o.KeptMass
	c.CoveredMass += o.CoveredMass
}

// counter adds up the steps of a cell. In a pool, it counts the demand, misses and entries of a row
// for the row's stream. It counts births, victims and resident blocks for the streams to which the
// blocks belong.
type counter struct {
	streams []Counts // one for each stream that shares the cache
	stride  int32
	divide  demand.Divider // by stride
	size    []int          // number of resident blocks of each stream, in a pool
	peak    int64          // largest number of resident blocks of all streams together, in a pool
}

func (n *counter) reset(x *demand.Dims, unit int64, placed []int32) {
	n.streams, n.stride = policies.Fill(n.streams, x.Streams, Counts{Streams: 1}), x.Stride
	n.divide = demand.DivideBy(max(1, int(x.Stride)))
	for i, blocks := range x.PinnedPeaks {
		n.streams[i].PinnedPeak = int64(blocks) * unit
	}
	n.size, n.peak = policies.Fill(n.size, x.Streams, 0), 0
	for _, b := range placed {
		n.size[n.owner(b)]++
	}
}

func (n *counter) pooled() bool      { return len(n.streams) > 1 }
func (n *counter) owner(b int32) int { return int(n.divide.Quotient(uint32(b))) }

// observe adds a step. In a pool it sets r.Resident to the resident blocks of the row's stream.
func (n *counter) observe(r *StepReport) {
	evicted, born := len(r.Victims), r.Births
	if n.pooled() {
		n.share(r)
		evicted, born = 0, 0
	}
	if r.T < 0 {
		return
	}
	c := &n.streams[r.Stream]
	c.Steps++
	c.Demand += int64(r.Demand)
	c.Misses += int64(len(r.Misses))
	c.Evictions += int64(evicted)
	c.Births += int64(born)
	c.Overflow += int64(r.Overflow)
	c.ResidentSum += int64(r.Resident)
	c.ResidentPeak = max(c.ResidentPeak, int64(r.Resident))
	c.Positions += int64(r.Positions)
	c.Picked += r.DemandEntries
	c.Missed += r.MissedEntries
	c.Moved += r.Moved
	c.StagingPeak = max(c.StagingPeak, r.staged)
	c.Prefetched += r.Prefetched.Moved
	c.PrefetchUseful += r.Prefetched.Useful
	c.PrefetchLate += r.Prefetched.Late
	c.Lost += int64(len(r.Lost))
	c.KeptMass += r.KeptMass
	c.CoveredMass += r.CoveredMass
}

// share counts arriving and leaving blocks for the streams to which they belong.
func (n *counter) share(r *StepReport) {
	counted := int64(0)
	if r.T >= 0 {
		counted = 1
		n.peak = max(n.peak, int64(r.Resident))
	}
	n.size[r.Stream] += r.own
	for _, b := range r.arrived {
		owner := n.owner(b)
		n.size[owner]++
		n.streams[owner].Births += counted
	}
	for _, b := range r.Victims {
		owner := n.owner(b)
		n.size[owner]--
		n.streams[owner].Evictions += counted
	}
	r.Resident = n.size[r.Stream]
}

// finish ends a run and returns the counts of the first stream. A prefetched block that no step
// demanded counts as useless, even if it is still in the buffer.
func (n *counter) finish() Counts {
	c := &n.streams[0]
	c.PrefetchUseless = c.Prefetched - c.PrefetchUseful
	return *c
}
