package synthetic

import (
	"math"
	"math/bits"
	"slices"
)

// A block's score is modelled as a path. It crosses the K-th best score when the block enters the
// demand and when it leaves. At a steps after one crossing and r steps before the other, its
// distance from the threshold is √(E·h). Here 1/h = 1/a + 1/r, and E is drawn anew from the
// exponential law. A random walk behaves in this way between two visits of a level. Ranks need only
// the order of E·h, in buckets of a sixth of an octave.
const (
	perOctave = 6
	timeBins  = 64
)

// The tables behind bucketOf.
var (
	timeBin  [1 << 16]uint8  // of a time in steps
	distance [256 << 6]uint8 // bucket of h by the bins of a and r. Any bytes are in range
	noise    [256]uint8      // bucket of E by quantile
)

func init() {
	var middle [timeBins]float64
	for a := range timeBin {
		bin := a
		if a > 8 { // exact up to 8, then eight per octave. The last one has 1,024 and more
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

// bucketOf returns the bucket of h, nearest to the threshold first, a steps after one crossing and
// r before the other.
func bucketOf(a, r uint16) uint8 { return distance[int(timeBin[a])<<6|int(timeBin[r])] }

// ranker turns a process into rows: the demand in rank order, then the candidates.
//
// The demand is kept in the order of h, which is computed again every few steps. Until then blocks
// keep their places, and new ones come last. Blocks far from both crossings lead. A row is that
// order with noise: one of several shuffles that were drawn for the initial distances.
type ranker struct {
	p        *process
	now      int // step
	leading  []run
	leaders  []int32  // the blocks of leading
	moving   []run    // the rest of the demand, the farthest from the threshold first
	before   []run    // moving before it was sorted
	lasting  []uint64 // bitset of the demanded blocks
	order    order
	h        []uint8   // buckets of the initial moving runs, in their order
	shuffles [][]int32 // places of these runs, by shuffle and by place in order
	outside  outside
}

const (
	sorting = 8       // steps from one order to the next
	farAway = sorting // steps after entering and before leaving of the leading blocks
	noises  = 16      // number of shuffles
)

// begin starts at step t. Demand by index needs only begin. Ranks need rank too.
func (k *ranker) begin(p *process, t int) {
	k.p, k.now, k.leading, k.moving = p, t, k.leading[:0], k.moving[:0]
	k.lasting = resized(k.lasting, len(p.blocks)>>6+1)
	clear(k.lasting)
	for _, r := range p.runs[:p.first[t+1]] {
		if int(r.exit()) > t {
			k.moving = append(k.moving, r)
		}
	}
	k.last(k.moving)
}

// rank sorts the demand of the first step and draws the shuffles.
func (k *ranker) rank() {
	k.sort()
	k.h = k.h[:0]
	for _, r := range k.moving {
		k.h = append(k.h, r.bucket(k.now))
	}
	k.shuffles = k.order.shuffles(noises, k.h, k.p.random, k.shuffles)
}

// demand fills list with the demand of the step, best first. The initial number of leading blocks
// comes first, in order. The others follow, shuffled.
func (k *ranker) demand(list []int32) {
	places := k.shuffles[k.p.random.intN(int32(len(k.shuffles)))]
	list, rest := list[:len(list)-len(places)], list[len(list)-len(places):]
	n := copy(list, k.leaders)
	first, late := k.moving[:len(list)-n], k.leaders[n:] // fewer blocks lead than initially, or more
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

func (k *ranker) advance() {
	entering := k.follow()
	k.forget()
	k.moving = append(k.moving, entering...)
	if k.now%sorting == 0 {
		k.sort()
	}
}

// follow goes to the next step, as far as demand by index needs it, and returns the runs that begin
// there.
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

// forget drops the runs that have ended before the step, without a branch that could not be
// predicted. Leading runs have not ended.
func (k *ranker) forget() {
	moving, now, n := k.moving, uint16(k.now), 0
	for _, r := range moving {
		moving[n] = r
		n += more(r.exit(), now)
	}
	k.moving = moving[:n]
}

// more returns 1 if a exceeds b, otherwise 0.
func more(a, b uint16) int { return int((uint32(b) - uint32(a)) >> 31) }

func (k *ranker) sort() {
	k.lead(uint16(k.now))
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

// lead chooses the leading runs: the previous ones, and then others.
func (k *ranker) lead(now uint16) {
	leading := append(k.leading, k.moving...)
	moving := resized(k.moving, len(leading))
	n, m := 0, 0
	for _, r := range leading {
		leads := more(now-r.enter(), farAway-1) & more(r.exit()-now, sorting+farAway)
		leading[n], moving[m] = r, r
		n, m = n+leads, m+1-leads
	}
	k.leading, k.moving = leading[:n], moving[:m]
	k.leaders = k.leaders[:0]
	for _, r := range k.leading {
		k.leaders = append(k.leaders, r.block())
	}
}

// ascending fills list with the demand of the step by index, for traces without ranks.
func (k *ranker) ascending(list []int32) {
	n, words := 0, k.lasting
	for i, w := range words {
		if n+64 > len(list) { // less room is left than a word may need
			n = appendBits(list, n, int32(i<<6), w)
			continue
		}
		base, end := int32(i<<6), n+bits.OnesCount64(w)
		for ; n < end; n += 4 { // four at a time, present or not
			four := list[n : n+4 : n+4]
			four[0] = base + int32(bits.TrailingZeros64(w))
			w &= w - 1
			four[1] = base + int32(bits.TrailingZeros64(w))
			w &= w - 1
			four[2] = base + int32(bits.TrailingZeros64(w))
			w &= w - 1
			four[3] = base + int32(bits.TrailingZeros64(w))
			w &= w - 1
		}
		n = end
	}
}

// appendBits writes base plus the number of each bit of a set into list, from n on. It returns
// their end.
func appendBits(list []int32, n int, base int32, set uint64) int {
	for ; set != 0; set &= set - 1 {
		list[n] = base + int32(bits.TrailingZeros64(set))
		n++
	}
	return n
}

// outside draws candidates: blocks that a step does not demand.
type outside struct {
	plan    plan
	listed  []uint64 // bitset of blocks: demanded, or candidates of the current step
	missing []int32  // ranks that any block may fill
}

// candidates fills list with blocks that the step does not demand, best first. A share of Near/x of
// the blocks that left x steps before, or will enter x steps after, is listed. Any blocks fill the
// rest.
func (k *ranker) candidates(list []int32) {
	o, p, t := &k.outside, k.p, k.now
	o.plan.set(p.dials.Near, max(1, churnOf(&p.dials, float64(p.topK))), len(list))
	o.listed = append(o.listed[:0], k.lasting...)
	ranks, spans := o.plan.ranks[p.random.intN(int32(len(o.plan.ranks)))], len(o.plan.spans)
	limit := int32(p.tokens + t) // no token of the future
	o.missing = append(o.missing[:0], ranks[2*spans:]...)
	o.drawNear(list, p.left[:p.gone[t+1]], p.runs[p.first[t+1]:], limit, ranks[:2*spans], p.random)
	o.drawAny(list, limit, p.random)
}

// add puts block x into a set. It returns 1 if x is new, otherwise 0.
func add(listed []uint64, x int32) int {
	w := &listed[x>>6]
	fresh := ^*w >> (x & 63) & 1
	*w |= 1 << (x & 63)
	return int(fresh)
}

// drawNear draws from the blocks that left, the last one last, and from the runs that begin next.
func (o *outside) drawNear(list, left []int32, next []run, limit int32, ranks []int32, r *random) {
	random, m, spans, unit := *r, len(o.missing), o.plan.spans, bits.TrailingZeros32(o.plan.unit)
	missing := slices.Grow(o.missing, len(ranks))[:m+len(ranks)]
	listed, ofLeft, ofNext := o.listed, ranks[:len(spans)], ranks[len(spans):][:len(spans)]
	for i, s := range spans {
		draw := random.Uint64()
		missing[m] = ofLeft[i]
		if j := s.place(uint32(draw)) >> unit; j < len(left) {
			x := left[len(left)-1-j]
			list[ofLeft[i]] = x
			m += 1 - add(listed, x)
		} else {
			m++
		}
		missing[m] = ofNext[i]
		if j := s.place(uint32(draw>>32)) >> unit; j < len(next) {
			x := next[j].block()
			list[ofNext[i]] = x
			m += 1 - add(listed, x)&int(uint32(x-limit)>>31)
		} else {
			m++
		}
	}
	*r, o.missing = random, missing[:m]
}

// drawAny fills the missing ranks with blocks below limit.
func (o *outside) drawAny(list []int32, limit int32, r *random) {
	random, listed, missing, i := *r, o.listed, o.missing, 0
	for tries := 16 * len(missing); i < len(missing) && tries > 0; tries-- {
		x := random.intN(limit)
		list[missing[i]] = x
		i += add(listed, x)
	}
	for x := random.intN(limit); i < len(missing); x = (x + 1) % limit { // nearly all are listed
		list[missing[i]] = x
		i += add(listed, x)
	}
	*r = random
}

// place returns a place in the span, chosen by a draw.
func (s span) place(draw uint32) int { return int(s.begin) + int(uint64(s.width)*uint64(draw)>>32) }

// reach is the largest number of steps between a candidate and its leaving or entering.
const reach = 16

// offset makes the mean of 1/(offset + x) over the x from n−1 to n equal to 1/n, to 2 %.
const offset = 1 / (math.E - 1)

// plan is the origin and the ranking of the n candidates of a step. One block comes from each span
// of those that left, one from each span of those that will enter, then any blocks follow. Their
// order is one of several that are drawn in advance.
type plan struct {
	near, churn float64 // the dials of the plan
	n           int
	spans       []span
	unit        uint32  // of spans, in parts of a block: a power of two
	h           []uint8 // buckets of the candidates' distances
	order       order
	ranks       [][]int32 // by order: of each candidate in that sequence
}

// span is part of the blocks that left, the last first, or of those that will enter. It begins at
// begin and is width wide, in units of the plan.
type span struct{ begin, width uint32 }

const (
	leastUnit = 1 << 8  // parts of a block, unless
	mostSpan  = 1 << 31 // units would exceed this
)

// far is the distance in steps of candidates from anywhere.
const far = 64

// set makes the plan for n candidates. At c blocks per step, the j-th block is drawn with density
// Near/(o + j/c), which makes Near/x of the blocks x steps away. The i-th draw therefore lies at j
// = o·c·(exp(i/(Near·c)) − 1).
func (p *plan) set(near, churn float64, n int) {
	if p.near == near && p.churn == churn && p.n == n {
		return
	}
	p.near, p.churn, p.n, p.spans, p.h = near, churn, n, p.spans[:0], p.h[:0]
	for p.unit = leastUnit; float64(p.unit)*reach*churn > mostSpan; p.unit /= 2 {
	}
	if near > 0 {
		step, none := math.Exp(1/(near*churn)), offset*churn // step may be infinite
		for from := none; from-none < reach*churn && 2*len(p.h) < n-1; from *= step {
			width := min(mostSpan/float64(p.unit), from*(step-1))
			p.spans = append(p.spans, span{uint32(float64(p.unit) * (from - none)), uint32(float64(p.unit) * width)})
			p.h = append(p.h, bucketOf(uint16(1+min(reach, (from+width/2-none)/churn)), forever))
		}
	}
	p.h = append(p.h, p.h...)
	for len(p.h) < n {
		p.h = append(p.h, bucketOf(far, forever))
	}
	p.ranks = p.order.shuffles(noises, p.h, source(0, ofPlan, 0, 0, 0), p.ranks)
	for _, ranks := range p.ranks {
		for i := range ranks {
			ranks[i] = int32(n-1) - ranks[i] // the nearest come first
		}
	}
}

// order sorts elements by their keys, small ones first. The sort is stable.
type order struct {
	keys []uint8
	next [512]int32 // by key: the place of the next element, or the number of elements
}

// farthest is at least every bucket of a distance. farthest less the bucket is a key.
const farthest = 255

// count computes the places from the keys. It counts elements with even and odd numbers apart,
// which is faster.
func (o *order) count() {
	next := &o.next
	*next = [512]int32{}
	for i, key := range o.keys {
		next[i&1<<8|int(key)]++
	}
	sum := int32(0)
	for key := range 256 {
		even, odd := next[key], next[key|1<<8]
		next[key], next[key|1<<8] = sum, sum+even
		sum += even + odd
	}
}

// place returns the place of element i. Call it once for each element, in order.
func (o *order) place(i int) int32 {
	at := &o.next[i&1<<8|int(o.keys[i])]
	*at++
	return *at - 1
}

// shuffles draws noisy orders of elements with the distances h from the threshold, as buckets. An
// order has the places by E·h, the farthest first. shuffles draws n orders, or fewer if they would
// have more than mostPlaces places together, but at least one.
func (o *order) shuffles(n int, h []uint8, r *random, places [][]int32) [][]int32 {
	places = resized(places, max(1, min(n, mostPlaces/max(1, len(h)))))
	o.keys = resized(o.keys, len(h))
	for v := range places {
		bits := uint64(0)
		for i, bucket := range h {
			if bits >>= 8; i&7 == 0 {
				bits = r.Uint64()
			}
			o.keys[i] = farthest - bucket - noise[uint8(bits)]
		}
		o.count()
		places[v] = resized(places[v], len(h))
		for i := range h {
			places[v][i] = o.place(i)
		}
	}
	return places
}

const mostPlaces = 1 << 20
