package replay

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/trace"
)

// Delta is what changes in a stream's demand from step to step, derived once for all
// policies and capacities. With C ≥ |D_t| whatever stays in the demand hits, so only
// these changes need work. Row i is step T = i - Windows.
type Delta struct {
	Blocks    int // block ids are 0 … Blocks-1
	Rows      int // steps, windows included
	Windows   int
	MaxDemand int
	// PinnedPeak is the most blocks that are pinned at a counted step: sinks, local window, outliers.
	PinnedPeak int

	Size    []int32 // |D_t|
	Enter   lists   // D_t \ D_{t-1}; all of D_t in the first row
	Exit    lists   // D_{t-1} \ D_t
	Born    lists   // left the local window
	Members lists   // D_t, only if asked for
	Picked  []int32 // parallel to the items of Members: demanded entries in the block; only where blocks hold several

	Weight []int32 // entries that each unit takes; nil where blocks have one size

	// Next uses (policies.Step), only if asked for.
	ExitNext, BornNext []int32
	FirstUse           []int32 // of each block, from the first row

	stream     *trace.Stream
	pins       Pins
	lower      bool    // of a tier whose demand another cell makes
	joined     *joiner // that made the stream; nil for one as recorded
	pool       *pool   // whose rows these are; nil for one stream's
	first      int     // row of the stream that is row 0
	k, m       int
	cur, prev  []uint64 // demand as bitsets
	all        []uint64 // the whole list of the row being checked
	changed    []int32  // words in which they differ
	clusters   *clustering
	kept       []uint64 // outliers that are pinned for good; empty for none
	unlisted   int      // and those that no list names
	ones       []int32
	hasMembers bool
}

// deltaOptions say what of a stream is replayed.
type deltaOptions struct {
	k, m    int // demand and candidates, in blocks
	pins    Pins
	meta    *trace.Meta
	windows int // warm-up rows to replay
	members bool
	nexts   bool
	joined  *joiner // that made the stream; nil for one as recorded

	outliers Outliers
	clusters *clustering // units of unequal sizes; nil for blocks
}

// build derives the delta of s, whose lists the reader has not checked: every rule of
// a list is checked here, in the pass that is made anyway. It keeps s until the next build.
func (d *Delta) build(s *trace.Stream, o deltaOptions, check *trace.Checker) error {
	d.reset(s, &o)
	for i := range d.first { // not replayed, but a broken row anywhere is no basis for a score
		list := s.List(i)
		if n := d.prefix(i, list); !d.load(list, n, d.blocks(s.SeqLen(i)), o.meta) || population(d.cur) != n {
			return brokenList(s, check)
		}
	}
	for i := range d.Rows {
		if !d.addDemand(i, o.meta) {
			return brokenList(s, check)
		}
		d.addBirths(i)
		if i >= d.Windows {
			d.PinnedPeak = max(d.PinnedPeak, d.pinnedBlocks(i))
		}
	}
	if o.nexts {
		d.nextUses()
	}
	return nil
}

// reset starts a stream: no row is there yet.
func (d *Delta) reset(s *trace.Stream, o *deltaOptions) {
	d.stream, d.joined, d.pins, d.k, d.m = s, o.joined, o.pins, o.k, o.m
	d.first = s.Windows - o.windows
	d.Rows, d.Windows, d.MaxDemand, d.PinnedPeak = s.Rows-d.first, o.windows, 0, 0
	d.Blocks, d.Weight, d.clusters = o.pins.blocks(s.MaxSeqLen()), nil, o.clusters
	if o.clusters != nil {
		d.Blocks, d.Weight = len(o.clusters.tokens), o.clusters.weight
	}
	d.hasMembers = o.members || d.weighed()
	d.Picked = d.Picked[:0]
	d.Size = d.Size[:0]
	for _, l := range []*lists{&d.Enter, &d.Exit, &d.Born, &d.Members} {
		l.reset()
	}
	words := d.Blocks>>6 + 1
	d.cur, d.prev = policies.Fill(d.cur, words, 0), policies.Fill(d.prev, words, 0)
	d.all = policies.Fill(d.all, words, 0)
	d.keepOutliers(o.outliers, o.pins.firstFree(), o.pins.firstLocal(int(s.PromptLen)))
}

// addDemand appends what row i demands, and reports whether its list breaks no rule.
func (d *Delta) addDemand(i int, m *trace.Meta) bool {
	row := d.first + i
	seqLen, list := d.stream.SeqLen(row), d.stream.List(row)
	n := d.prefix(row, list)
	if !d.load(list, n, d.blocks(seqLen), m) {
		return false
	}
	free, local := d.pins.firstFree(), d.pins.firstLocal(seqLen)
	if d.clusters != nil {
		free, local = 0, d.Blocks // what is pinned of a cluster was left out when it was joined
	}
	if !d.extract(free, local, n) {
		return false
	}
	if d.weighed() {
		d.Picked = d.joined.pickedIn(row, d.Members.Row(i), d.Picked)
	}
	return true
}

// addBirths appends what left the local window with row i; outliers are never born.
func (d *Delta) addBirths(i int) {
	row, born := d.first+i, &d.Born
	seqLen := d.stream.SeqLen(row)
	before := seqLen - 1
	if i > 0 {
		before = d.stream.SeqLen(row - 1)
	} else if d.joined != nil {
		before = seqLen - int(d.joined.span[row])
	}
	if d.clusters != nil {
		born.items = d.clusters.births(born.items, d.pins, before, seqLen)
	} else {
		born.items = d.pins.appendBirths(born.items, before, seqLen)
	}
	if len(d.kept) > 0 {
		from := int(born.ends[i])
		born.items = born.items[:from+len(slices.DeleteFunc(born.items[from:], d.isKept))]
	}
	born.close()
}
