package demand

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/trace"
)

// Joiner makes the rows of a layout from recorded streams. Each row merges one recorded list for
// each head and position. It demands the units that hold any of the first K entries of these lists.
//
// The ranked lists of rows are made only if a policy or an overflow reads them (see ranking.go).
type Joiner struct {
	Layout
	K, M   int
	Ranks  bool
	Pins   Pins
	Checks bool // Join checks the rules for lists, because the reader has not

	clusters *clustering // of the stream. Nil if units are blocks of one size
	divide   Divider

	heads  []trace.Stream // the joined streams
	starts []int32        // first recorded row of each row, and at the end the number of recorded rows
	out    trace.Stream   // the result. Its lists are empty until one is read
	ranking

	picked    []int32  // distinct demanded entries by unit, in the row that was loaded last
	present   []uint64 // entries of a list, or of a head's lists, as a bitset
	distinct  []int32  // entries of a head's lists, ascending
	predicted []int32  // by unit: 1 + the last row for which it was predicted
	named     []int32  // predicted entries, rank by rank
}

// Group makes the clusters of s the units of the rows. candidates is the largest length of the
// lists of s.
func (j *Joiner) Group(c *Clusters, s *trace.Stream, candidates int) {
	j.clusters = c.units(s, candidates)
}

// units returns the clusters of the joined stream, or nil if units are blocks.
func (j *Joiner) units() *clustering {
	if j == nil {
		return nil
	}
	return j.clusters
}

// ErrBroken reports a list that breaks a rule. A trace.Checker names the rule.
var ErrBroken = errors.New("a list breaks a rule of the trace format")

// Join merges the streams that share blocks into one stream, which is valid until the next call.
func (j *Joiner) Join(heads []trace.Stream) (*trace.Stream, error) {
	first := &heads[0]
	for i := range heads[1:] {
		s := &heads[i+1]
		if s.PromptLen != first.PromptLen || !slices.Equal(s.Steps, first.Steps) {
			return nil, fmt.Errorf("%v and %v share a cache, expected equal prompt lengths and steps", first.Key, s.Key)
		}
	}
	j.reset(heads)
	for row := 0; row < first.Rows; {
		end := j.groupEnd(first, row)
		if j.Checks && !j.sound(row, end) {
			return nil, ErrBroken
		}
		j.starts = append(j.starts, int32(end))
		j.add(first.Steps[end-1])
		j.addPredicted(row, end)
		row = end
	}
	return &j.out, nil
}

func (j *Joiner) reset(heads []trace.Stream) {
	info := heads[0].StreamInfo
	if len(heads) > 1 {
		info.Head = trace.NoHead
	}
	j.heads, j.starts = heads, append(j.starts[:0], 0)
	j.out.Reset(info)
	j.out.Rows, j.out.Windows = 0, 0
	units := j.Pins.Blocks(info.MaxSeqLen())
	if j.clusters != nil {
		units = len(j.clusters.tokens)
	}
	j.ranking.reset(units)
	j.picked, j.predicted = policies.Fill(j.picked, units, 0), policies.Fill(j.predicted, units, 0)
	j.present, j.divide = policies.Fill(j.present, info.MaxSeqLen()>>6+1, 0), DivideBy(j.Factor)
}

// add appends a row without its list.
func (j *Joiner) add(step int32) {
	out := &j.out
	if out.Steps = append(out.Steps, step); step < 0 {
		out.Windows++
	}
	if out.Rows++; out.Rows == 1 {
		out.FirstStep = step
	}
	out.LastStep = step
}

// groupEnd returns the end of the recorded rows that make one step, the first of which is row.
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

// sound reports whether the lists of the recorded rows [row, end) follow the rules. A list has 1 to
// M distinct indices within the context, and ascends if it has no ranks.
func (j *Joiner) sound(row, end int) bool {
	entryTokens := j.Pins.BlockTokens / j.Factor
	for ; row < end; row++ {
		entries := (j.heads[0].SeqLen(row) + entryTokens - 1) / entryTokens
		for h := range j.heads {
			list := j.heads[h].List(row)
			if len(list) == 0 || len(list) > j.M || !j.Ranks && !slices.IsSorted(list) {
				return false
			}
			clear(j.present)
			if !mark(j.present, list) || !noneFrom(j.present, entries) || population(j.present) != len(list) {
				return false
			}
		}
	}
	return true
}

// load adds the units that a row demands to set, and counts the distinct demanded entries in each.
// It returns the number of these entries.
func (j *Joiner) load(row int, set []uint64) (entries int) {
	from, to := int(j.starts[row]), int(j.starts[row+1])
	for h := range j.heads {
		switch {
		case !j.HasPicked():
			j.markLists(set, h, from, to)
		case to-from == 1:
			entries += j.count(set, j.demandedOf(h, from), row)
		default: // several positions may name the same entry
			clear(j.present)
			j.markLists(j.present, h, from, to)
			j.distinct = appendMembers(j.distinct[:0], j.present)
			entries += j.count(set, j.distinct, row)
		}
	}
	return entries
}

// demandedOf returns the demanded part of a head's list at a recorded row.
func (j *Joiner) demandedOf(head, at int) []int32 {
	list := j.heads[head].List(at)
	return list[:min(j.K, len(list))]
}

func (j *Joiner) markLists(set []uint64, head, from, to int) {
	for at := from; at < to; at++ {
		mark(set, j.demandedOf(head, at))
	}
}

// count adds the units of distinct entries to set, and counts the entries of each unit. It returns
// the number of entries that are in a unit.
func (j *Joiner) count(set []uint64, entries []int32, row int) (n int) {
	picked := j.picked
	if j.clusters == nil {
		v := j.divide
		for _, x := range entries {
			countUnit(set, picked, v.Quotient(uint32(x)))
		}
		return len(entries)
	}
	of := j.clusters.of
	free, local := j.free(row)
	for _, x := range entries {
		if x >= free && x < local {
			countUnit(set, picked, uint32(of[x]))
			n++
		}
	}
	return n
}

// countUnit adds an entry to its unit. The first entry of a unit begins its count.
func countUnit(set []uint64, picked []int32, unit uint32) {
	w := &set[unit>>6]
	known := int32(*w >> (unit & 63) & 1)
	*w |= 1 << (unit & 63)
	picked[unit] = picked[unit]&-known + 1
}

// free returns the range [free, local) of a row's tokens that are not pinned. Pinned tokens are in
// no cluster.
func (j *Joiner) free(row int) (free, local int32) {
	return int32(j.Pins.firstFree()), int32(j.Pins.firstLocal(j.out.SeqLen(row)))
}

// appendPicked appends to dst the number of demanded entries in each of blocks, at the row that was
// loaded last. The ids in blocks are raised by base.
func (j *Joiner) appendPicked(dst, blocks []int32, base int32) []int32 {
	n := len(dst)
	dst = grow(dst, len(blocks))[:n+len(blocks)]
	at, picked := dst[n:], j.picked
	for i, b := range blocks {
		at[i] = picked[b-base]
	}
	return dst
}

// pickedWithout returns the number of demanded entries in the units that are in all but not in left.
func (j *Joiner) pickedWithout(all, left []uint64) (n int) {
	for w, units := range all {
		for units &^= left[w]; units != 0; units &= units - 1 {
			n += int(j.picked[w<<6|bits.TrailingZeros64(units)])
		}
	}
	return n
}

// addPredicted merges the units that were predicted for the recorded rows [row, end), rank by rank.
func (j *Joiner) addPredicted(row, end int) {
	if j.heads[0].PredictedList(row) == nil {
		return
	}
	j.parts = j.parts[:0]
	for ; row < end; row++ {
		for h := range j.heads {
			j.parts = append(j.parts, rankedPart[int32]{list: j.heads[h].PredictedList(row)})
		}
	}
	j.named = mergeRanks(j.named[:0], j.parts)
	now := int32(j.out.Rows)
	for _, b := range j.unitsOf(j.named) {
		if j.predicted[b] != now {
			j.predicted[b] = now
			j.out.Predicted = append(j.out.Predicted, b)
		}
	}
	if len(j.out.PredictedOffsets) == 0 {
		j.out.PredictedOffsets = append(j.out.PredictedOffsets, 0)
	}
	j.out.PredictedOffsets = append(j.out.PredictedOffsets, int32(len(j.out.Predicted)))
}

// positions returns the number of positions of a row.
func (j *Joiner) positions(row int) int { return int(j.starts[row+1] - j.starts[row]) }

func (j *Joiner) span(row int) int {
	steps := j.heads[0].Steps
	return int(steps[j.starts[row+1]-1]-steps[j.starts[row]]) + 1
}
