package echo

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A block's score corrects its key by five features: its distance from the edge, its quarter of the
// candidates, the number of listed blocks around it, its sharp sum and its slow sum. All but the
// second and the third count halves of powers of two, and the distance of calibrate=fine sixteenths. The
// second and the third are one place of a table: aroundPlace.

// buckets is the number of buckets of a key, and the most values of a feature other than the distance.
const buckets = 64

// mostValues is the number of values of the distance, of which calibrate=fine uses the most.
const mostValues = 512

// mostSums is the number of values of the features of sums, which stay below 2^26. Larger ones are
// not observed.
const mostSums = 26

// calibrator corrects keys by how often blocks with equal features came back. Chances and counts
// are in 1/65536.
type calibrator struct {
	returned, noted    [buckets]int64 // blocks by bucket of their key: those that came back, and all
	observed, expected [5][mostValues]int64
	chance             [buckets]uint32 // that a block comes back, not falling from bucket to bucket

	// corrections of each feature value, in 1/256 of log2
	ofDistance      [mostValues]int32
	ofSharp, ofSlow [buckets]int32
	ofQuarter       [8]int32
	ofAround        [16]int32

	// blocks of the step before, not yet in noted and expected
	noticed   [2]noticed // of blocks by turns, which do not wait for each other
	distances [mostValues]int64
}

// noticed has the number of noted blocks by bucket of their key, and the chances of them by feature.
// The blocks by bucket that are not noted come before those that are.
type noticed struct {
	keys           [2 * buckets]uint64
	arounds        [2 * buckets]uint64
	sharps, slowly [buckets]uint64
}

// aroundPlace is the place of a quarter of the candidates, 0 to 4, and a number of listed blocks,
// 0 to 8.
func aroundPlace(quarter uint8, around int) uint { return uint(quarter)<<4 | uint(around) }

// note has the features of a block at the step before, in a byte each: the slow sum, the sharp sum,
// aroundPlace, and the bucket of its key. isNoted comes on top if it is noted.
type note uint32

const isNoted = buckets << 24

func (n note) slow() int { return int(n & 255) }

func (n note) sharp() int { return int(n >> 8 & 255) }

func (n note) place() uint { return uint(n >> 16 & 255) }

func (n note) key() int { return int(n >> 24 & (buckets - 1)) }

func (c *calibrator) reset() {
	*c = calibrator{}
	for b := range buckets {
		c.returned[b], c.noted[b] = 1<<14, 1<<18
	}
	for f := range c.observed {
		for value := range c.observed[f] {
			c.observed[f][value], c.expected[f][value] = 1<<18, 1<<18
		}
	}
}

// learn adds the blocks that the step before noted, and those of them that came back. edge is the
// edge at that step.
func (h *history) learn(demand []int32, edge int32) {
	c := &h.calibrator
	for _, x := range demand {
		outside := h.assessed[x>>6] &^ h.demanded[x>>6] // of the step before, which noted no members
		if outside>>(x&63)&1 == 0 {
			continue
		}
		n := h.notes[h.place(x)]
		if n&isNoted == 0 {
			continue
		}
		c.returned[n.key()] += 1 << 16
		c.observed[0][h.distance(edge-x)] += 1 << 16
		c.observed[1][n.place()>>4&63] += 1 << 16
		c.observed[2][n.place()&15] += 1 << 16
		c.observed[3][n.sharp()&63] += 1 << 16
		c.observed[4][n.slow()&63] += 1 << 16
	}
	most := int64(0)
	c.gather()
	for b := range buckets {
		most = max(most, c.returned[b]<<16/c.noted[b])
		c.chance[b] = uint32(most)
	}
	for d := range h.distance(max(edge, 1)) + 1 {
		c.expected[0][d] += c.distances[d]
		c.distances[d] = 0
	}
}

// gather adds what was noticed to the counts.
func (c *calibrator) gather() {
	for i := range c.noticed {
		n := &c.noticed[i]
		for b := range buckets {
			c.noted[b] += int64(n.keys[buckets+b]) << 16
		}
		for b := range mostSums {
			c.expected[3][b] += int64(n.sharps[b])
			c.expected[4][b] += int64(n.slowly[b])
		}
		for place, p := range n.arounds[:5<<4] {
			c.expected[1][place>>4] += int64(p)
			c.expected[2][place&15] += int64(p)
		}
		*n = noticed{}
	}
}

// begin sets the corrections for the current step, which has no notes yet. distance is the largest one. One
// feature may correct nothing.
func (c *calibrator) begin(distance, without int) {
	if without >= 0 {
		c.observed[without] = c.expected[without]
	}
	for d := range distance + 1 {
		c.ofDistance[d] = c.offset(0, d)
	}
	for b := range mostSums {
		c.ofSharp[b], c.ofSlow[b] = c.offset(3, b), c.offset(4, b)
	}
	for quarter := range 5 {
		c.ofQuarter[quarter] = c.offset(1, quarter)
	}
	for around := range 2*margin + 1 {
		c.ofAround[around] = c.offset(2, around)
	}
}

// offset returns the logarithm of the observed returns of a feature value in proportion to those
// expected.
func (c *calibrator) offset(feature, value int) int32 {
	return logarithm64(uint64(c.observed[feature][value])) - logarithm64(uint64(c.expected[feature][value]))
}

// correction returns the sum of the corrections of a block's features, weighted by 180/256.
func (c *calibrator) correction(distance int, quarter uint8, around, sharp, slow int) int32 {
	return (c.ofDistance[distance] + c.ofQuarter[quarter&7] + c.ofAround[around&15] + c.ofSharp[sharp&63] + c.ofSlow[slow&63]) * 180 >> 8
}

// assess computes and notes the scores of the blocks of a group in a word.
func (h *history) assess(w int, g *group) {
	c := &h.calibrator
	for i, r := range h.regions[w<<2 : w<<2+4] {
		g.regions[i&3] = r * h.rule.region >> 10
	}
	at := g.at[:g.n]
	above := h.edge - int32(w<<6) // distance of the first block
	far, least := h.distance(above-int32(at[0])), h.distance(above-int32(at[len(at)-1]))
	if far != least {
		g.distance = -1
		for i, b := range at {
			g.correction[i&63] = c.ofDistance[h.distance(above-int32(b))]
		}
	} else if g.distance != far {
		g.distance = far
		for i := range g.correction {
			g.correction[i] = c.ofDistance[far]
		}
	}
	g.kept = h.active[w] &^ h.demanded[w]
	scores, notes := (*[64]int32)(h.scores[h.places[w]:]), (*[64]note)(h.notes[h.places[w]:])
	all := assessGroup(g, c, scores, notes, (*[64]uint8)(h.near[w<<6:]), (*[64 + 2*margin]uint8)(h.listed[w<<6:]))
	if far == least {
		c.distances[far] += int64(all)
		return
	}
	for i, b := range at {
		c.distances[h.distance(above-int32(b))] += int64(g.chances[i&63])
	}
}

// assessPlain computes the places, the scores and the notes of a group's blocks, and the chances of those
// that are kept. It adds the notes to those noticed, and returns the sum of the chances.
func assessPlain(g *group, c *calibrator, scores *[64]int32, notes *[64]note, near *[64]uint8, listed *[64 + 2*margin]uint8) (all uint64) {
	for i, b := range g.at[:g.n] {
		i, b := i&63, b&63
		quarter, around := near[b], around(listed[:], int32(b))
		place := aroundPlace(quarter, around)
		sharp, slow := uint32(ofSharp(g.sharp[i])), uint32(ofSlow(g.slow[i]))
		corrected := (g.correction[i] + c.ofQuarter[quarter&7] + c.ofAround[around&15] + c.ofSharp[sharp] + c.ofSlow[slow]) * 180 >> 8
		l := logarithm(g.key[i] + g.regions[b>>regionBits&3])
		kb, keep := uint32(l)>>7&63, uint32(g.kept>>b&1)
		p := min(uint32(uint64(c.chance[kb])*uint64(power(corrected))>>16), 64000) & -keep
		g.place[i], scores[i], g.chances[i] = uint8(place), l+corrected, p
		notes[i] = note(keep*isNoted | kb<<24 | uint32(place)<<16 | sharp<<8 | slow)
		n := &c.noticed[i&1]
		n.keys[keep*buckets+kb]++
		n.arounds[place&127] += uint64(p)
		n.sharps[sharp] += uint64(p)
		n.slowly[slow] += uint64(p)
		all += uint64(p)
	}
	return all
}

// margin is the number of blocks on each side of a block that are around it.
const margin = 4

// around returns the number of listed blocks within margin places of block x, without x.
func around(listed []uint8, x int32) int {
	set := (*[2*margin + 1]uint8)(listed[x:])
	others := binary.LittleEndian.Uint64(set[:]) &^ (255 << (8 * margin))
	return int(others*bytes>>56) + int(set[2*margin])
}

// ofSharp and ofSlow return the feature values of the sharp and of the slow sum.
func ofSharp(sum uint32) int { return (half(sum+1<<10) - 20) & 31 }

func ofSlow(sum uint32) int { return (half(sum+1<<14) - 28) & 31 }

// distance returns the feature value of a block that is n > 0 blocks below the edge.
func (h *history) distance(n int32) int {
	bits := h.rule.distance & 7
	return (int(floatBits(uint32(n))>>(44+bits)) - 1023<<8>>bits) & (mostValues - 1)
}

// power returns 2^(c/256) in 1/65536, at most 2^32-1. Between powers of two it is linear.
func power(c int32) uint32 {
	z := c + 16<<8
	if z < 0 {
		return 0
	}
	return uint32(min(uint64(256+z&255)<<min(40, uint(z>>8))>>8, math.MaxUint32))
}

// logarithm returns log2 x in 1/256, linear between powers of two and rounded down. That of 0 is 0.
// The exponent of a float64 and the first 8 bits of its fraction are this number. Counting leading
// zeros is slower on some processors.
func logarithm(x uint32) int32 { return int32(floatBits(max(x, 1))>>44) - 1023<<8 }

// half returns logarithm(x) >> 7 for x > 0.
func half(x uint32) int { return int(floatBits(x)>>51) - 1023<<1 }

func floatBits(x uint32) uint64 { return math.Float64bits(float64(int64(x))) }

// logarithm64 is logarithm for more bits.
func logarithm64(x uint64) int32 {
	if b := bits.Len64(x); b > 32 {
		return logarithm(uint32(x>>(b-32))) + int32(b-32)<<8
	}
	return logarithm(uint32(x))
}
