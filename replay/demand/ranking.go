package demand

import (
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// ranking is the part of a Joiner that makes the ranked lists of its rows.
//
// The lists that make a row are merged rank by rank. A unit takes the best rank of any of its
// entries: first all that the first K of any list name, then the rest up to M. Its score is the
// largest of its entries' scores.
type ranking struct {
	demand  []int32 // by row: units that the first K of a list name. It is empty before lists are made
	place   []int32 // by unit: 1 + its place in the lists, an earlier row's if the current row lacks it
	parts   []rankedPart[int32]
	weights []rankedPart[float32]
	entries []int32   // of all lists of a row, rank by rank
	scores  []float32 // parallel to entries
	merged  []int32   // units of entries
}

func (k *ranking) reset(units int) {
	k.demand, k.place = k.demand[:0], policies.Fill(k.place, units, 0)
}

// list is the ranked list of a row and the number of its units that are demanded. The first call
// makes all lists.
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

// merge lists the entries of a row, rank by rank, and their scores. The first demanded of them are
// demanded.
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

// dropPinned takes the entries and scores out that are pinned.
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

// gather adds units to the list that begins at begin and has n units, and returns how many it
// has then. No branch depends on whether the list has a unit: every unit is written behind the
// last, and stays if the list lacked it.
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

// addScores gives each unit of the list from begin to end the largest score of its entries.
func (j *Joiner) addScores(begin, end int, units []int32, scores []float32) {
	for range end - begin {
		j.out.Scores = append(j.out.Scores, float32(math.Inf(-1)))
	}
	for i, b := range units {
		at := &j.out.Scores[j.place[b]-1]
		*at = max(*at, scores[i])
	}
}

// ascend sorts a list of a trace whose order means nothing.
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

// rankedPart is a list from a rank on, whose items are raised by base.
type rankedPart[T int32 | float32] struct {
	list []T
	from int
	base T
}

// mergeRanks appends the parts rank by rank to dst. It takes the ranks in stretches in which the
// same parts have every rank: each part then fills places at one distance.
func mergeRanks[T int32 | float32](dst []T, parts []rankedPart[T]) []T {
	const stretch = 128 // ranks, so that the places are near each other
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
