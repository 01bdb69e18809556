package synthetic

import (
	"math"
	"math/rand/v2"
	"slices"
)

// block is the state of a block in a process.
type block struct {
	state int32 // a state below
	heat  uint16
	seen  bool // demanded before
}

// States of a block.
const (
	demanded = 0
	free     = -1 // it was never demanded, or is in no queue
	waiting  = -2 // less the bucket in which it waits to come back. Behind the last bucket it never does
)

// extent is the shape of a stream's process in its own steps. The process begins before the first
// recorded row, so that it is steady there. It ends after the last row, so that every row knows the
// blocks that enter next.
type extent struct {
	topK   int
	tokens int // context at step 0 of the process, with the token being generated
	steps  int
}

// process draws the demanded blocks of each step. It reuses its memory from stream to stream. All
// draws come from one generator in one order.
type process struct {
	extent
	dials   Locality
	random  *random
	rand    *rand.Rand // the same source
	laws    laws
	heat    int32  // chance of a block's own quantile, in 1/chances
	company int32  // chance of the step's quantile of gaps
	never   uint32 // chance of no return
	skipped uint32 // chance that a generated token is not demanded at once
	blocks  []block
	due     queue   // runs by their end
	back    queue   // blocks by their return
	coming  []int32 // blocks due to come back, not yet demanded
	leaving []int32 // runs that end at the current step
	numbers []int32 // of runs that begin
	mixed   []int32 // quantiles, then buckets, of blocks that enter or leave
	ending  int     // runs in due

	runs  []run   // in the order of their first step
	first []int32 // by step, of runs. One more for the end
	left  []int32 // blocks in the order of the first step that does not demand them
	gone  []int32 // by step, of left. One more for the end
}

// laws are the distributions of a stream's times.
type laws struct {
	runs, gaps, recent law
	runLengths         lengths
}

const (
	longestRun  = 1024 // steps: limit of the laws of runs
	recentShape = 1.5  // of the runs of generated tokens
	sinks       = 4    // first of the hot blocks. KVDrive keeps the same number
	chances     = 1 << 20
)

// draw fills in p.runs and p.left for one stream.
func (p *process) draw(e extent, dials *Locality, r *random) {
	p.extent, p.random, p.rand = e, r, rand.New(r)
	p.setDials(dials)
	p.reset()
	p.begin()
	p.mark()
	variance := math.Log1p(dials.Burst * dials.Burst) // of the logarithm of a step's time, whose mean is 1
	deviation := math.Sqrt(variance)
	churn := churnOf(dials, float64(p.topK))
	born := bornOf(dials)
	clock, debt := 0.0, 0.0
	for t := 1; t < p.steps; t++ {
		// The share of gaps longer than clock.
		unseen := 1 - (1-p.dials.Drift)*float64(p.laws.gaps.under(clock))/quantiles
		pace := math.Exp(-variance/2 + deviation*p.rand.NormFloat64())
		clock += pace
		plan := churn * pace
		n := p.step(t, clock, plan-debt/debtSteps, max(0, plan*unseen-born), debt/churn) // without the newest token
		debt += float64(n) - plan
		p.mark()
	}
}

func (p *process) mark() {
	p.first, p.gone = append(p.first, int32(len(p.runs))), append(p.gone, int32(len(p.left)))
}

func (p *process) setDials(d *Locality) {
	p.heat = int32(math.Sqrt(d.Heat) * chances)
	p.company = int32(min(math.Sqrt(d.Company), 1-math.Sqrt(d.Heat)) * chances)
	p.never = uint32(d.Drift * chances)
	p.skipped = uint32(d.Skipped * chances)
	if p.dials != *d {
		p.dials = *d
		p.laws.set(d, float64(p.topK))
	}
}

// set fills in the tables. The scale of runs follows from the overlap. The blocks that leave per
// step times the mean run equal the demand that is neither hot nor recent.
func (l *laws) set(d *Locality, k float64) {
	l.gaps.set(d.GapMedian, d.GapShape, math.Inf(1))
	l.recent.setMean(recentRun(d, k), recentShape, math.Max(longestRun, 8*recentRun(d, k)))
	mean := restDemand(d, k) / max(1, churnOf(d, k)-bornOf(d))
	l.runs.setMean(max(1, mean), d.RunShape, longestRun)
	l.runLengths.set(&l.runs)
	l.gaps.fillTicks(1)
	l.recent.fillTicks(0)
	l.runs.fillTicks(0)
}

func (p *process) reset() {
	p.blocks = resized(p.blocks, p.tokens+p.steps)
	for x := range p.blocks {
		p.blocks[x] = block{state: free}
	}
	p.due.reset(2 * p.steps)
	p.back.reset(2 * p.steps)
	p.coming, p.ending = p.coming[:0], 0
	leaving := int(churnOf(&p.dials, float64(p.topK))*float64(p.steps)) * 9 / 8 // approximately
	p.runs, p.first = slices.Grow(p.runs[:0], p.topK+leaving), append(p.first[:0], 0)
	p.left, p.gone = slices.Grow(p.left[:0], leaving), append(p.gone[:0], 0)
}

// step draws the demand of step t, at time clock, and returns the number of blocks that it
// exchanged. Blocks that are due come back, and the newest token enters unless it is skipped.
//
// The number of never-seen blocks is the mean of two numbers. One is the number that a process of
// this age brings (unseen). The other is the number missing to plan. If even none is too many, half
// of the surplus waits. The number that enters may then differ from plan for a while.
//
// surplus is the lasting difference, in mean exchanges. If it is too large, plan holds. Due blocks
// beyond plan then never return, or never-seen blocks fill all missing places.
func (p *process) step(t int, clock, plan, unseen, surplus float64) int {
	newest, tick := int32(p.tokens+t-1), int(clock*ticks)
	p.coming = p.back.takeBefore(tick+1, p.coming)
	born := p.born()
	returning, missing, chance := len(p.coming), plan-float64(born+len(p.coming)), p.rand.Float64()
	fresh := (unseen+missing)/2 + chance
	switch {
	case surplus > mostDebt && missing < 0:
		returning = max(0, int(plan-float64(born)+chance))
		for _, x := range p.coming[returning:] { // they never come back
			p.blocks[x].state = waiting - int32(len(p.back.end))
		}
		p.coming, fresh = p.coming[:returning], 0
	case surplus < -mostDebt:
		fresh = max(0, missing+chance)
	case fresh < 0:
		returning = max(0, returning-int(-fresh/2))
	}
	returning = min(returning, p.ending-born)
	n := min(born+returning+max(0, min(int(fresh), int(newest)-p.topK-len(p.coming))), p.ending)
	p.leaving = p.due.takeFirst(n, p.leaving[:0])
	if born > 0 {
		p.enterNewest(t, newest)
	}
	p.enterAll(t, p.coming[:returning])
	p.coming = p.coming[:copy(p.coming, p.coming[returning:])]
	if n := n - born - returning; n > 0 {
		p.enterFresh(t, clock, newest, n)
	}
	p.leave(t, tick)
	p.ending -= n
	return n
}

// leave ends the runs that are due and sets the return of their blocks, if any.
func (p *process) leave(t, tick int) {
	n, from := len(p.leaving), len(p.left)
	p.left = slices.Grow(p.left, n)[:from+n]
	left, runs := p.left[from:], p.runs
	for i, j := range p.leaving {
		r := runs[j]
		runs[j] = r.until(t)
		left[i] = r.block()
	}
	due := p.own(left)
	p.mix(due, p.company, int32(p.random.Uint64()%quantiles))
	gaps, last := &p.laws.gaps.ticks, int32(len(p.back.end))
	for i, q := range due {
		due[i] = min(int32(tick)+gaps[q&(quantiles-1)], last)
	}
	if p.never > 0 {
		for i := range due {
			if uint32(p.random.Uint64()>>44) < p.never {
				due[i] = last
			}
		}
	}
	p.back.putAll(left, due)
	blocks := p.blocks
	for i, x := range left {
		blocks[x].state = waiting - due[i]
	}
}

// own returns the blocks' own quantiles, in memory that is reused.
func (p *process) own(blocks []int32) []int32 {
	p.mixed = resized(p.mixed, len(blocks))
	mixed, all := p.mixed, p.blocks
	for i, x := range blocks {
		mixed[i] = int32(all[x].heat)
	}
	return mixed
}

// mix keeps each quantile with the chance p.heat, replaces it by other with the given chance, and
// draws it otherwise.
func (p *process) mix(mixed []int32, chance, other int32) {
	random, heat, bits := *p.random, p.heat, uint64(0)
	for i, own := range mixed {
		if bits >>= 32; i&1 == 0 {
			bits = random.Uint64()
		}
		mixed[i] = quantile(uint32(bits), heat, own, chance, other)
	}
	*p.random = random
}

// quantile returns own with the chance heat, other with the given chance, and otherwise any. bits
// decide without a branch, because no branch could be predicted.
func quantile(bits uint32, heat, own, chance, other int32) int32 {
	v := int32(bits % chances)
	q := pick(chances-chance-1-v, other, int32(bits/chances))
	return pick(v-heat, own, q)
}

// pick returns a if sign is negative, otherwise b.
func pick(sign, a, b int32) int32 { return b ^ (a^b)&(sign>>31) }

func (p *process) enterAll(t int, entering []int32) {
	n, from := len(entering), len(p.runs)
	due := p.own(entering)
	for i := range due {
		due[i] = quantiles - 1 - due[i] // hot blocks stay long
	}
	p.mix(due, 0, 0)
	lengths, at, last := &p.laws.runs.ticks, int32(p.due.at), int32(len(p.due.end)-1)
	for i, q := range due {
		due[i] = min(at+lengths[q&(quantiles-1)], last)
	}
	p.runs, p.numbers = slices.Grow(p.runs, n)[:from+n], resized(p.numbers, n)
	runs, numbers, blocks := p.runs[from:], p.numbers, p.blocks
	for i, x := range entering {
		runs[i], numbers[i] = endless(x, t), int32(from+i)
		blocks[x].state = demanded
	}
	p.due.putAll(numbers, due)
	p.ending += n
}

func (p *process) enter(t int, x int32) {
	q := quantile(uint32(p.random.Uint64()), p.heat, quantiles-1-int32(p.blocks[x].heat), 0, 0)
	p.begun(t, x, p.laws.runs.ticks[q])
}

// begun begins a run of length ticks.
func (p *process) begun(t int, x int32, length int32) {
	p.demand(t, x)
	p.due.put(int32(len(p.runs)-1), int32(min(p.due.at+int(length), len(p.due.end)-1)))
	p.ending++
}

func (p *process) demand(t int, x int32) {
	b := &p.blocks[x]
	b.state, b.seen = demanded, true
	p.runs = append(p.runs, endless(x, t))
}

// born draws whether the newest token enters, 1 or 0.
func (p *process) born() int {
	if p.skipped > 0 && uint32(p.random.Uint64()>>44) < p.skipped {
		return 0
	}
	return 1
}

func (p *process) enterNewest(t int, x int32) {
	bits := p.random.Uint64()
	p.blocks[x].heat = uint16(bits % quantiles)
	p.begun(t, x, p.laws.recent.ticks[bits>>32%quantiles])
	p.runs[len(p.runs)-1] = p.runs[len(p.runs)-1].from(0) // ranked as if it had been demanded for long
}

// enterFresh begins the first run of n blocks. If they were ever demanded, it was before the
// process began. Their gaps therefore exceed the clock, which determines their heat.
func (p *process) enterFresh(t int, clock float64, newest int32, n int) {
	past := int32(min(p.laws.gaps.under(clock), quantiles-1))
	for range n {
		x := p.fresh(newest)
		if b := &p.blocks[x]; !b.seen {
			own := past + p.random.intN(quantiles-past)
			b.heat = uint16(quantile(uint32(p.random.Uint64()), p.heat, own, 0, 0))
		}
		p.enter(t, x)
	}
}

// tries is the number of draws of a never-seen block before a seen one is taken, because contexts
// are finite. Among the seen ones, the one due first is taken.
const tries = 8

// fresh picks a block below newest that is not demanded, and takes it out of its queue. With the
// chance Neighbours it picks one behind a demanded block, if there is one.
func (p *process) fresh(newest int32) int32 {
	if bits := p.random.Uint64(); float64(bits>>40)/(1<<24) < p.dials.Neighbours {
		if x := p.behind(newest); x >= 0 {
			return x
		}
	}
	x := int32(-1)
	for range tries {
		x = p.random.intN(newest)
		if b := &p.blocks[x]; b.state == free && !b.seen {
			return x
		}
	}
	return p.early(x, newest)
}

// early picks a block that is away and would come back soon, and takes it out of its queue.
func (p *process) early(x, newest int32) int32 {
	x = p.nextAway(x, newest)
	// A state of waiting or less is a place in the queue of returning blocks.
	if b := &p.blocks[x]; b.state <= waiting && int(waiting-b.state) < len(p.back.end) {
		p.back.remove(x, int(waiting-b.state))
	}
	return x
}

// behind returns a never-seen block after a span of demanded blocks. A block of the span entered at
// this step. It returns -1 if its tries fail.
func (p *process) behind(newest int32) int32 {
	entered := p.runs[p.first[len(p.first)-1]:]
	if len(entered) == 0 {
		return -1
	}
	for range tries {
		x := entered[p.random.intN(int32(len(entered)))].block() + 1
		for x < newest && p.blocks[x].state == demanded {
			x++
		}
		if x < newest && p.blocks[x].state == free && !p.blocks[x].seen {
			return x
		}
	}
	return -1
}

// nextAway returns the first block from x on, around the end, that is not demanded and does not
// come back at this step.
func (p *process) nextAway(x, newest int32) int32 {
	for s := p.blocks[x].state; s == demanded || s <= waiting && int(waiting-s) < p.back.at; s = p.blocks[x].state {
		if x++; x == newest {
			x = 0
		}
	}
	return x
}

// begin draws the demand of step 0: hot blocks, the last tokens, and others in the middle of their
// run.
func (p *process) begin() {
	newest := int32(p.tokens - 1)
	if p.born() > 0 {
		p.enterNewest(0, newest)
	}
	hot := min(p.topK-1, int(p.dials.Hot*float64(p.topK)+0.5)) // at least one may leave
	for i := 0; i < hot && len(p.runs) < p.topK; i++ {
		x := int32(i)
		if i >= sinks || p.blocks[x].state != free {
			x = p.fresh(newest)
		}
		p.demand(0, x)
	}
	p.beginRecent(newest)
	for len(p.runs) < p.topK {
		i := p.laws.runLengths[p.random.Uint64()%quantiles]
		x := p.fresh(newest)
		p.blocks[x].heat = uint16(quantile(uint32(p.random.Uint64()), p.heat, quantiles-1-int32(i), 0, 0))
		p.begun(0, x, int32(p.laws.runs.at(i)*p.rand.Float64()*ticks))
	}
}

// beginRecent demands the tokens before the newest as if each had been generated, for the rest of
// its run.
func (p *process) beginRecent(newest int32) {
	for age := int32(1); age <= newest && len(p.runs) < p.topK; age++ {
		past := p.laws.recent.under(float64(age))
		if past == quantiles {
			return
		}
		i := p.rand.IntN(quantiles)
		b := &p.blocks[newest-age]
		if i < past || b.state != free || p.born() == 0 {
			continue
		}
		b.heat = uint16(p.random.Uint64() % quantiles)
		p.begun(0, newest-age, max(0, p.laws.recent.ticks[i]-age*ticks))
	}
}

const (
	debtSteps = 16 // time in which a surplus of exchanged blocks is compensated
	mostDebt  = 4  // mean exchanges: a larger surplus or lack ends at once
)

// run is a maximal span of steps that demand a block. It is one word, for fast loads and stores.
// The lowest 32 bits are the block. The next 16 are the first step that demands it. The last 16 are
// the first step that does not.
type run uint64

// forever is the exit of a run that outlasts the process. Steps are smaller.
const forever = math.MaxUint16

// endless returns a run from step enter on.
func endless(block int32, enter int) run {
	return run(uint32(block)) | run(uint16(enter))<<32 | forever<<48
}

func (r run) block() int32  { return int32(uint32(r)) }
func (r run) enter() uint16 { return uint16(r >> 32) }
func (r run) exit() uint16  { return uint16(r >> 48) }

// bucket returns the bucket of its block's distance from the threshold at step now.
func (r run) bucket(now int) uint8 {
	return bucketOf(uint16(now+1)-r.enter(), r.exit()-uint16(now))
}

func (r run) from(enter int) run { return r&^(forever<<32) | run(uint16(enter))<<32 }

func (r run) until(exit int) run { return r&^(forever<<48) | run(uint16(exit))<<48 }

// quantiles is the resolution of laws: a law is a table of its quantiles at
// (i + ½)/quantiles.
const quantiles = 1 << 12

// law is a log-logistic distribution of times in steps: P(X > x) = 1/(1 + (x/m)^β), limited to
// most.
type law struct {
	shape, median, most float64
	unit                [quantiles]float32 // quantiles for a median of 1, ascending
	ticks               [quantiles]int32   // quantiles in ticks, after fillTicks
}

// set makes l the law of shape β and median m.
func (l *law) set(median, shape, most float64) {
	if shape != l.shape {
		for i := range l.unit {
			u := (float64(i) + 0.5) / quantiles
			l.unit[i] = float32(math.Pow(u/(1-u), 1/shape))
		}
	}
	l.median, l.shape, l.most = median, shape, most
}

// at returns the quantile (i + ½)/quantiles.
func (l *law) at(i uint16) float64 {
	return min(l.most, l.median*float64(l.unit[i]))
}

// fillTicks fills in the quantiles in ticks, at least least. Quantiles in the far future need no
// exact value.
func (l *law) fillTicks(least float64) {
	for i := range l.ticks {
		l.ticks[i] = int32(min(math.MaxInt32/2, max(least, math.Round(l.at(uint16(i))*ticks))))
	}
}

// under returns the number of quantiles under x: quantiles × P(X < x).
func (l *law) under(x float64) int {
	if x > l.most {
		return quantiles
	}
	lo, hi := 0, quantiles
	for lo < hi {
		if mid := (lo + hi) / 2; l.median*float64(l.unit[mid]) < x {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// meanSteps returns the mean of ⌈X⌉, the whole steps of a time X, at least 1, of a limited law. The
// table ascends, so steps are counted one by one only between the quantiles of one step and the
// limited ones. All sums are of whole numbers and exact.
func (l *law) meanSteps() float64 {
	cut := l.under(l.most)
	short := min(l.under(1), cut)
	sum := short + (quantiles-cut)*int(math.Ceil(l.most))
	for _, u := range l.unit[short:cut] {
		x := l.median * float64(u)
		n := int(x)
		if float64(n) < x {
			n++
		}
		sum += n
	}
	return float64(sum) / quantiles
}

// setMean finds the median for which meanSteps is mean.
func (l *law) setMean(mean, shape, most float64) {
	lo, hi := 1e-4, most
	for range 40 {
		l.set(math.Sqrt(lo*hi), shape, most)
		if l.meanSteps() < mean {
			lo = l.median
		} else {
			hi = l.median
		}
	}
}

// lengths is the law of the quantile of the interval that contains a random moment. Intervals weigh
// by their length.
type lengths [quantiles]uint16

func (w *lengths) set(l *law) {
	total := 0.0
	for i := range l.unit {
		total += l.at(uint16(i))
	}
	sum, j := 0.0, 0
	for i := range l.unit {
		sum += l.at(uint16(i))
		for ; j < quantiles && (float64(j)+0.5)/quantiles*total <= sum; j++ {
			w[j] = uint16(i)
		}
	}
	for ; j < quantiles; j++ {
		w[j] = quantiles - 1
	}
}

// ticks is the number of buckets per step of a queue.
const ticks = 16

// queue holds due elements by buckets of 1/ticks step. A bucket is a chain of chunks, so that
// elements are read without waiting for a link from one to the next.
type queue struct {
	end   []int32 // by bucket: behind its last element in pool, 0 for none
	pool  []int32 // chunks: the end of the chunk before, then elements
	spare []int32 // chunks to use again
	at    int     // buckets before it are past
}

// chunk is the size of a chunk, a power of two.
const chunk = 16

func (q *queue) reset(steps int) {
	q.end = resized(q.end, steps*ticks)
	clear(q.end)
	q.pool, q.spare, q.at = append(q.pool[:0], make([]int32, chunk)...), q.spare[:0], 0
}

func (q *queue) put(x, bucket int32) { q.putAll([]int32{x}, []int32{bucket}) }

// putAll adds elements, each to its bucket, from q.at on. Behind the last bucket there is none: an
// element due there is never taken.
func (q *queue) putAll(elements, buckets []int32) {
	end, pool, elements := q.end, q.pool, elements[:len(buckets)]
	for i, bucket := range buckets {
		if uint(bucket) >= uint(len(end)) {
			continue
		}
		at := end[bucket]
		if at%chunk == 0 {
			at = q.extend(at)
			pool = q.pool
		}
		pool[at] = elements[i]
		end[bucket] = at + 1
	}
}

// extend begins a chunk behind the end of another and returns its first place.
func (q *queue) extend(end int32) int32 {
	var base int32
	if n := len(q.spare); n > 0 {
		base, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		base = int32(len(q.pool))
		q.pool = append(q.pool, make([]int32, chunk)...)
	}
	q.pool[base] = end
	return base + 1
}

// takeBefore takes all elements out of the buckets before limit and appends them to list.
func (q *queue) takeBefore(limit int, list []int32) []int32 {
	for limit = min(limit, len(q.end)); q.at < limit; q.at++ {
		for q.end[q.at] > 0 {
			list = q.takeSome(chunk, list)
		}
	}
	return list
}

// takeFirst takes out the n elements that are due first and appends them to list. The queue must
// have n.
func (q *queue) takeFirst(n int, list []int32) []int32 {
	for n += len(list); len(list) < n; {
		if q.end[q.at] > 0 {
			list = q.takeSome(n-len(list), list)
		} else {
			q.at++
		}
	}
	return list
}

// takeSome takes up to n elements out of the last chunk of the bucket at hand.
func (q *queue) takeSome(n int, list []int32) []int32 {
	end := q.end[q.at]
	base := (end - 1) &^ (chunk - 1)
	from := max(base+1, end-int32(n))
	list = append(list, q.pool[from:end]...)
	if q.end[q.at] = from; from == base+1 {
		q.drop(base, q.at)
	}
	return list
}

// drop frees the last chunk of a bucket, which begins at base and is empty.
func (q *queue) drop(base int32, bucket int) {
	q.end[bucket] = q.pool[base]
	q.spare = append(q.spare, base)
}

// remove takes x out of its bucket. It searches the bucket, because few elements are removed before
// they are due.
func (q *queue) remove(x int32, bucket int) {
	end := q.end[bucket]
	last := q.pool[end-1]
	for at := end - 1; ; at-- {
		if at%chunk == 0 {
			at = q.pool[at] - 1
		}
		if q.pool[at] == x {
			q.pool[at] = last
			break
		}
	}
	if q.end[bucket] = end - 1; (end-1)%chunk == 1 {
		q.drop(end-2, bucket)
	}
}

// resized returns a slice of n elements that reuses memory. Its content is undefined.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// random is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// OOPSLA 2014). It takes a third of the time of the standard library's generators, which dominates
// the drawing of a stream. It is a rand.Source.
type random uint64

// Uint64 returns the next number.
func (r *random) Uint64() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// intN returns a number from 0 to n−1.
func (r *random) intN(n int32) int32 { return int32(r.Uint64() >> 32 * uint64(n) >> 32) }

// The purposes of random sources: streams, the spread over layers and heads, orders of candidates.
const (
	ofStream = iota
	ofLayer
	ofHead
	ofPlan
)

// source returns the generator of a purpose, independent of all others.
func source(seed uint64, purpose, a, b, c uint64) *random {
	r := random(seed)
	for _, v := range []uint64{purpose, a, b, c} {
		r = random(r.Uint64() ^ v)
	}
	return &r
}
