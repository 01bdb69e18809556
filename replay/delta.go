package replay

import (
	"math/bits"
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

	stream      *trace.Stream
	pins        Pins
	lower       bool    // of a tier whose demand another cell makes
	joined      *joiner // that made the stream; nil for one as recorded
	pool        *pool   // whose rows these are; nil for one stream's
	first       int     // row of the stream that is row 0
	k, m        int
	cur, prev   []uint64 // demand as bitsets
	all         []uint64 // the whole list of the row being checked
	changed     []int32  // words in which they differ
	clusters    *clustering
	kept        []uint64 // outliers that are pinned for good; empty for none
	unlisted    int      // and those that no list names
	ones        []int32
	hasMembers  bool
	hasNextUses bool
}

// lists are ascending lists of blocks, one a row, in one array.
type lists struct {
	items []int32
	ends  []int32 // ends[i] is where row i-1 ends; len = rows+1
}

func (l *lists) reset() { l.items, l.ends = l.items[:0], append(l.ends[:0], 0) }
func (l *lists) close() { l.ends = append(l.ends, int32(len(l.items))) }

// free returns at least n items of room behind the last row; take makes the first n
// of them the next row.
func (l *lists) free(n int) []int32 {
	if cap(l.items)-len(l.items) < n {
		l.items = slices.Grow(l.items, max(n, cap(l.items)))
	}
	return l.items[len(l.items):cap(l.items)]
}

func (l *lists) take(n int) {
	l.items = l.items[:len(l.items)+n]
	l.close()
}

// Row returns row i's list.
func (l *lists) Row(i int) []int32 { return l.items[l.ends[i]:l.ends[i+1]] }

// Candidates are the ranks K … M-1 of row i, best first. What a lower tier is not asked
// for may have any rank.
func (d *Delta) Candidates(i int) []int32 {
	if d.pool != nil {
		return d.pool.candidates(i, d.lower)
	}
	list := d.stream.List(d.first + i)
	if d.lower {
		return list[:d.listed(list)]
	}
	return list[d.prefix(d.first+i, list):d.listed(list)]
}

// scored is row i's list up to M with its scores, nil where the trace has none.
func (d *Delta) scored(i int) ([]int32, []float32) {
	if d.pool != nil {
		m, row := d.pool.at(i)
		list, scores := m.scored(row)
		return d.pool.raised(i, list), scores
	}
	list, scores := d.stream.List(d.first+i), d.stream.ScoreList(d.first+i)
	n := d.listed(list)
	if scores == nil {
		return list[:n], nil
	}
	return list[:n], scores[:n]
}

// ranked is the list of row i up to K, pinned blocks included.
func (d *Delta) ranked(i int) []int32 {
	if d.pool != nil {
		m, row := d.pool.at(i)
		return d.pool.raised(i, m.ranked(row))
	}
	list := d.stream.List(d.first + i)
	return list[:d.prefix(d.first+i, list)]
}

// prefix is how much of the stream's list at row is demanded.
func (d *Delta) prefix(row int, list []int32) int {
	if d.joined != nil {
		return int(d.joined.demand[row])
	}
	return min(d.k, len(list))
}

// listed is how much of a list policies may see.
func (d *Delta) listed(list []int32) int {
	if d.joined != nil {
		return len(list) // cut when it was joined
	}
	return min(d.m, len(list))
}

// Made is the number of positions that row i decodes.
func (d *Delta) Made(i int) int64 {
	if d.pool != nil {
		m, row := d.pool.at(i)
		return m.Made(row)
	}
	if d.joined != nil {
		return int64(d.joined.made[d.first+i])
	}
	return 1
}

// step is the trace's step of row i.
func (d *Delta) step(i int) int32 {
	if d.pool != nil {
		d, i = d.pool.at(i)
	}
	return d.stream.Steps[d.first+i]
}

// weighed reports whether blocks hold several entries that a list may name apart.
func (d *Delta) weighed() bool { return d.joined != nil && !d.lower && d.joined.weighed() }

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

// picked are the demanded entries of each of row i's members: one where blocks hold one.
func (d *Delta) picked(i int) []int32 {
	from, to := d.Members.ends[i], d.Members.ends[i+1]
	if d.weighed() {
		return d.Picked[from:to]
	}
	for int(to-from) > len(d.ones) {
		d.ones = append(d.ones, 1)
	}
	return d.ones[:to-from]
}

// build derives the delta of s, whose lists the reader has not checked: every rule of
// a list is checked here, in the pass that is made anyway. It keeps s until the next build.
func (d *Delta) build(s *trace.Stream, o deltaOptions, check *trace.Checker) error {
	d.stream, d.joined, d.pins, d.k, d.m = s, o.joined, o.pins, o.k, o.m
	d.first = s.Windows - o.windows
	d.Rows, d.Windows, d.MaxDemand, d.PinnedPeak = s.Rows-d.first, o.windows, 0, 0
	d.Blocks, d.Weight, d.clusters = o.pins.blocks(s.MaxSeqLen()), nil, o.clusters
	if o.clusters != nil {
		d.Blocks, d.Weight = len(o.clusters.tokens), o.clusters.weight
	}
	d.hasMembers, d.hasNextUses = o.members || d.weighed(), o.nexts
	d.Picked = d.Picked[:0]
	d.Size = d.Size[:0]
	for _, l := range []*lists{&d.Enter, &d.Exit, &d.Born, &d.Members} {
		l.reset()
	}
	words := d.Blocks>>6 + 1
	d.cur, d.prev = policies.Fill(d.cur, words, 0), policies.Fill(d.prev, words, 0)
	d.all = policies.Fill(d.all, words, 0)
	d.keepOutliers(o.outliers, o.pins.firstFree(), o.pins.firstLocal(int(s.PromptLen)))
	for i := range d.first { // not replayed, but a broken row anywhere is no basis for a score
		list := s.List(i)
		if n := d.prefix(i, list); !d.load(list, n, d.blocks(s.SeqLen(i)), o.meta) || population(d.cur) != n {
			return brokenList(s, check)
		}
	}
	for i := range d.Rows {
		row := d.first + i
		seqLen, list := s.SeqLen(row), s.List(row)
		n := d.prefix(row, list)
		if !d.load(list, n, d.blocks(seqLen), o.meta) {
			return brokenList(s, check)
		}
		free, local := o.pins.firstFree(), o.pins.firstLocal(seqLen)
		if d.clusters != nil {
			free, local = 0, d.Blocks // what is pinned of a cluster was left out when it was joined
		}
		if !d.extract(free, local, n) {
			return brokenList(s, check)
		}
		if d.weighed() {
			d.Picked = d.joined.pickedIn(row, d.Members.Row(i), d.Picked)
		}
		before := seqLen - 1
		if i > 0 {
			before = s.SeqLen(row - 1)
		} else if d.joined != nil {
			before = seqLen - int(d.joined.span[row])
		}
		if d.clusters != nil {
			d.Born.items = d.clusters.births(d.Born.items, o.pins, before, seqLen)
		} else {
			d.Born.items = o.pins.appendBirths(d.Born.items, before, seqLen)
		}
		if len(d.kept) > 0 {
			born := d.Born.items[d.Born.ends[i]:]
			d.Born.items = d.Born.items[:int(d.Born.ends[i])+len(slices.DeleteFunc(born, d.isKept))]
		}
		d.Born.close()
		if i >= d.Windows {
			d.PinnedPeak = max(d.PinnedPeak, d.pinnedBlocks(i))
		}
	}
	if o.nexts {
		d.nextUses()
	}
	return nil
}

// blocks is the number of block ids in a context of seqLen tokens; of clusters all, as
// they are joined from lists that were checked.
func (d *Delta) blocks(seqLen int) int {
	if d.clusters != nil {
		return d.Blocks
	}
	return d.pins.blocks(seqLen)
}

func population(set []uint64) (n int) {
	for _, w := range set {
		n += bits.OnesCount64(w)
	}
	return n
}

// brokenList names the rule that a list breaks.
func brokenList(s *trace.Stream, check *trace.Checker) error {
	if e := check.First(s); e != nil {
		return e
	}
	panic("replay: the delta refused a list that breaks no rule")
}

// load sets d.cur to the first n of a row's list, its demand, and reports whether the
// list breaks no rule but distinctness of those n, which extract counts: not empty, no
// longer than the metadata's M, in range [0, blocks), candidates distinct, ascending
// where the metadata says so. A joined list may be longer.
func (d *Delta) load(list []int32, n, blocks int, m *trace.Meta) bool {
	if len(list) == 0 && d.clusters == nil || len(list) > m.Candidates && d.joined == nil || m.Order == trace.OrderIndex && !slices.IsSorted(list) {
		return false
	}
	cur := d.cur
	clear(cur)
	head := list[:n]
	if !mark(cur, head) {
		return false
	}
	if len(head) == len(list) {
		return noneFrom(cur, blocks)
	}
	return d.soundTail(list[len(head):], blocks)
}

// mark adds the list to the set and reports whether it has room for all, which it has
// not for negative indices.
func mark(set []uint64, list []int32) bool {
	for _, x := range list {
		w := int(uint32(x) >> 6)
		if w >= len(set) {
			return false
		}
		set[w] |= 1 << (uint32(x) & 63)
	}
	return true
}

// noneFrom reports whether the set has no member from blocks on. The bitsets cover
// the stream's last context; earlier ones are shorter.
func noneFrom(set []uint64, blocks int) bool {
	w := blocks >> 6
	if w >= len(set) {
		return true
	}
	past := set[w] >> (blocks & 63)
	for _, c := range set[w+1:] {
		past |= c
	}
	return past == 0
}

// soundTail checks the candidates against the context, the demand in d.cur and each
// other, and the demand against the context.
func (d *Delta) soundTail(rest []int32, blocks int) bool {
	all := d.all[:len(d.cur)]
	copy(all, d.cur)
	var twice uint64
	for _, x := range rest {
		w, bit := uint32(x)>>6, uint64(1)<<(uint32(x)&63)
		if w >= uint32(len(all)) {
			return false
		}
		twice |= all[w] & bit
		all[w] |= bit
	}
	return twice == 0 && noneFrom(all, blocks)
}

// extract takes the pinned blocks out of d.cur, appends what entered and left
// against the row before, and makes d.cur the row before. It reports whether d.cur
// had as many members as the list that it was loaded from, n.
func (d *Delta) extract(firstFree, firstLocal, n int) bool {
	cur := d.cur
	prev := d.prev[:len(cur)]
	pinned := unpin(cur, firstFree, firstLocal)
	if len(d.kept) > 0 {
		pinned += d.unpinKept(cur)
	}
	before := 0
	if rows := len(d.Size); rows > 0 {
		before = int(d.Size[rows-1])
	}
	enter, exit := d.Enter.free(n+2), d.Exit.free(before+2)
	a, b := 0, 0
	for _, w := range d.differing(cur, prev) {
		c, p := cur[w], prev[w]
		a += appendBits(enter[a:], w<<6, c&^p)
		b += appendBits(exit[b:], w<<6, p&^c)
	}
	size := before + a - b
	d.Enter.take(a)
	d.Exit.take(b)
	if d.hasMembers {
		members, k := d.Members.free(size+2), 0
		for w, c := range cur {
			k += appendBits(members[k:], int32(w<<6), c)
		}
		d.Members.take(k)
	}
	d.Size = append(d.Size, int32(size))
	d.MaxDemand = max(d.MaxDemand, size)
	d.cur, d.prev = d.prev, d.cur
	return size+pinned == n
}

// differing returns the words in which two sets of one length differ. Whether the next
// word does is as good as random, so every word is written down and most are written over.
func (d *Delta) differing(a, b []uint64) []int32 {
	b = b[:len(a)]
	d.changed = slices.Grow(d.changed[:0], len(a)+1)
	changed := d.changed[:len(a)+1]
	n := 0
	for w, x := range a {
		x ^= b[w]
		changed[n] = int32(w)
		n += int((x | -x) >> 63)
	}
	return changed[:n]
}

// appendBits writes base plus the position of each bit of set to dst, which has two
// places to spare, and returns their number. Two are written before they are known
// to be there: a word with at most two costs no mispredicted branch.
func appendBits(dst []int32, base int32, set uint64) int {
	n := bits.OnesCount64(set)
	two := (*[2]int32)(dst)
	two[0] = base | int32(bits.TrailingZeros64(set))
	set &= set - 1
	two[1] = base | int32(bits.TrailingZeros64(set))
	if n > 2 {
		more := dst[2:n]
		for i := range more {
			set &= set - 1
			more[i] = base | int32(bits.TrailingZeros64(set))
		}
	}
	return n
}

// unpin clears the bits before firstFree and from firstLocal on and returns how many
// it cleared.
func unpin(set []uint64, firstFree, firstLocal int) (cleared int) {
	clearWord := func(w int, mask uint64) {
		cleared += bits.OnesCount64(set[w] & mask)
		set[w] &^= mask
	}
	for w := 0; w < min(firstFree>>6, len(set)); w++ {
		clearWord(w, ^uint64(0))
	}
	if w := firstFree >> 6; w < len(set) {
		clearWord(w, 1<<(firstFree&63)-1)
	}
	if w := firstLocal >> 6; w < len(set) {
		clearWord(w, ^uint64(0)<<(firstLocal&63))
		for w++; w < len(set); w++ {
			clearWord(w, ^uint64(0))
		}
	}
	return cleared
}

// nextUses fills the next-use columns, backwards. A block that leaves the demand is
// next demanded where it next enters.
func (d *Delta) nextUses() {
	next := policies.Fill(d.FirstUse, d.Blocks, policies.Never)
	d.FirstUse = next
	d.ExitNext = policies.Fill(d.ExitNext, len(d.Exit.items), 0)
	d.BornNext = policies.Fill(d.BornNext, len(d.Born.items), 0)
	for i := d.Rows - 1; i >= 0; i-- {
		at := d.Exit.ends[i]
		for j, x := range d.Exit.Row(i) {
			d.ExitNext[int(at)+j] = next[x]
		}
		t := int32(i - d.Windows)
		if t < 0 {
			t = policies.Never
		}
		for _, x := range d.Enter.Row(i) {
			next[x] = t
		}
		at = d.Born.ends[i]
		for j, x := range d.Born.Row(i) {
			d.BornNext[int(at)+j] = next[x] // t itself where it is demanded at once
		}
	}
}
