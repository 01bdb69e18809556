package demand

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// View is the demand that one cache sees, row by row. Row i is step T = i - Windows. Lists
// of blocks ascend unless their method says otherwise. They are valid until the next call.
//
// There are three views. A Delta is a single stream, as recorded or joined from several
// lists. A pool is the streams that share a cache. A pushed view is the demand of a lower
// tier, made by the cache above it.
type View interface {
	// Bounds is what is the same in every row.
	Bounds() *Extent
	// Change sets c to what row i changes.
	Change(i int, c *Change)
	// Members is D_t, the blocks that row i demands after pins. It needs Extent.HasMembers.
	Members(i int) []int32
	// Ranked is the list of row i up to K, best first, pinned blocks included.
	Ranked(i int) []int32
	// Candidates are the ranks that policies may fetch or keep beyond the demand, best first.
	Candidates(i int) []int32
	// Listed is the whole list of row i up to M, best first: in a pool those of all streams.
	Listed(i int) []int32
	// Scored is the whole list of row i, best first, and its scores, nil if the trace has none.
	Scored(i int) ([]int32, []float32)
	// Picked is parallel to Members: the demanded entries in each block. It needs
	// Extent.HasPicked.
	Picked(i int) []int32
	// Pinned is the number of pinned blocks.
	Pinned(i int) int
	// Step is the trace's step of row i.
	Step(i int) int32
}

// Recorded is the View of streams of a trace: a Delta, or a pool.
type Recorded interface {
	View
	// deltas are the streams that share the cache.
	deltas() []*Delta
}

// Change is what one row of a View changes.
type Change struct {
	Demand    int // |D_t|
	Positions int // that the row decodes
	// Enter is D_t \ D_{t-1}, and all of D_t in the first row. Exit is D_{t-1} \ D_t.
	Enter, Exit []int32
	// Born are the blocks that arrive without being demanded: they left the local window. For
	// an exclusive tier they are the blocks that the tier above gave up, in that order.
	Born []int32
	// EnterPicked is parallel to Enter: the demanded entries in each block. Entries is the number of
	// demanded entries. They need Extent.HasPicked.
	EnterPicked []int32
	Entries     int64
	// ExitNext and BornNext are the steps of the next demands, parallel to Exit and Born. A view
	// that was built without next uses has none.
	ExitNext, BornNext []int32
}

// Extent is what the rows of a View have in common.
type Extent struct {
	Blocks    int // block ids are 0 … Blocks-1
	Rows      int // steps, windows included
	Windows   int
	MaxDemand int

	// Streams share the cache: row i belongs to stream i mod Streams, whose blocks are
	// Stride × stream … Stride × (stream+1) - 1. PinnedPeaks are the most blocks of each
	// stream that are pinned at a counted step: sinks, local window, outliers.
	Streams     int
	Stride      int32
	PinnedPeaks []int

	Weight     []int32 // entries that each unit takes. Nil if all units have one size
	FirstUse   []int32 // step of each block's first demand, if the view was built with next uses
	HasMembers bool
	HasPicked  bool // blocks hold several entries
}

// Bounds makes types that embed an Extent return it.
func (x *Extent) Bounds() *Extent { return x }

// nexts are the steps of the next demands of a view's blocks.
type nexts struct {
	known      bool
	exit, born lists
}

// fill computes the next uses of v from its last row to its first. A block that leaves the
// demand is next demanded in the row that it enters next.
func (n *nexts) fill(v View) {
	x := v.Bounds()
	n.known = false
	next := policies.Fill(x.FirstUse, x.Blocks, policies.Never)
	x.FirstUse = next
	n.exit.reset()
	n.born.reset()
	var c Change
	for i := range x.Rows {
		v.Change(i, &c)
		n.exit.take(len(c.Exit))
		n.born.take(len(c.Born))
	}
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
			born[j] = next[b] // t itself if it is demanded at once
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

// lists are lists of blocks, one a row, in one array.
type lists struct {
	items []int32
	ends  []int32 // ends[i] is where row i-1 ends, len = rows+1
}

func (l *lists) reset() { l.items, l.ends = l.items[:0], append(l.ends[:0], 0) }
func (l *lists) close() { l.ends = append(l.ends, int32(len(l.items))) }

// free returns at least n items of room behind the last row.
func (l *lists) free(n int) []int32 {
	l.items = grow(l.items, n)
	return l.items[len(l.items):cap(l.items)]
}

// grow makes room for n more items. It doubles the memory of a list that has none left.
func grow(items []int32, n int) []int32 {
	if cap(items)-len(items) < n {
		items = slices.Grow(items, max(n, cap(items)))
	}
	return items
}

// take makes the next n items a row.
func (l *lists) take(n int) {
	l.free(n)
	l.items = l.items[:len(l.items)+n]
	l.close()
}

// Row returns row i's list.
func (l *lists) Row(i int) []int32 { return l.items[l.ends[i]:l.ends[i+1]] }
