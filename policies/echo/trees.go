package echo

import (
	"math/bits"
	"sync"
)

// With calibrate=trees, decision trees replace the score. Each tree sorts the blocks into 32 leaves, and
// each leaf has a value. The score of a block is the sum of the values of its leaves. The trees were
// trained to predict 2^(-(n-1)/3) in 1/65536, if the next demand of the block is n steps away. A constant
// is left out.

// Features of a block by which trees sort. All are at most 255.
const (
	byScore    = iota // score of calibrate=on, in 1/8 of log2
	byDistance        // distance from the edge, in 1/16 of log2
	byQuarter         // features of calibration, as in its tables
	byAround
	bySharp
	bySlow
	byAge  // steps since the last demand, or 64 if the last 64 steps have none
	byGap  // steps since the last demand but one, likewise
	byRate // demands per step since the beginning of the stream, as the logarithm of 1 + 256 times it, in 1/8
	byStep // number of the step
	features
)

const (
	leaves  = 32
	answers = 256 // values of a feature
)

// described has the features of a block.
type described [features]uint8

// split sends the blocks of a leaf whose feature is above a value to a new leaf.
type split struct{ leaf, feature, above uint8 }

// tree has the splits of a tree in order, and the values of its leaves. All blocks begin in leaf 0. Split
// i makes leaf i+1.
type tree struct {
	splits [leaves - 1]split
	values [leaves]int32
}

// reach has the leaves of each tree that blocks with a given value of a feature may reach, one bit per
// leaf. A word has the leaves of two trees. All features of a block together leave one leaf of each tree.
type reach [features][answers][len(trees) / 2]uint64

// reached returns the table of the trees.
var reached = sync.OnceValue(func() *reach {
	table := new(reach)
	for f := range table {
		for value := range table[f] {
			for i := range trees {
				table[f][value][i/2] |= uint64(trees[i].reach(uint8(f), uint8(value))) << (i % 2 * leaves)
			}
		}
	}
	return table
})

// reach returns the leaves that blocks with a value of a feature reach, whatever their other features.
func (t *tree) reach(feature, value uint8) uint32 {
	all := uint32(1)
	for i, s := range t.splits {
		switch {
		case all>>s.leaf&1 == 0:
		case s.feature != feature:
			all |= 1 << (i + 1)
		case value > s.above:
			all = all&^(1<<s.leaf) | 1<<(i+1)
		}
	}
	return all
}

// score returns the sum of the values of a block's leaves.
func (r *reach) score(d *described) (sum int32) {
	all := r[0][d[0]]
	for f := 1; f < features; f++ {
		for i, leaves := range &r[f][d[f]] {
			all[i] &= leaves
		}
	}
	for i, two := range all {
		sum += trees[2*i].values[bits.TrailingZeros32(uint32(two))&(leaves-1)] +
			trees[2*i+1].values[bits.TrailingZeros32(uint32(two>>leaves))&(leaves-1)]
	}
	return sum
}

// describe returns the features of a block by its score of calibrate=on, by its aroundPlace and by the
// features of its sums.
func (h *history) describe(x, score int32, place uint, sharp, slow int) *described {
	past := bits.RotateLeft64(h.past[x], 63-h.t&63) // the current step in the highest bit
	age := bits.LeadingZeros64(past)
	gap := bits.LeadingZeros64(past &^ (1 << 63 >> age))
	rate := logarithm(1 + h.uses[x]<<8/uint32(max(1, h.t+1))) // a stream of a pool may have had no step
	d := &h.described
	d[byScore], d[byDistance] = limited(score>>5), limited(logarithm(uint32(max(0, h.edge-x)))>>4)
	d[byQuarter], d[byAround] = uint8(place>>4), uint8(place&15)
	d[bySharp], d[bySlow] = uint8(sharp), uint8(slow)
	d[byAge], d[byGap] = uint8(age), uint8(gap)
	d[byRate], d[byStep] = limited(rate>>5), limited(int32(h.t))
	return d
}

func limited(value int32) uint8 { return uint8(min(answers-1, max(0, value))) }

// sort replaces the scores of a group's blocks outside D_t by those of the trees.
func (h *history) sort(w int, g *group, r *reach) {
	scores, notes := (*[64]int32)(h.scores[h.places[w]:]), (*[64]note)(h.notes[h.places[w]:])
	for i, b := range g.at[:g.n] {
		if n := notes[i&63]; h.demanded[w]>>(b&63)&1 == 0 {
			scores[i&63] = r.score(h.describe(int32(w<<6|int(b)), scores[i&63], n.place(), n.sharp(), n.slow()))
		}
	}
}
