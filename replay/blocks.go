package replay

import (
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

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

// alone reports whether the rows of the layout are single lists, cut to blocks of so few
// entries that a word tells which of them are there.
func (l layout) alone() bool {
	return l.heads == 1 && l.mtp == 1 && !l.clustered && l.factor > 1 && l.factor <= 64
}

// quick reports whether the rows of a stream are single lists, which joiner.single makes.
// Without ranks a block's first entry need not have its largest score.
func (j *joiner) quick(s *trace.Stream) bool {
	return j.alone() && !j.slow && (j.ranks || len(s.Scores) == 0)
}

// single appends the blocks of a row that one list makes, as joiner.row does, and reports
// whether the list breaks no rule: not empty, in range of a context of that many entries,
// distinct, ascending without ranks.
func (j *joiner) single(list []int32, scores []float32, entries int) bool {
	if len(list) == 0 || !j.ranks && !slices.IsSorted(list) {
		return false
	}
	begin, k := len(j.out.Indices), min(j.k, len(list))
	j.out.Indices = slices.Grow(j.out.Indices, len(list)+1)
	j.masks, j.firsts = slices.Grow(j.masks[:0], len(list)+1), slices.Grow(j.firsts[:0], len(list)+1)
	demand, sound := j.gather(begin, 0, list[:k], 0, entries)
	j.picked = slices.Grow(j.picked, len(list))
	picked := j.picked[begin : begin+len(list)]
	j.counts = slices.Grow(j.counts[:0], len(list))
	named := countEntries(picked, j.masks[:demand])
	total, candidates := demand, true
	if k < len(list) {
		total, candidates = j.gather(begin, demand, list[k:], k, entries)
		named = countEntries(j.counts[:len(list)], j.masks[:total])
		clear(picked[demand:total])
	}
	j.out.Indices, j.picked = j.out.Indices[:begin+total], j.picked[:begin+total]
	if scores != nil {
		for _, r := range j.firsts[:total] { // of a block's entries the first has the largest: ranks
			j.out.Scores = append(j.out.Scores, scores[r])
		}
	}
	j.demand = append(j.demand, int32(demand))
	return sound && candidates && named == len(list)
}

// countEntries writes down how many entries of each block are there, and returns their sum.
func countEntries(dst []int32, masks []uint64) (sum int) {
	dst = dst[:len(masks)]
	for i, mask := range masks {
		n := bits.OnesCount64(mask)
		dst[i] = int32(n)
		sum += n
	}
	return sum
}

// gather takes entries, whose first has the given rank, into a row that begins at begin and
// has n blocks, and returns how many it has then; false where an entry is out of range. No
// branch depends on whether an entry's block is there already: every block is written
// behind the last, and stays if it was not. In place are blocks' places in out.Indices, from
// 1; those of rows before are stale.
func (j *joiner) gather(begin, n int, list []int32, rank, entries int) (int, bool) {
	room := n + len(list) + 1
	blocks, masks, firsts, place := j.out.Indices[begin:begin+room], j.masks[:room], j.firsts[:room], j.place
	factor := uint32(j.factor)
	for i, x := range list {
		if uint32(x) >= uint32(entries) {
			return n, false
		}
		b := j.divide.quotient(uint32(x))
		at := int(place[b]) - 1 - begin
		fresh := at >> 63 // all ones where the row lacks the block
		at = at&^fresh | n&fresh
		blocks[n], firsts[n] = int32(b), int32(rank+i)
		masks[at] = masks[at]&^uint64(fresh) | 1<<((uint32(x)-b*factor)&63)
		place[b] = int32(begin + at + 1)
		n -= fresh
	}
	return n, true
}
