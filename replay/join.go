package replay

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/trace"
)

// joiner makes the rows of a layout from recorded streams: lists of blocks whose
// demand is a prefix of its own in each row.
//
// The lists that make a row (of its heads and positions) are merged rank by rank, and
// a block stands at the best rank of any of its entries: first all that the first K of
// any list name, then the rest up to M. Its score is the largest of its entries'.
type joiner struct {
	layout
	k, m  int
	ranks bool
	pins  Pins

	clusters *clustering // of the stream; nil where blocks are of one size

	out    trace.Stream
	demand []int32 // by row: blocks that the first K of a list name
	picked []int32 // parallel to out.Indices: distinct entries of theirs in the block
	made   []int32 // by row: positions that were decoded
	span   []int32 // by row: positions from its first to its last

	place []int32   // by block: 1 + its place in out.Indices; that of an earlier row where the row at hand lacks it
	count []int32   // by block, scratch
	ahead []int32   // by block: 1 + the row that predicted it last
	seen  [][]int32 // by head and entry: 1 + the row that picked it last; where a row joins positions
	rows  []source

	trusts bool // nobody has checked the lists, whose M is m
	divide divider
	masks  []uint64 // of a single list: entries of each block that are there
	firsts []int32  // and the rank of the first
	counts []int32  // and their number, candidates too
	slow   bool     // joins single lists like all others, for comparison

	free, local int32 // entries that take part in the row
}

// weighed reports whether a block holds several entries that a list names apart.
func (l layout) weighed() bool { return l.factor > 1 || l.heads > 1 || l.clustered }

// units are the clusters of the stream that is joined; nil for blocks, or where nothing is joined.
func (j *joiner) units() *clustering {
	if j == nil {
		return nil
	}
	return j.clusters
}

// errBroken is of a list that breaks a rule, which a trace.Checker names.
var errBroken = errors.New("a list breaks a rule of the trace format")

// joinAlone is join where every row is one list.
func (j *joiner) joinAlone(s *trace.Stream, entryTokens int) error {
	for row, step := range s.Steps {
		list := s.List(row)
		tooLong := j.trusts && len(list) > j.m
		list = list[:min(j.m, len(list))]
		if tooLong || !j.single(list, s.ScoreList(row), (s.SeqLen(row)+entryTokens-1)/entryTokens) {
			return errBroken
		}
		j.rows = append(j.rows[:0], source{ahead: s.PredictedList(row)})
		j.close(step)
		j.made, j.span = append(j.made, 1), append(j.span, 1)
	}
	return nil
}

// source is a list that a row is made of.
type source struct {
	head   int
	list   []int32
	scores []float32
	ahead  []int32 // predicted
}

// join builds out from the streams that share a cache.
func (j *joiner) join(heads []trace.Stream, blockTokens int) error {
	for i := range heads[1:] {
		s := &heads[i+1]
		if s.PromptLen != heads[0].PromptLen || !slices.Equal(s.Steps, heads[0].Steps) {
			return fmt.Errorf("%v and %v share a cache but not their prompt length and steps", heads[0].Key, s.Key)
		}
	}
	first := &heads[0]
	j.reset(first.StreamInfo, len(heads), first.MaxSeqLen(), blockTokens)
	if j.quick(first) {
		return j.joinAlone(first, blockTokens/j.factor)
	}
	if j.mtp > 1 {
		for h := range heads {
			j.seen[h] = policies.Fill(j.seen[h], first.MaxSeqLen(), 0)
		}
	}
	for row := 0; row < first.Rows; {
		end := j.groupEnd(first, row)
		j.rows = j.rows[:0]
		for at := row; at < end; at++ {
			for h := range heads {
				j.rows = append(j.rows, source{h, heads[h].List(at), heads[h].ScoreList(at), heads[h].PredictedList(at)})
			}
		}
		j.row(first.Steps[end-1])
		j.made, j.span = append(j.made, int32(end-row)), append(j.span, first.Steps[end-1]-first.Steps[row]+1)
		row = end
	}
	return nil
}

func (j *joiner) reset(info trace.StreamInfo, heads, tokens, blockTokens int) {
	if heads > 1 {
		info.Head = trace.NoHead
	}
	j.out.Reset(info)
	j.out.Rows, j.out.Windows = 0, 0
	j.demand, j.picked, j.made, j.span = j.demand[:0], j.picked[:0], j.made[:0], j.span[:0]
	blocks := (tokens + blockTokens - 1) / blockTokens
	if j.clusters != nil {
		blocks = len(j.clusters.tokens)
	}
	j.place, j.count = policies.Fill(j.place, blocks, 0), policies.Fill(j.count, blocks, 0)
	j.ahead, j.divide = policies.Fill(j.ahead, blocks, 0), divideBy(j.factor)
	for len(j.seen) < heads {
		j.seen = append(j.seen, nil)
	}
}

// groupEnd is the row behind those that make a step with row.
func (j *joiner) groupEnd(s *trace.Stream, row int) int {
	end := row + 1
	if s.Steps[row] < 0 {
		return end
	}
	for end < s.Rows && int(s.Steps[end])/j.mtp == int(s.Steps[row])/j.mtp {
		end++
	}
	return end
}

// row appends the row that j.rows make.
func (j *joiner) row(step int32) {
	begin := len(j.out.Indices)
	j.free, j.local = 0, math.MaxInt32
	if j.clusters != nil { // of a cluster some tokens may be pinned: they are in no unit
		j.free, j.local = int32(j.pins.firstFree()), int32(j.pins.firstLocal(int(j.out.PromptLen+step+1)))
	}
	for r := range j.k {
		for i := range j.rows {
			j.add(&j.rows[i], begin, r, true)
		}
	}
	demand := len(j.out.Indices) - begin
	for r := j.k; r < j.m; r++ {
		for i := range j.rows {
			j.add(&j.rows[i], begin, r, false)
		}
	}
	if !j.ranks {
		j.ascend(begin)
	}
	j.demand = append(j.demand, int32(demand))
	j.close(step)
}

// close ends a row.
func (j *joiner) close(step int32) {
	j.predicted()
	j.out.Steps = append(j.out.Steps, step)
	j.out.Offsets = append(j.out.Offsets, int32(len(j.out.Indices)))
	j.out.Rows++
	if step < 0 {
		j.out.Windows++
	}
	if j.out.Rows == 1 {
		j.out.FirstStep = step
	}
	j.out.LastStep = step
}

// predicted merges what was predicted for the row, rank by rank.
func (j *joiner) predicted() {
	if j.rows[0].ahead == nil {
		return
	}
	longest, now := 0, int32(j.out.Rows)+1
	for i := range j.rows {
		longest = max(longest, len(j.rows[i].ahead))
	}
	for r := range longest {
		for i := range j.rows {
			if r >= len(j.rows[i].ahead) {
				continue
			}
			if b := j.block(j.rows[i].ahead[r]); j.ahead[b] != now {
				j.ahead[b] = now
				j.out.Predicted = append(j.out.Predicted, b)
			}
		}
	}
	if len(j.out.PredictedOffsets) == 0 {
		j.out.PredictedOffsets = append(j.out.PredictedOffsets, 0)
	}
	j.out.PredictedOffsets = append(j.out.PredictedOffsets, int32(len(j.out.Predicted)))
}

// block is the unit of an entry.
func (j *joiner) block(x int32) int32 {
	if j.clusters != nil {
		return j.clusters.of[x]
	}
	return x / int32(j.factor)
}

// add takes the entry of a rank into the row; picked ones are demanded.
func (j *joiner) add(s *source, begin, rank int, picked bool) {
	if rank >= len(s.list) {
		return
	}
	x := s.list[rank]
	if x < j.free || x >= j.local {
		return
	}
	b := j.block(x)
	at := j.place[b] - 1
	if at < int32(begin) {
		at = int32(len(j.out.Indices))
		j.place[b] = at + 1
		j.out.Indices, j.picked = append(j.out.Indices, b), append(j.picked, 0)
		if s.scores != nil {
			j.out.Scores = append(j.out.Scores, s.scores[rank])
		}
	} else if s.scores != nil {
		j.out.Scores[at] = max(j.out.Scores[at], s.scores[rank])
	}
	if !picked {
		return
	}
	if j.mtp > 1 { // two positions may name one entry
		now := int32(len(j.demand)) + 1
		if j.seen[s.head][x] == now {
			return
		}
		j.seen[s.head][x] = now
	}
	j.picked[at]++
}

// ascend sorts a row of a trace whose order means nothing.
func (j *joiner) ascend(begin int) {
	type item struct {
		block, picked int32
		score         float32
	}
	items := make([]item, len(j.out.Indices)-begin)
	for i := range items {
		items[i] = item{block: j.out.Indices[begin+i], picked: j.picked[begin+i]}
		if len(j.out.Scores) > 0 {
			items[i].score = j.out.Scores[begin+i]
		}
	}
	slices.SortFunc(items, func(a, b item) int { return int(a.block - b.block) })
	for i, it := range items {
		j.out.Indices[begin+i], j.picked[begin+i] = it.block, it.picked
		if len(j.out.Scores) > 0 {
			j.out.Scores[begin+i] = it.score
		}
	}
}

// pickedIn returns how many demanded entries each of a row's demanded blocks holds; these
// are given ascending.
func (j *joiner) pickedIn(row int, blocks, dst []int32) []int32 {
	begin, count := j.out.Offsets[row], j.count
	end := begin + j.demand[row]
	picked := j.picked[begin:end]
	for i, b := range j.out.Indices[begin:end] {
		count[b] = picked[i]
	}
	n := len(dst)
	dst = slices.Grow(dst, len(blocks))[:n+len(blocks)]
	for i, b := range blocks {
		dst[n+i] = count[b]
	}
	return dst
}
