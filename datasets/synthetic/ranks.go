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

// bucketOf is the bucket of h, nearest to the threshold first, a steps after one crossing
// and r before the other.
func bucketOf(a, r uint16) uint8 { return distance[int(timeBin[a])<<6|int(timeBin[r])] }

// ranker turns a process into rows: the demand in rank order, then the candidates.
//
// The demand is kept in the order of h, which is made anew every few steps; until then
// blocks keep their places, and those that enter come last. Blocks far from either crossing
// lead. A row is that order with noise: one of several shuffles that were drawn for the
// distances at the beginning.
type ranker struct {
	p        *process
	now      int // step
	settled  []run
	leaders  []int32  // the blocks of settled
	moving   []run    // the rest of the demand, the farthest from the threshold first
	before   []run    // moving as it was before it was put in order
	lasting  []uint64 // bitset of the demanded
	order    order
	h        []uint8   // buckets of what moved at the beginning, in its order
	shuffles [][]int32 // places of as many, by shuffle and by place in order
	outside  outside
}

const (
	sorting = 8       // steps from one order to the next
	farAway = sorting // steps after entering and before leaving of those that lead
	noises  = 16      // shuffles to choose from
)

// begin starts at step t. It is all that demand by index needs; ranks need rank too.
func (k *ranker) begin(p *process, t int) {
	k.p, k.now, k.settled, k.moving = p, t, k.settled[:0], k.moving[:0]
	k.lasting = resized(k.lasting, len(p.blocks)>>6+1)
	clear(k.lasting)
	for _, r := range p.runs[:p.first[t+1]] {
		if int(r.exit()) > t {
			k.moving = append(k.moving, r)
		}
	}
	k.last(k.moving)
}

// rank puts the demand of the first step in order, and draws the shuffles.
func (k *ranker) rank() {
	k.sort()
	k.h = k.h[:0]
	for _, r := range k.moving {
		k.h = append(k.h, r.bucket(k.now))
	}
	k.shuffles = k.order.shuffles(noises, k.h, k.p.random, k.shuffles)
}

// demand fills list with the demand of the step, best first: as many in order as led at the
// beginning, then the others, shuffled.
func (k *ranker) demand(list []int32) {
	places := k.shuffles[k.p.random.below(int32(len(k.shuffles)))]
	list, rest := list[:len(list)-len(places)], list[len(list)-len(places):]
	n := copy(list, k.leaders)
	first, late := k.moving[:len(list)-n], k.leaders[n:] // fewer lead than then, or more
	for i, r := range first {
		list[n+i] = r.block()
	}
	for i, x := range late {
		rest[places[i]] = x
	}
	places = places[len(late):]
	for i, r := range k.moving[len(first):] {
		rest[places[i]] = r.block()
	}
}

// advance goes on to the next step.
func (k *ranker) advance() {
	entering := k.follow()
	k.forget()
	k.moving = append(k.moving, entering...)
	if k.now%sorting == 0 {
		k.sort()
	}
}

// follow goes on to the next step as far as demand by index needs it, and returns the runs
// that begin there.
func (k *ranker) follow() []run {
	k.now++
	p, lasting := k.p, k.lasting
	for _, x := range p.left[p.gone[k.now]:p.gone[k.now+1]] {
		lasting[x>>6] &^= 1 << (x & 63)
	}
	entering := p.runs[p.first[k.now]:p.first[k.now+1]]
	k.last(entering)
	return entering
}

func (k *ranker) last(runs []run) {
	lasting := k.lasting
	for _, r := range runs {
		x := r.block()
		lasting[x>>6] |= 1 << (x & 63)
	}
}

// forget drops the runs that have ended before the step, without a branch: none could
// foretell them. Those that lead have not.
func (k *ranker) forget() {
	moving, now, n := k.moving, uint16(k.now), 0
	for _, r := range moving {
		moving[n] = r
		n += more(r.exit(), now)
	}
	k.moving = moving[:n]
}

// more is 1 if a exceeds b, else 0.
func more(a, b uint16) int { return int((uint32(b) - uint32(a)) >> 31) }

// sort puts the demand in order.
func (k *ranker) sort() {
	k.settle(uint16(k.now))
	before, moving := k.moving, resized(k.before, len(k.moving))
	k.order.keys = resized(k.order.keys, len(before))
	for i, r := range before {
		k.order.keys[i] = farthest - r.bucket(k.now)
	}
	k.order.count()
	for i, r := range before {
		moving[k.order.place(i)] = r
	}
	k.before, k.moving = before, moving
}

// settle chooses who leads: those that led, and then others.
func (k *ranker) settle(now uint16) {
	settled := append(k.settled, k.moving...)
	moving := resized(k.moving, len(settled))
	n, m := 0, 0
	for _, r := range settled {
		leads := more(now-r.enter(), farAway-1) & more(r.exit()-now, sorting+farAway)
		settled[n], moving[m] = r, r
		n, m = n+leads, m+1-leads
	}
	k.settled, k.moving = settled[:n], moving[:m]
	k.leaders = k.leaders[:0]
	for _, r := range k.settled {
		k.leaders = append(k.leaders, r.block())
	}
}
