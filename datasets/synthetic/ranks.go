package synthetic

import "math"

// A block's score is thought of as a path that crosses the K-th best score when the
// block enters the demand and when it leaves: seen a steps after one crossing and r
// steps before the other, its distance from the threshold is √(E·h), 1/h = 1/a + 1/r,
// with E drawn anew from the exponential law. So a random walk behaves between two
// visits of a level. Ranks need only the order of E·h, in buckets of a sixth of an
// octave.
const (
	perOctave = 6
	timeBins  = 64
)

// The tables behind bucketOf.
var (
	timeBin  [1 << 16]uint8  // of a time in steps
	distance [256 << 6]uint8 // bucket of h by the bins of a and r; any bytes are in range
	noise    [256]uint8      // bucket of E by quantile
)

func init() {
	var middle [timeBins]float64
	for a := range timeBin {
		bin := a
		if a > 8 { // exact up to 8, then eight to an octave, 1,024 and more in the last
			bin = 8 + int(8*math.Log2(float64(a)/8))
		}
		timeBin[a] = uint8(min(bin, timeBins-1))
		if a <= 1024 {
			middle[timeBin[a]] = float64(max(1, a))
		}
	}
	for a, x := range middle {
		for r, y := range middle {
			distance[a<<6|r] = uint8(perOctave * (1 + math.Log2(x*y/(x+y)))) // h from ½ to 512
		}
	}
	for i := range noise {
		e := -math.Log1p(-(float64(i) + 0.5) / 256) // from 2^−9 to 2^2.7
		noise[i] = uint8(perOctave * (9 + math.Log2(e)))
	}
}

// bucketOf is the bucket of E·h, nearest to the threshold first; bits choose E.
func bucketOf(a, r uint16, bits uint8) uint8 {
	return distance[int(timeBin[a])<<6|int(timeBin[r])] + noise[bits]
}

// ranker turns a process into rows: the demand in rank order, then the candidates.
type ranker struct {
	p        *process
	demanded []run
	keys     []uint8
	listed   []uint64 // bitset of blocks: demanded, or among the candidates
	near     []candidate
}

type candidate struct {
	block int32
	key   uint8
}

// begin starts before the demand of step t.
func (k *ranker) begin(p *process, t int) {
	k.p, k.demanded = p, k.demanded[:0]
	k.listed = resized(k.listed, len(p.blocks)>>6+1)
	clear(k.listed)
	for _, r := range p.runs[:p.first[t]] {
		if int(r.exit) > t {
			k.enter(r)
		}
	}
}

func (k *ranker) enter(r run) {
	k.demanded = append(k.demanded, r)
	k.list(r.block)
}

func (k *ranker) list(x int32)          { k.listed[x>>6] |= 1 << (x & 63) }
func (k *ranker) unlist(x int32)        { k.listed[x>>6] &^= 1 << (x & 63) }
func (k *ranker) isListed(x int32) bool { return k.listed[x>>6]&(1<<(x&63)) != 0 }

// demand goes on to step t from the step before and writes its demand to list, best
// first.
func (k *ranker) demand(t int, list []int32) []int32 {
	p := k.p
	for _, d := range p.left[p.gone[t]:p.gone[t+1]] {
		k.unlist(d.block)
	}
	for _, r := range p.runs[p.first[t]:p.first[t+1]] {
		k.enter(r)
	}
	starts := k.measure(uint16(t))
	list = resized(list, len(k.demanded))
	for i, r := range k.demanded {
		at := &starts[k.keys[i]]
		list[*at] = r.block
		*at++
	}
	return list
}

// measure forgets what left, draws the distance of every other block from the threshold,
// and returns where the blocks of each distance begin, the farthest first.
func (k *ranker) measure(now uint16) *[256]int32 {
	var count [256]int32
	k.keys = resized(k.keys, len(k.demanded))
	demanded, keys := k.demanded, k.keys[:len(k.demanded)]
	n := 0
	var bits uint64
	for i, r := range demanded {
		if i&7 == 0 {
			bits = k.p.pcg.Uint64()
		}
		if r.exit > now {
			key := 255 - bucketOf(now-r.enter+1, r.exit-now, uint8(bits>>(i&7*8)))
			demanded[n], keys[n] = r, key
			count[key]++
			n++
		}
	}
	k.demanded = demanded[:n]
	starts(&count)
	return &count
}

// starts turns counts into the places where each begins.
func starts(count *[256]int32) {
	sum := int32(0)
	for i, n := range count {
		count[i] = sum
		sum += n
	}
}
