package demand

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/trace"
)

// Joiner makes the rows of a layout from recorded streams: lists of units, blocks or
// clusters, whose demand is a prefix of its own length in each row.
//
// The lists that make a row, one for each head and position, are merged rank by rank. A unit
// takes the best rank of any of its entries: first all that the first K of any list name,
// then the rest up to M. Its score is the largest of its entries' scores.
type Joiner struct {
	Layout
	K, M   int
	Ranks  bool
	Pins   Pins
	Checks bool // the rules for lists, which the reader has not checked

	clusters *clustering // of the stream. Nil if units are blocks of one size

	out     trace.Stream
	demand  []int32 // by row: units that the first K of a list name
	picked  []int32 // parallel to out.Indices: distinct demanded entries in the unit
	decoded []int32 // by row: positions that were decoded
	steps   []int32 // by row: steps from its first position to its last

	place     []int32   // by unit: 1 + its place in out.Indices. An earlier row's if the current row lacks it
	count     []int32   // by unit, scratch
	predicted []int32   // by unit: 1 + the row that predicted it last
	seen      [][]int32 // by head and entry: 1 + the row that demanded it last, if a row joins positions
	present   []uint64  // entries of the list being checked
	sources   []source  // of the current row
	entries   []int32   // of all sources, rank by rank
	scores    []float32 // parallel to entries
	merged    []int32   // units of entries
	divide    divider
}

// source is one of the lists that make a row.
type source struct {
	head      int
	list      []int32
	scores    []float32
	predicted []int32
}

// Group makes the clusters of s the units of the rows. candidates is the most blocks that a
// list of s has.
func (j *Joiner) Group(c *Clusters, s *trace.Stream, candidates int) {
	j.clusters = c.units(s, candidates)
}

// units are the clusters of the stream that is joined. Nil if units are blocks.
func (j *Joiner) units() *clustering {
	if j == nil {
		return nil
	}
	return j.clusters
}

// ErrBroken reports a list that breaks a rule. A trace.Checker names the rule.
var ErrBroken = errors.New("a list breaks a rule of the trace format")

// Join makes the rows of the streams that share blocks, as a stream. It is valid until the
// next call.
func (j *Joiner) Join(heads []trace.Stream) (*trace.Stream, error) {
	first := &heads[0]
	for i := range heads[1:] {
		s := &heads[i+1]
		if s.PromptLen != first.PromptLen || !slices.Equal(s.Steps, first.Steps) {
			return nil, fmt.Errorf("%v and %v share a cache but not their prompt length and steps", first.Key, s.Key)
		}
	}
	j.reset(heads)
	entryTokens := j.Pins.BlockTokens / j.Factor
	for row := 0; row < first.Rows; {
		end := j.groupEnd(first, row)
		j.sources = j.sources[:0]
		for at := row; at < end; at++ {
			entries := (first.SeqLen(at) + entryTokens - 1) / entryTokens
			for h := range heads {
				list := heads[h].List(at)
				if j.Checks && !j.sound(list, entries) {
					return nil, ErrBroken
				}
				j.sources = append(j.sources, source{h, list, heads[h].ScoreList(at), heads[h].PredictedList(at)})
			}
		}
		j.add(first.Steps[end-1])
		j.addPredicted()
		j.decoded, j.steps = append(j.decoded, int32(end-row)), append(j.steps, first.Steps[end-1]-first.Steps[row]+1)
		row = end
	}
	return &j.out, nil
}

func (j *Joiner) reset(heads []trace.Stream) {
	info, total := heads[0].StreamInfo, 1
	if len(heads) > 1 {
		info.Head = trace.NoHead
	}
	j.out.Reset(info)
	j.out.Rows, j.out.Windows = 0, 0
	j.demand, j.picked, j.decoded, j.steps = j.demand[:0], j.picked[:0], j.decoded[:0], j.steps[:0]
	units := j.Pins.Blocks(info.MaxSeqLen())
	if j.clusters != nil {
		units = len(j.clusters.tokens)
	}
	j.place, j.count = policies.Fill(j.place, units, 0), policies.Fill(j.count, units, 0)
	j.predicted, j.divide = policies.Fill(j.predicted, units, 0), divideBy(j.Factor)
	for h := range heads {
		if len(j.seen) == h {
			j.seen = append(j.seen, nil)
		}
		if j.Positions > 1 {
			j.seen[h] = policies.Fill(j.seen[h], info.MaxSeqLen(), 0)
		}
		total += len(heads[h].Indices)
	}
	if j.Checks {
		j.present = policies.Fill(j.present, info.MaxSeqLen()>>6+1, 0)
	}
	j.out.Indices, j.picked = slices.Grow(j.out.Indices, total), slices.Grow(j.picked, total)
}

// groupEnd is the row behind those that make a step with row.
func (j *Joiner) groupEnd(s *trace.Stream, row int) int {
	end := row + 1
	if s.Steps[row] < 0 {
		return end
	}
	for end < s.Rows && int(s.Steps[end])/j.Positions == int(s.Steps[row])/j.Positions {
		end++
	}
	return end
}

// sound reports whether a list breaks no rule: 1 to M indices, in range of a context of
// that many entries, distinct, ascending without ranks.
func (j *Joiner) sound(list []int32, entries int) bool {
	if len(list) == 0 || len(list) > j.M || !j.Ranks && !slices.IsSorted(list) {
		return false
	}
	present, twice := j.present, uint64(0)
	for n, x := range list {
		if uint32(x) >= uint32(entries) {
			for _, x := range list[:n] {
				present[x>>6] = 0
			}
			return false
		}
		w, bit := uint32(x)>>6, uint64(1)<<(uint32(x)&63)
		twice |= present[w] & bit
		present[w] |= bit
	}
	for _, x := range list {
		present[uint32(x)>>6] = 0
	}
	return twice == 0
}

// add appends the row that the sources make.
func (j *Joiner) add(step int32) {
	begin := len(j.out.Indices)
	free, local := int32(0), int32(math.MaxInt32)
	if j.clusters != nil { // some tokens of a cluster may be pinned: they are in no unit
		free, local = int32(j.Pins.firstFree()), int32(j.Pins.firstLocal(int(j.out.PromptLen+step+1)))
	}
	entries, scores, demanded := j.merge(free, local)
	units := j.unitsOf(entries)
	j.out.Indices, j.picked = slices.Grow(j.out.Indices, len(units)+1), slices.Grow(j.picked, len(units)+1)
	demand := j.gather(begin, 0, units[:demanded], 1)
	end := begin + j.gather(begin, demand, units[demanded:], 0)
	j.out.Indices, j.picked = j.out.Indices[:end], j.picked[:end]
	if j.Positions > 1 && j.HasPicked() {
		j.countDistinct(begin, demand, free, local)
	}
	if scores != nil {
		j.addScores(begin, end, units, scores)
	}
	if !j.Ranks {
		j.ascend(begin)
	}
	j.demand = append(j.demand, int32(demand))
	out := &j.out
	out.Steps, out.Offsets = append(out.Steps, step), append(out.Offsets, int32(end))
	if out.Rows++; step < 0 {
		out.Windows++
	}
	if out.Rows == 1 {
		out.FirstStep = step
	}
	out.LastStep = step
}

// merge lists the entries of the sources from free to local, rank by rank, and their scores.
// The first demanded of them are demanded.
func (j *Joiner) merge(free, local int32) (entries []int32, scores []float32, demanded int) {
	if len(j.sources) == 1 && j.clusters == nil {
		s := &j.sources[0]
		entries = s.list[:min(j.M, len(s.list))]
		if s.scores != nil {
			scores = s.scores[:len(entries)]
		}
		return entries, scores, min(j.K, len(entries))
	}
	scored, total := j.sources[0].scores != nil, 0
	for i := range j.sources {
		total += len(j.sources[i].list)
	}
	j.entries, j.scores = slices.Grow(j.entries[:0], total+1)[:total+1], j.scores[:0]
	n := 0
	for r := range j.M {
		if r == j.K {
			demanded = n
		}
		for i := range j.sources {
			s := &j.sources[i]
			if r >= len(s.list) {
				continue
			}
			x := s.list[r]
			if j.entries[n] = x; x < free || x >= local {
				continue
			}
			n++
			if scored {
				j.scores = append(j.scores, s.scores[r])
			}
		}
	}
	if j.K == j.M {
		demanded = n
	}
	if scored {
		scores = j.scores
	}
	return j.entries[:n], scores, demanded
}

// unitsOf are the units of entries.
func (j *Joiner) unitsOf(entries []int32) []int32 {
	if j.clusters == nil && j.Factor == 1 {
		return entries
	}
	j.merged = slices.Grow(j.merged[:0], len(entries))[:len(entries)]
	merged := j.merged
	if j.clusters != nil {
		of := j.clusters.of
		for i, x := range entries {
			merged[i] = of[x]
		}
		return merged
	}
	v := j.divide
	for i, x := range entries {
		merged[i] = int32(v.quotient(uint32(x)))
	}
	return merged
}

// unit is the unit of an entry.
func (j *Joiner) unit(x int32) int32 {
	if j.clusters != nil {
		return j.clusters.of[x]
	}
	return int32(j.divide.quotient(uint32(x)))
}

// gather adds units to the row that begins at begin and has n units, and returns how many it
// has then. Each unit named counts as picked entries. No branch depends on whether the row
// has a unit: every unit is written behind the last, and stays if the row lacked it.
func (j *Joiner) gather(begin, n int, units []int32, picked int32) int {
	room := n + len(units) + 1
	out, counts, place := j.out.Indices[begin:begin+room], j.picked[begin:begin+room], j.place
	for _, b := range units {
		at := int(place[b]) - 1 - begin
		fresh := at >> 63 // all ones if the row lacks the unit
		at = at&^fresh | n&fresh
		out[n] = b
		counts[at] = counts[at]&^int32(fresh) + picked
		place[b] = int32(begin + at + 1)
		n -= fresh
	}
	return n
}

// countDistinct counts the distinct demanded entries of the row's units: two positions may
// name one entry.
func (j *Joiner) countDistinct(begin, demand int, free, local int32) {
	clear(j.picked[begin : begin+demand])
	now := int32(len(j.demand)) + 1
	for _, s := range j.sources {
		seen := j.seen[s.head]
		for _, x := range s.list[:min(j.K, len(s.list))] {
			if x >= free && x < local && seen[x] != now {
				seen[x] = now
				j.picked[j.place[j.unit(x)]-1]++
			}
		}
	}
}

// addScores gives each unit of the row from begin to end the largest score of its entries.
func (j *Joiner) addScores(begin, end int, units []int32, scores []float32) {
	for range end - begin {
		j.out.Scores = append(j.out.Scores, float32(math.Inf(-1)))
	}
	for i, b := range units {
		at := &j.out.Scores[j.place[b]-1]
		*at = max(*at, scores[i])
	}
}

// ascend sorts a row of a trace whose order means nothing.
func (j *Joiner) ascend(begin int) {
	indices, picked := j.out.Indices[begin:], j.picked[begin:]
	if slices.IsSorted(indices) {
		return
	}
	type item struct {
		unit, picked int32
		score        float32
	}
	items := make([]item, len(indices))
	for i := range items {
		items[i] = item{unit: indices[i], picked: picked[i]}
		if len(j.out.Scores) > 0 {
			items[i].score = j.out.Scores[begin+i]
		}
	}
	slices.SortFunc(items, func(a, b item) int { return int(a.unit - b.unit) })
	for i, it := range items {
		indices[i], picked[i] = it.unit, it.picked
		if len(j.out.Scores) > 0 {
			j.out.Scores[begin+i] = it.score
		}
	}
}

// addPredicted merges the units that were predicted for the row, rank by rank.
func (j *Joiner) addPredicted() {
	if j.sources[0].predicted == nil {
		return
	}
	longest, now := 0, int32(j.out.Rows)
	for i := range j.sources {
		longest = max(longest, len(j.sources[i].predicted))
	}
	for r := range longest {
		for i := range j.sources {
			if r >= len(j.sources[i].predicted) {
				continue
			}
			if b := j.unit(j.sources[i].predicted[r]); j.predicted[b] != now {
				j.predicted[b] = now
				j.out.Predicted = append(j.out.Predicted, b)
			}
		}
	}
	if len(j.out.PredictedOffsets) == 0 {
		j.out.PredictedOffsets = append(j.out.PredictedOffsets, 0)
	}
	j.out.PredictedOffsets = append(j.out.PredictedOffsets, int32(len(j.out.Predicted)))
}

// list, positions and span make a joiner the rows of a Delta.
func (j *Joiner) list(row int) ([]int32, int) { return j.out.List(row), int(j.demand[row]) }
func (j *Joiner) positions(row int) int       { return int(j.decoded[row]) }
func (j *Joiner) span(row int) int            { return int(j.steps[row]) }

// pickedIn appends the demanded entries of each of a row's demanded blocks to dst. The blocks
// ascend and are raised by base.
func (j *Joiner) pickedIn(row int, blocks []int32, base int32, dst []int32) []int32 {
	begin, count := j.out.Offsets[row], j.count
	end := begin + j.demand[row]
	picked := j.picked[begin:end]
	for i, b := range j.out.Indices[begin:end] {
		count[b] = picked[i]
	}
	n := len(dst)
	dst = slices.Grow(dst, len(blocks))[:n+len(blocks)]
	at := dst[n:]
	for i, b := range blocks {
		at[i] = count[b-base]
	}
	return dst
}

// divider divides numbers below 2³¹ by d: one multiplication and a shift (Granlund and
// Montgomery, "Division by invariant integers using multiplication", PLDI 1994, theorem 4.2).
type divider struct {
	factor uint64
	shift  uint
}

func divideBy(d int) divider {
	shift := uint(31 + bits.Len64(uint64(d)-1))
	return divider{(1<<shift + uint64(d) - 1) / uint64(d), shift}
}

func (v divider) quotient(x uint32) uint32 { return uint32(uint64(x) * v.factor >> v.shift) }
