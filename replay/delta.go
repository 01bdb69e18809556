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

	Size    []int32 // |D_t|
	Enter   lists   // D_t \ D_{t-1}; all of D_t in the first row
	Exit    lists   // D_{t-1} \ D_t
	Born    lists   // left the local window
	Members lists   // D_t, only if asked for

	// Next uses (policies.Step), only if asked for.
	ExitNext, BornNext []int32
	FirstUse           []int32 // of each block, from the first row

	stream      *trace.Stream
	first       int // row of the stream that is row 0
	k, m        int
	cur, prev   []uint64 // demand as bitsets
	tail        []uint64 // candidates of the row being checked
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

// Row returns row i's list.
func (l *lists) Row(i int) []int32 { return l.items[l.ends[i]:l.ends[i+1]] }

// Candidates are the ranks K … M-1 of row i, best first.
func (d *Delta) Candidates(i int) []int32 {
	list := d.stream.List(d.first + i)
	return list[min(d.k, len(list)):min(d.m, len(list))]
}

// ranked is the list of row i up to K, pinned blocks included.
func (d *Delta) ranked(i int) []int32 {
	list := d.stream.List(d.first + i)
	return list[:min(d.k, len(list))]
}

// deltaOptions say what of a stream is replayed.
type deltaOptions struct {
	k, m    int // demand and candidates, in blocks
	pins    Pins
	meta    *trace.Meta
	windows int // warm-up rows to replay
	members bool
	nexts   bool
}

// build derives the delta of s, whose lists the reader has not checked: every rule of
// a list is checked here, in the pass that is made anyway. It keeps s until the next build.
func (d *Delta) build(s *trace.Stream, o deltaOptions, check *trace.Checker) error {
	d.stream, d.k, d.m = s, o.k, o.m
	d.first = s.Windows - o.windows
	d.Rows, d.Windows, d.MaxDemand = s.Rows-d.first, o.windows, 0
	d.Blocks = o.pins.blocks(s.MaxSeqLen())
	d.hasMembers, d.hasNextUses = o.members, o.nexts
	d.Size = d.Size[:0]
	for _, l := range []*lists{&d.Enter, &d.Exit, &d.Born, &d.Members} {
		l.reset()
	}
	words := d.Blocks>>6 + 1
	d.cur, d.prev = policies.Fill(d.cur, words, 0), policies.Fill(d.prev, words, 0)
	d.tail = policies.Fill(d.tail, words, 0)
	for i := range d.first { // not replayed, but a broken row anywhere is no basis for a score
		if !d.load(s.List(i), o.pins.blocks(s.SeqLen(i)), o.meta) {
			return brokenList(s, check)
		}
	}
	for i := range d.Rows {
		row := d.first + i
		seqLen := s.SeqLen(row)
		if !d.load(s.List(row), o.pins.blocks(seqLen), o.meta) {
			return brokenList(s, check)
		}
		d.extract(o.pins.firstFree(), o.pins.firstLocal(seqLen))
		before := seqLen - 1
		if i > 0 {
			before = s.SeqLen(row - 1)
		}
		d.Born.items = o.pins.appendBirths(d.Born.items, before, seqLen)
		d.Born.close()
	}
	if o.nexts {
		d.nextUses()
	}
	return nil
}

// brokenList names the rule that a list breaks.
func brokenList(s *trace.Stream, check *trace.Checker) error {
	if e := check.First(s); e != nil {
		return e
	}
	panic("replay: the delta refused a list that breaks no rule")
}

// load sets d.cur to the row's first K and reports whether the whole list is sound:
// not empty, no longer than the metadata's M, distinct, in range [0, blocks), and
// ascending where the metadata says so.
func (d *Delta) load(list []int32, blocks int, m *trace.Meta) bool {
	if len(list) == 0 || len(list) > m.Candidates || m.Order == trace.OrderIndex && !slices.IsSorted(list) {
		return false
	}
	cur := d.cur
	clear(cur)
	head := list[:min(d.k, len(list))]
	for _, x := range head {
		w := uint32(x) >> 6
		if w >= uint32(len(cur)) { // negative indices too
			return false
		}
		cur[w] |= 1 << (uint32(x) & 63)
	}
	// Distinctness of the head is its population, counted by extract; here the tail.
	if rest := list[len(head):]; len(rest) > 0 && !d.soundTail(rest) {
		return false
	}
	count := 0
	for _, w := range cur {
		count += bits.OnesCount64(w)
	}
	return count == len(head) && d.below(blocks, list)
}

// soundTail checks the candidates against the demand and each other.
func (d *Delta) soundTail(rest []int32) bool {
	cur, tail := d.cur, d.tail
	tail = tail[:len(cur)]
	var twice uint64
	done := 0
	for _, x := range rest {
		w := uint32(x) >> 6
		if w >= uint32(len(cur)) {
			break
		}
		bit := uint64(1) << (uint32(x) & 63)
		twice |= (cur[w] | tail[w]) & bit
		tail[w] |= bit
		done++
	}
	for _, x := range rest[:done] {
		tail[uint32(x)>>6] = 0
	}
	return twice == 0 && done == len(rest)
}

// below reports whether no index of the list is at or past blocks. The bitset covers
// the stream's last context; earlier ones are shorter.
func (d *Delta) below(blocks int, list []int32) bool {
	if blocks >= len(d.cur)<<6 {
		return true
	}
	w := blocks >> 6
	past := d.cur[w] >> (blocks & 63)
	for _, c := range d.cur[w+1:] {
		past |= c
	}
	if past != 0 {
		return false
	}
	for _, x := range list[min(d.k, len(list)):] {
		if int(x) >= blocks {
			return false
		}
	}
	return true
}

// extract takes the pinned blocks out of d.cur, appends what entered and left
// against the row before, and makes d.cur the row before.
func (d *Delta) extract(firstFree, firstLocal int) {
	cur, prev := d.cur, d.prev[:len(d.cur)]
	unpin(cur, firstFree, firstLocal)
	most := d.Blocks
	if n := len(d.Size); n > 0 {
		most = int(d.Size[n-1])
	}
	d.Enter.items = room(d.Enter.items, min(d.k, d.Blocks))
	d.Exit.items = room(d.Exit.items, min(d.k, most))
	enter, exit := d.Enter.items[len(d.Enter.items):cap(d.Enter.items)], d.Exit.items[len(d.Exit.items):cap(d.Exit.items)]
	a, b, size := 0, 0, 0
	for w, c := range cur {
		p := prev[w]
		size += bits.OnesCount64(c)
		for e := c &^ p; e != 0; e &= e - 1 {
			enter[a] = int32(w<<6 | bits.TrailingZeros64(e))
			a++
		}
		for o := p &^ c; o != 0; o &= o - 1 {
			exit[b] = int32(w<<6 | bits.TrailingZeros64(o))
			b++
		}
	}
	d.Enter.items = d.Enter.items[:len(d.Enter.items)+a]
	d.Exit.items = d.Exit.items[:len(d.Exit.items)+b]
	d.Enter.close()
	d.Exit.close()
	if d.hasMembers {
		d.Members.items = appendBits(room(d.Members.items, size), cur)
		d.Members.close()
	}
	d.Size = append(d.Size, int32(size))
	d.MaxDemand = max(d.MaxDemand, size)
	d.cur, d.prev = d.prev, d.cur
}

// unpin clears the bits before firstFree and from firstLocal on.
func unpin(set []uint64, firstFree, firstLocal int) {
	low := min(firstFree>>6, len(set))
	clear(set[:low])
	if low < len(set) {
		set[low] &^= 1<<(firstFree&63) - 1
	}
	if high := firstLocal >> 6; high < len(set) {
		set[high] &= 1<<(firstLocal&63) - 1
		clear(set[high+1:])
	}
}

// room grows s so that n more items and a spare one fit.
func room(s []int32, n int) []int32 {
	if cap(s)-len(s) > n {
		return s
	}
	grown := make([]int32, len(s), 2*cap(s)+n+1)
	copy(grown, s)
	return grown
}

func appendBits(dst []int32, set []uint64) []int32 {
	for w, c := range set {
		for ; c != 0; c &= c - 1 {
			dst = append(dst, int32(w<<6|bits.TrailingZeros64(c)))
		}
	}
	return dst
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
