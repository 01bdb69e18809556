package demand

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// View is the demand on one cache, row by row. Row i is step T = i - Windows. Lists of blocks
// ascend unless their method says otherwise. They are valid until the next call.
//
// Five types are views. A Delta is a single stream, as recorded or joined from several lists. A
// Pool is the streams that share a cache. A Followed and a Tracked are the same with the changes of each
// stream. A Pushed is the demand on a lower tier, made by the cache above it.
type View interface {
	// Size returns the properties that all rows share.
	Size() *Dims
	// Change sets c to the changes from row i-1 to row i.
	Change(i int, c *Change)
	// Members returns D_t, the blocks that row i demands, without pinned ones. It needs
	// Dims.HasMembers.
	Members(i int) []int32
	// Ranked returns the first K blocks of row i's list, best first, with pinned blocks.
	Ranked(i int) []int32
	// Candidates returns the blocks that policies may fetch or keep beyond the demand, best first.
	Candidates(i int) []int32
	// Listed returns the list of row i up to M, best first. In a pool it merges the lists of all
	// streams.
	Listed(i int) []int32
	// Scored returns the list of row i up to M, best first, and its scores. The scores are nil if
	// the trace has none.
	Scored(i int) ([]int32, []float32)
	// Picked returns the number of demanded entries in each block of Members. It needs
	// Dims.HasPicked.
	Picked(i int) []int32
	// Pinned returns the number of pinned blocks at row i.
	Pinned(i int) int
	// Step returns the trace's step of row i.
	Step(i int) int32
}

// Recorded is the View of streams of a trace: a Delta or a Pool.
type Recorded interface {
	View
	// deltas returns the streams that share the cache.
	deltas() []*Delta
}

// Change is the difference of a row of a View from the row before.
type Change struct {
	Demand    int // |D_t|
	Positions int // number of positions that the row decodes
	// Enter is D_t \ D_{t-1}, and all of D_t in the first row. Exit is D_{t-1} \ D_t.
	Enter, Exit []int32
	// Born lists the blocks that arrive without being demanded, because they left the local
	// window. For an exclusive tier, Born lists the blocks that the cache above gave up, in the
	// order in which they left.
	Born []int32
	// Returned lists the blocks that arrive in an exclusive tier before the demand, because a staging
	// buffer dropped them. They ascend.
	Returned []int32
	// EnterPicked is the number of demanded entries in each block of Enter. Entries is the number
	// of demanded entries of the row. Both need Dims.HasPicked.
	EnterPicked []int32
	Entries     int64
	// ExitNext and BornNext are the steps at which the blocks of Exit and Born are demanded next.
	// They are nil if the view was built without next uses.
	ExitNext, BornNext []int32
}

// Dims are the properties that all rows of a View share.
type Dims struct {
	Blocks    int // block ids are 0 … Blocks-1
	Rows      int // steps, windows included
	Windows   int
	MaxDemand int

	// Streams is the number of streams that share the cache. Row i belongs to stream
	// s = i mod Streams, whose blocks are Stride × s … Stride × (s+1) - 1. PinnedPeaks is, by
	// stream, the largest number of blocks that are pinned at a counted step.
	Streams     int
	Stride      int32
	PinnedPeaks []int

	Weight     []int32 // capacity that each unit takes, in entries. Nil if all units have one size
	FirstUse   []int32 // step of each block's first demand. Nil if the view was built without next uses
	HasMembers bool
	HasPicked  bool // blocks hold several entries
}

// Size returns x. It implements View for types that embed Dims.
func (x *Dims) Size() *Dims { return x }

// nexts holds the steps of the next demands of a view's blocks.
type nexts struct {
	known      bool
	exit, born lists
}

// fill computes the next uses of v from its last row to its first. A block that leaves the demand
// is next demanded when it enters the demand again.
func (n *nexts) fill(v View) {
	x := v.Size()
	n.known = false
	next := policies.Fill(x.FirstUse, x.Blocks, policies.Never)
	x.FirstUse = next
	n.exit.reset()
	n.born.reset()
	var c Change
	for i := range x.Rows {
		v.Change(i, &c)
		n.exit.reserve(len(c.Exit))
		n.born.reserve(len(c.Born))
	}
	n.exit.allocate()
	n.born.allocate()
	for i := x.Rows - 1; i >= 0; i-- {
		v.Change(i, &c)
		exit := n.exit.Row(i)
		for j, b := range c.Exit {
			exit[j] = next[b]
		}
		t := int32(i - x.Windows)
		if t < 0 {
			t = policies.Never
		}
		for _, b := range c.Enter {
			next[b] = t
		}
		born := n.born.Row(i)
		for j, b := range c.Born {
			born[j] = next[b] // t if this row demands it
		}
	}
	n.known = true
}

// add sets the next uses in the changes of row i.
func (n *nexts) add(i int, c *Change) {
	if n.known {
		c.ExitNext, c.BornNext = n.exit.Row(i), n.born.Row(i)
	}
}

// lists holds one list of blocks per row, in one array.
type lists struct {
	items []int32
	ends  []int32 // ends[i] is the end of row i-1 in items. It has one more element than rows
}

func (l *lists) reset() { l.items, l.ends = l.items[:0], append(l.ends[:0], 0) }
func (l *lists) close() { l.ends = append(l.ends, int32(len(l.items))) }

// free returns room for at least n items behind the last row.
func (l *lists) free(n int) []int32 {
	l.items = grow(l.items, n)
	return l.items[len(l.items):cap(l.items)]
}

// grow makes room for n more items. If the room does not suffice, grow at least doubles it.
func grow(items []int32, n int) []int32 {
	if cap(items)-len(items) < n {
		items = slices.Grow(items, max(n, cap(items)))
	}
	return items
}

// take makes a row of the next n items.
func (l *lists) take(n int) {
	l.free(n)
	l.items = l.items[:len(l.items)+n]
	l.close()
}

// reserve makes a row of n items that have no memory before allocate is called.
func (l *lists) reserve(n int) { l.ends = append(l.ends, l.ends[len(l.ends)-1]+int32(n)) }

// allocate makes the memory of all reserved rows at once.
func (l *lists) allocate() {
	n := int(l.ends[len(l.ends)-1])
	l.items = slices.Grow(l.items, n)[:n]
}

// Row returns row i's list.
func (l *lists) Row(i int) []int32 { return l.items[l.ends[i]:l.ends[i+1]] }
