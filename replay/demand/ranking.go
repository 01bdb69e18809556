package demand

import (
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// ranking is the part of a Joiner that makes the ranked lists of its rows.
//
// It merges the recorded lists of a row rank by rank, and a unit takes the best rank of its entries.
// The units that the first K of any list name come first, then the other units up to M. The score of
// a unit is the largest score of its entries.
type ranking struct {
	demand  []int32 // by row: number of demanded units. Empty until the lists are made
	place   []int32 // by unit: 1 + its latest place in out.Indices, which may be in an earlier row
	parts   []rankedPart[int32]
	weights []rankedPart[float32]
	entries []int32   // entries of all lists of a row, rank by rank
	scores  []float32 // parallel to entries
	merged  []int32   // units of entries
}

func (k *ranking) reset(units int) {
	k.demand, k.place = k.demand[:0], policies.Fill(k.place, units, 0)
}

// list returns the ranked list of a row and the number of its first units that are demanded. The
// first call makes all lists.
func (j *Joiner) list(row int) ([]int32, int) {
	if len(j.demand) == 0 {
		for row := range j.out.Rows {
			j.rank(row)
		}
	}
	return j.out.List(row), int(j.demand[row])
}

// rank makes the list of a row.
func (j *Joiner) rank(row int) {
	begin := len(j.out.Indices)
	entries, scores, demanded := j.merge(row)
	units := j.unitsOf(entries)
	j.out.Indices = grow(j.out.Indices, len(units)+1)
	demand := j.gather(begin, 0, units[:demanded])
	end := begin + j.gather(begin, demand, units[demanded:])
	j.out.Indices = j.out.Indices[:end]
	if scores != nil {
		j.addScores(begin, end, units, scores)
	}
	if !j.Ranks {
		j.ascend(begin)
	}
	j.demand, j.out.Offsets = append(j.demand, int32(demand)), append(j.out.Offsets, int32(end))
}

// merge returns the entries of a row rank by rank, with their scores. demanded is the number of
// first entries that are demanded.
func (j *Joiner) merge(row int) (entries []int32, scores []float32, demanded int) {
	j.parts, j.weights = j.parts[:0], j.weights[:0]
	scored := j.heads[0].ScoreList(int(j.starts[row])) != nil
	for at := int(j.starts[row]); at < int(j.starts[row+1]); at++ {
		for h := range j.heads {
			list := j.heads[h].List(at)
			list = list[:min(j.M, len(list))]
			demanded += min(j.K, len(list))
			j.parts = append(j.parts, rankedPart[int32]{list: list})
			if scored {
				j.weights = append(j.weights, rankedPart[float32]{list: j.heads[h].ScoreList(at)[:len(list)]})
			}
		}
	}
	j.entries = mergeRanks(j.entries[:0], j.parts)
	if scored {
		j.scores = mergeRanks(j.scores[:0], j.weights)
		scores = j.scores
	}
	if j.clusters == nil {
		return j.entries, scores, demanded
	}
	return j.dropPinned(row, demanded, scores)
}

// dropPinned removes pinned entries and their scores. It returns the rest, and the number of
// demanded entries in it.
func (j *Joiner) dropPinned(row, demanded int, scores []float32) (entries []int32, left []float32, of int) {
	free, local := j.free(row)
	n := 0
	for i, x := range j.entries {
		if i == demanded {
			of = n
		}
		if x < free || x >= local {
			continue
		}
		if j.entries[n] = x; scores != nil {
			scores[n] = scores[i]
		}
		n++
	}
	if demanded == len(j.entries) {
		of = n
	}
	if scores != nil {
		scores = scores[:n]
	}
	return j.entries[:n], scores, of
}

// unitsOf returns the unit of each entry.
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
		merged[i] = int32(v.Quotient(uint32(x)))
	}
	return merged
}

// gather adds units to the list of n units that begins at begin. It skips units that the list has,
// and returns the new number of units. To avoid mispredicted branches, it writes every unit behind
// the last one, and counts it only if the list lacked it.
func (j *Joiner) gather(begin, n int, units []int32) int {
	out, place := j.out.Indices[begin:begin+n+len(units)+1], j.place
	for _, b := range units {
		at := int(place[b]) - 1 - begin
		fresh := at >> 63 // all ones if the list lacks the unit
		at = at&^fresh | n&fresh
		out[n] = b
		place[b] = int32(begin + at + 1)
		n -= fresh
	}
	return n
}

// addScores adds a score for each unit of the list [begin, end): the largest score of its entries.
func (j *Joiner) addScores(begin, end int, units []int32, scores []float32) {
	for range end - begin {
		j.out.Scores = append(j.out.Scores, float32(math.Inf(-1)))
	}
	for i, b := range units {
		at := &j.out.Scores[j.place[b]-1]
		*at = max(*at, scores[i])
	}
}

// ascend sorts the list that begins at begin by unit, for traces whose lists have no ranks.
func (j *Joiner) ascend(begin int) {
	indices := j.out.Indices[begin:]
	if slices.IsSorted(indices) {
		return
	}
	if len(j.out.Scores) == 0 {
		slices.Sort(indices)
		return
	}
	type item struct {
		unit  int32
		score float32
	}
	items, scores := make([]item, len(indices)), j.out.Scores[begin:]
	for i := range items {
		items[i] = item{indices[i], scores[i]}
	}
	slices.SortFunc(items, func(a, b item) int { return int(a.unit - b.unit) })
	for i, it := range items {
		indices[i], scores[i] = it.unit, it.score
	}
}

// rankedPart is a list without its first ranks. mergeRanks adds base to its items.
type rankedPart[T int32 | float32] struct {
	list []T
	from int
	base T
}

// mergeRanks appends the parts to dst rank by rank. It works in stretches of ranks that the same
// parts have, in which it writes the items of a part at equal distances.
func mergeRanks[T int32 | float32](dst []T, parts []rankedPart[T]) []T {
	const stretch = 128 // ranks. A longer stretch would exceed the processor's cache
	most := 0
	for _, p := range parts {
		most = max(most, len(p.list))
	}
	for rank := 0; rank < most; {
		end, here := min(most, rank+stretch), 0
		for _, p := range parts {
			switch {
			case rank < p.from:
				end = min(end, p.from)
			case rank < len(p.list):
				end = min(end, len(p.list))
				here++
			}
		}
		n := len(dst)
		dst = slices.Grow(dst, here*(end-rank))[:n+here*(end-rank)]
		for _, p := range parts {
			if rank < p.from || rank >= len(p.list) {
				continue
			}
			at := n
			for _, x := range p.list[rank:end] {
				dst[at] = p.base + x
				at += here
			}
			n++
		}
		rank = end
	}
	return dst
}
