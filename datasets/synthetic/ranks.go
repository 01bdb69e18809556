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
//
// Blocks far from either crossing lead the demand, in an order that they keep for some
// steps; only the others, which may leave, are measured anew at each step.
type ranker struct {
	p       *process
	settled []run
	leaders []int32 // the blocks of settled
	moving  []run   // the rest of the demand
	keys    []uint8 // by place in moving, or in near
	places  places
	listed  []uint64 // bitset of blocks: demanded, or among the candidates of the step in hand
	lasting []uint64 // bitset of the demanded
	near    []int32  // candidates
}

const (
	settling = 8            // steps from one choice of who leads to the next
	farAway  = 2 * settling // steps after entering and before leaving of those that lead
)

// begin starts before the demand of step t.
func (k *ranker) begin(p *process, t int) {
	k.p, k.settled, k.leaders, k.moving = p, k.settled[:0], k.leaders[:0], k.moving[:0]
	k.lasting = resized(k.lasting, len(p.blocks)>>6+1)
	clear(k.lasting)
	for _, r := range p.runs[:p.first[t]] {
		if int(r.exit) > t {
			k.enter(r)
		}
	}
}

func (k *ranker) enter(r run) {
	k.moving = append(k.moving, r)
	k.lasting[r.block>>6] |= 1 << (r.block & 63)
}

func (k *ranker) list(x int32)          { k.listed[x>>6] |= 1 << (x & 63) }
func (k *ranker) isListed(x int32) bool { return k.listed[x>>6]&(1<<(x&63)) != 0 }

// demand goes on to step t from the step before and fills list with its demand, best
// first.
func (k *ranker) demand(t int, list []int32) {
	p := k.p
	for _, d := range p.left[p.gone[t]:p.gone[t+1]] {
		k.lasting[d.block>>6] &^= 1 << (d.block & 63)
	}
	k.forget(uint16(t))
	for _, r := range p.runs[p.first[t]:p.first[t+1]] {
		k.enter(r)
	}
	if t%settling == 0 {
		k.settle(uint16(t))
	}
	k.measure(uint16(t))
	k.places.of(k.keys)
	list = list[copy(list, k.leaders):]
	places, keys := &k.places, k.keys[:len(k.moving)]
	for i, r := range k.moving {
		at := &places[i&1][keys[i]]
		list[*at] = r.block
		*at++
	}
}

// forget drops what left, without a branch: none could foretell it.
func (k *ranker) forget(now uint16) {
	moving, n := k.moving, 0
	for _, r := range moving {
		moving[n] = r
		n -= int((int32(now) - int32(r.exit)) >> 31)
	}
	k.moving = moving[:n]
}

// settle chooses who leads until the next choice.
func (k *ranker) settle(now uint16) {
	leads := func(r run) bool { return now-r.enter >= farAway && r.exit-now > settling+farAway }
	n := 0
	for _, r := range k.settled {
		if leads(r) {
			k.settled[n] = r
			n++
		} else {
			k.moving = append(k.moving, r)
		}
	}
	k.settled = k.settled[:n]
	n = 0
	for _, r := range k.moving {
		if leads(r) {
			k.settled = append(k.settled, r)
		} else {
			k.moving[n] = r
			n++
		}
	}
	k.moving = k.moving[:n]
	k.leaders = k.leaders[:0]
	for _, r := range k.settled {
		k.leaders = append(k.leaders, r.block)
	}
}

// measure draws the distance of every moving block from the threshold; the farthest has
// the smallest key.
func (k *ranker) measure(now uint16) {
	k.keys = resized(k.keys, len(k.moving))
	keys, random := k.keys[:len(k.moving)], k.p.random
	var bits uint64
	for i, r := range k.moving {
		if i&7 == 0 {
			bits = random.Uint64()
		}
		keys[i] = 255 - bucketOf(now-r.enter+1, r.exit-now, uint8(bits>>(i&7*8)))
	}
}

// places are where the elements of each key begin in an order by key: those with even
// and those with odd numbers, counted apart as that is faster.
type places [2][256]int32

func (p *places) of(keys []uint8) {
	*p = places{}
	for i, key := range keys {
		p[i&1][key]++
	}
	sum := int32(0)
	for key := range p[0] {
		even, odd := p[0][key], p[1][key]
		p[0][key], p[1][key] = sum, sum+even
		sum += even + odd
	}
}
