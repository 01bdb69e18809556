package demand

import (
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// Delta is the View of a single stream. It holds the changes of the demand from row to row,
// derived once for all policies and capacities. If the capacity is at least |D_t|, every block
// that stays in the demand is a hit. Only the changes then need work.
type Delta struct {
	Dims
	nexts
	size                       []int32
	enter, exit, born, members lists
	entries                    []int64 // by row: demanded entries, if blocks hold several
	enterPicked, picked        []int32 // demanded entries in each block of enter and members, likewise

	stream         *trace.Stream
	rows           rows
	recorded       recorded
	joined         *Joiner // nil if the rows are recorded
	units          units
	pins           Pins
	meta           *trace.Meta // states the rules for lists. Nil if a joiner has checked them
	first          int         // row of the stream that is row 0
	base           int32       // added to the ids in enter, exit, members and born, in a pool
	membersOnly    bool        // enter and exit are not derived, only members
	membersDerived bool        // members are derived
	edgesDerived   bool        // members of edge rows are derived, see type Followed

	cur, prev []uint64 // demand as bitsets
	all       []uint64 // the whole list of the row being checked, or a joined row's demand with pinned blocks
	loaded    int      // demanded entries of the row in cur, if blocks hold several
	changed   []int32  // words in which cur and prev differ
	outliers  []uint64 // outliers, as a bitset. Empty if there are none
	unlisted  int      // number of outliers that no list names
}

// rows are the lists from which a Delta is built: the recorded lists of a stream, or the lists that
// a joiner made.
type rows interface {
	// list returns the list of a row up to M, and the number of its first blocks that are demanded.
	list(row int) (list []int32, demand int)
	// span returns the number of steps from a row's first position to its last, both included.
	span(row int) int
}

// recorded implements rows with the lists that the trace has.
type recorded struct {
	stream *trace.Stream
	k, m   int
}

func (r *recorded) list(row int) ([]int32, int) {
	list := r.stream.List(row)
	list = list[:min(r.m, len(list))]
	return list, min(r.k, len(list))
}

func (r *recorded) span(int) int { return 1 }

// Options configure a Delta.
type Options struct {
	K, M     int // demand and candidates, in blocks
	Pins     Pins
	Meta     *trace.Meta
	Windows  int     // warm-up rows to replay
	Members  bool    // the view has Members
	NextUses bool    // changes have the steps of the next demands
	Joined   *Joiner // the joiner that made the stream. Nil for a recorded stream

	Outliers setting.Outliers
	Followed bool // of a pool: the changes of each stream are derived, see types Followed and Tracked
	whole    bool // members are derived, and no changes
	at       int  // the number of the stream in its pool
}

// Build derives the delta of s. It checks every rule for the lists of a recorded stream, because
// the reader has not. The delta keeps s until the next call.
func (d *Delta) Build(s *trace.Stream, o Options, check *trace.Checker) error {
	d.reset(s, &o)
	if d.meta != nil {
		for row := range d.first { // not replayed, but importance may read their scores
			if n, sound := d.load(row); !sound || population(d.cur) != n {
				return brokenList(s, check)
			}
		}
	}
	peak := 0
	for i := range d.Rows {
		if !d.addDemand(d.first + i) {
			return brokenList(s, check)
		}
		d.addBirths(i)
		if i >= d.Windows {
			peak = max(peak, d.Pinned(i))
		}
	}
	d.PinnedPeaks = append(d.PinnedPeaks[:0], peak)
	if d.known = false; o.NextUses {
		d.fill(d)
	}
	return nil
}

// brokenList returns an error that names the rule that a list breaks.
func brokenList(s *trace.Stream, check *trace.Checker) error {
	if e := check.First(s); e != nil {
		return e
	}
	panic("demand: Delta rejected a list that the trace checker accepts")
}

func (d *Delta) reset(s *trace.Stream, o *Options) {
	d.stream, d.pins, d.meta, d.first, d.membersOnly = s, o.Pins, o.Meta, s.Windows-o.Windows, o.whole
	d.recorded = recorded{s, o.K, o.M}
	d.rows = &d.recorded
	if d.joined = o.Joined; d.joined != nil {
		d.rows, d.meta = d.joined, nil
	}
	d.units = o.Pins
	d.Dims = Dims{Blocks: o.Pins.Blocks(s.MaxSeqLen()), Rows: s.Rows - d.first, Windows: o.Windows, Streams: 1,
		PinnedPeaks: d.PinnedPeaks, FirstUse: d.FirstUse, HasPicked: o.Joined != nil && o.Joined.HasPicked()}
	d.membersDerived, d.edgesDerived = o.Members, o.Members
	d.HasMembers = d.membersDerived || d.HasPicked
	if c := o.Joined.units(); c != nil {
		c.pins = o.Pins
		d.units, d.Blocks, d.Weight = c, len(c.tokens), c.weight
	}
	d.Stride = int32(d.Blocks)
	d.base = int32(o.at) * d.Stride
	d.size, d.entries, d.enterPicked, d.picked = d.size[:0], d.entries[:0], d.enterPicked[:0], d.picked[:0]
	for _, l := range []*lists{&d.enter, &d.exit, &d.born, &d.members} {
		l.reset()
	}
	if d.membersDerived && d.joined == nil {
		d.reserve()
	}
	words := d.Blocks>>6 + 1
	d.cur, d.prev = policies.Fill(d.cur, words, 0), policies.Fill(d.prev, words, 0)
	d.all = policies.Fill(d.all, words, 0)
	d.keepOutliers(o.Outliers)
}

// reserve makes room for all members of a recorded stream at once, so that they are not copied when
// they grow.
func (d *Delta) reserve() {
	total := spare
	for row := d.first; row < d.stream.Rows; row++ {
		_, n := d.recorded.list(row)
		total += n
	}
	d.members.items = slices.Grow(d.members.items, total)
}

// load sets d.cur to the n demanded blocks of a row. sound is false if the row's list breaks a rule.
// load does not check that demanded blocks are distinct. If they are, d.cur has n members.
func (d *Delta) load(row int) (n int, sound bool) {
	clear(d.cur)
	if d.joined != nil {
		d.loaded = d.joined.load(row, d.cur)
		return population(d.cur), true
	}
	list, n := d.recorded.list(row)
	if !mark(d.cur, list[:n]) {
		return n, false
	}
	list = d.stream.List(row)
	if len(list) == 0 || len(list) > d.meta.Candidates || d.meta.Order == trace.OrderIndex && !slices.IsSorted(list) {
		return n, false
	}
	blocks := d.units.Blocks(d.stream.SeqLen(row))
	if n == len(list) {
		return n, noneFrom(d.cur, blocks)
	}
	return n, d.soundTail(list[n:], blocks)
}

// soundTail reports whether the candidates in rest are distinct and not in the demand d.cur. It also
// checks that candidates and demand are within the context.
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

// addDemand appends the demand of a row, or its changes from the row before. It returns false if the
// row's list breaks a rule.
func (d *Delta) addDemand(row int) bool {
	n, sound := d.load(row)
	if !sound {
		return false
	}
	pinned, size := d.unpinAll(row), 0
	if d.membersOnly {
		size = d.addMembers(n)
	} else {
		size = d.addChanges(n)
		if d.membersDerived {
			d.addMembers(size)
		}
	}
	if d.HasPicked {
		d.entries = append(d.entries, int64(d.loaded))
	}
	d.size = append(d.size, int32(size))
	d.MaxDemand = max(d.MaxDemand, size)
	d.cur, d.prev = d.prev, d.cur
	return size+pinned == n
}

// unpinAll removes the pinned blocks from d.cur and returns their number.
func (d *Delta) unpinAll(row int) (pinned int) {
	if d.HasPicked {
		copy(d.all, d.cur)
	}
	free, local := d.units.unpinned(d.stream.SeqLen(row))
	pinned = unpin(d.cur, free, local)
	if len(d.outliers) > 0 {
		pinned += d.unpinKept(d.cur)
	}
	if d.HasPicked && pinned > 0 {
		d.loaded -= d.joined.pickedWithout(d.all, d.cur)
	}
	return pinned
}

// derive derives the members that Build left out. Few caches read the members of a followed pool, or
// of blocks that hold several entries.
func (d *Delta) derive() {
	if !d.membersDerived {
		d.membersDerived, d.edgesDerived = true, true
		d.deriveRows(func(int) bool { return true })
	}
}

// edge returns the members of row i, the last row or one of a window. A pool that a policy follows
// with next uses needs no others.
func (d *Delta) edge(i int) []int32 {
	if !d.edgesDerived {
		d.edgesDerived = true
		d.deriveRows(d.isEdge)
	}
	return d.members.Row(i)
}

func (d *Delta) isEdge(i int) bool { return i < d.Windows || i == d.Rows-1 }

// deriveRows derives the members of the selected rows. The lists of other rows are empty. It does
// not overwrite lists from a call before.
func (d *Delta) deriveRows(selected func(i int) bool) {
	total := spare
	for i, n := range d.size {
		if selected(i) {
			total += int(n)
		}
	}
	if len(d.members.items) > 0 {
		d.members.items, d.picked = nil, nil
	}
	d.members.reset()
	d.members.free(total)
	if d.HasPicked {
		d.picked = slices.Grow(d.picked[:0], total)
	}
	for i := range d.Rows {
		if !selected(i) {
			d.members.close()
			continue
		}
		clear(d.cur)
		if d.joined != nil {
			d.joined.load(d.first+i, d.cur)
		} else {
			mark(d.cur, d.Ranked(i))
		}
		d.unpinAll(d.first + i)
		d.addMembers(int(d.size[i]))
	}
}

// addMembers appends the members of d.cur and returns their number. d.cur has at most `most`.
func (d *Delta) addMembers(most int) int {
	from := len(d.members.items)
	d.members.take(writeMembers(d.members.free(most+spare), d.base, d.cur, most))
	members := d.members.items[from:]
	if d.HasPicked {
		d.picked = d.joined.appendPicked(d.picked, members, d.base)
	}
	return len(members)
}

// addChanges appends the blocks that entered d.cur and those that left it. It returns the size of
// d.cur, which is at most n.
func (d *Delta) addChanges(n int) int {
	cur := d.cur
	prev := d.prev[:len(cur)]
	before := 0
	if rows := len(d.size); rows > 0 {
		before = int(d.size[rows-1])
	}
	enter, exit := d.enter.free(n+2), d.exit.free(before+2)
	a, b := 0, 0
	for _, w := range d.differing(cur, prev) {
		c, p := cur[w], prev[w]
		a += appendBits(enter[a:], d.base+w<<6, c&^p)
		b += appendBits(exit[b:], d.base+w<<6, p&^c)
	}
	d.enter.take(a)
	d.exit.take(b)
	if d.HasPicked {
		d.enterPicked = d.joined.appendPicked(d.enterPicked, enter[:a], d.base)
	}
	return before + a - b
}

// differing returns the words in which two sets of one length differ. To avoid mispredicted
// branches, it writes every word's index and overwrites those of equal words.
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

// addBirths appends the blocks that left the local window with row i, without outliers.
func (d *Delta) addBirths(i int) {
	row, born, from := d.first+i, &d.born, len(d.born.items)
	seqLen := d.stream.SeqLen(row)
	before := seqLen - d.rows.span(row)
	if i > 0 {
		before = d.stream.SeqLen(row - 1)
	}
	born.items = d.units.appendBirths(born.items, before, seqLen)
	if len(d.outliers) > 0 {
		born.items = born.items[:from+len(slices.DeleteFunc(born.items[from:], d.isKept))]
	}
	for j := range born.items[from:] {
		born.items[from+j] += d.base
	}
	born.close()
}

// Change implements View, as the methods below do. It leaves Enter and Exit as they are if they
// are not derived.
func (d *Delta) Change(i int, c *Change) {
	c.Demand, c.Positions, c.Born = int(d.size[i]), 1, d.born.Row(i)
	if !d.membersOnly {
		c.Enter, c.Exit = d.enter.Row(i), d.exit.Row(i)
	}
	if d.HasPicked {
		c.Entries = d.entries[i]
		if !d.membersOnly {
			c.EnterPicked = d.enterPicked[d.enter.ends[i]:d.enter.ends[i+1]]
		}
	}
	if d.joined != nil {
		c.Positions = d.joined.positions(d.first + i)
	}
	d.nexts.add(i, c)
}

func (d *Delta) Members(i int) []int32 {
	d.derive()
	return d.members.Row(i)
}

func (d *Delta) Picked(i int) []int32 {
	d.derive()
	return d.pickedIn(i)
}

// pickedIn returns the demanded entries in each block of row i, whose members are derived.
func (d *Delta) pickedIn(i int) []int32 { return d.picked[d.members.ends[i]:d.members.ends[i+1]] }

func (d *Delta) Step(i int) int32 { return d.stream.Steps[d.first+i] }

func (d *Delta) Ranked(i int) []int32 {
	list, demand := d.rows.list(d.first + i)
	return list[:demand]
}

func (d *Delta) Candidates(i int) []int32 {
	list, demand := d.rows.list(d.first + i)
	return list[demand:]
}

func (d *Delta) Listed(i int) []int32 {
	list, _ := d.rows.list(d.first + i)
	return list
}

func (d *Delta) Scored(i int) ([]int32, []float32) { return d.scored(d.first + i) }

// scored returns the list of a row of the stream up to M, and its scores.
func (d *Delta) scored(row int) ([]int32, []float32) {
	list, _ := d.rows.list(row)
	scores := d.stream.ScoreList(row)
	return list, scores[:min(len(list), len(scores))]
}

// Pinned returns the number of blocks in sinks, local window and outliers. It counts a last block
// that is not full.
func (d *Delta) Pinned(i int) int {
	seqLen := d.stream.SeqLen(d.first + i)
	all, local := d.pins.Blocks(seqLen), d.pins.firstLocal(seqLen)
	// The blocks between sinks and local window are not pinned.
	pinned := all - max(0, local-min(d.pins.firstFree(), all)) + d.unlisted
	for w, kept := range d.outliers {
		// In a prompt window, an outlier may be in the local window.
		for ; kept != 0 && w<<6|bits.TrailingZeros64(kept) < local; kept &= kept - 1 {
			pinned++
		}
	}
	return pinned
}

// FirstLocal returns the first block that the local window pins at row i.
func (d *Delta) FirstLocal(i int) int { return d.pins.firstLocal(d.stream.SeqLen(d.first + i)) }

// AppendLeaving appends to dst the blocks that leave the local window with the token of row i.
// The births of row i also include the blocks of skipped steps before it.
func (d *Delta) AppendLeaving(dst []int32, i int) []int32 {
	seqLen := d.stream.SeqLen(d.first + i)
	return d.pins.appendBirths(dst, seqLen-1, seqLen)
}

// deltas returns d alone.
func (d *Delta) deltas() []*Delta { return []*Delta{d} }

// Predicted returns the blocks that the layer before predicted for row i, best rank first.
func (d *Delta) Predicted(i int) []int32 { return d.stream.PredictedList(d.first + i) }

// Unpinned appends to dst the blocks of list that are not pinned at row i.
func (d *Delta) Unpinned(dst, list []int32, i int) []int32 {
	free, local := d.units.unpinned(d.stream.SeqLen(d.first + i))
	for _, x := range list {
		if int(x) >= free && int(x) < local && !d.isKept(x) {
			dst = append(dst, x)
		}
	}
	return dst
}

// keepOutliers chooses the outliers. It does not check the lists: Build does so later.
func (d *Delta) keepOutliers(o setting.Outliers) {
	d.outliers, d.unlisted = d.outliers[:0], 0
	if o.Source == setting.OutliersUnlisted {
		d.unlisted = o.Count
	}
	if o.Source != setting.OutliersWindows {
		return
	}
	free, end := d.pins.unpinned(int(d.stream.PromptLen))
	windows := make([]int32, d.Blocks) // number of windows that demand each block
	for row := range d.stream.Windows {
		list, demand := d.rows.list(row)
		local := min(end, d.pins.firstLocal(d.stream.SeqLen(row)), d.Blocks)
		for _, x := range list[:demand] {
			if int(x) >= free && int(x) < local {
				windows[x]++
			}
		}
	}
	var blocks []int32
	for x, n := range windows {
		if n > 0 {
			blocks = append(blocks, int32(x))
		}
	}
	slices.SortStableFunc(blocks, func(a, b int32) int { return int(windows[b] - windows[a]) })
	d.outliers = policies.Fill(d.outliers, d.Blocks>>6+1, 0)
	mark(d.outliers, blocks[:min(o.Count, len(blocks))])
}

// isKept reports whether x is an outlier.
func (d *Delta) isKept(x int32) bool {
	return len(d.outliers) > 0 && d.outliers[x>>6]>>(x&63)&1 == 1
}

// unpinKept clears the outliers in a set and returns their number.
func (d *Delta) unpinKept(set []uint64) (cleared int) {
	for w, kept := range d.outliers {
		cleared += bits.OnesCount64(set[w] & kept)
		set[w] &^= kept
	}
	return cleared
}

// Prompt fills p for the stream of d, without p.Windows.
func (d *Delta) Prompt(p *policies.Prompt) {
	s := d.stream
	before := s.SeqLen(s.Windows) - 1 // the context in front of the first counted step
	*p = policies.Prompt{Layer: s.Layer, Head: s.Head, Blocks: d.pins.Blocks(int(s.PromptLen)), First: d.pins.firstFree(), End: d.pins.firstLocal(before)}
	p.Most = max(0, d.pins.firstLocal(s.MaxSeqLen())-p.First)
	if len(s.PromptMass) > 0 {
		p.Mass = s.PromptMass
	}
}

// PromptWindows returns the prompt windows of d. d must have been built with members.
func (d *Delta) PromptWindows() (windows []policies.Window) {
	for i := range d.Windows {
		windows = append(windows, policies.Window{Demand: d.Members(i), Local: int32(d.pins.firstLocal(d.stream.SeqLen(d.first + i)))})
	}
	return windows
}
