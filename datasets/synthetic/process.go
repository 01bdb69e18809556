package synthetic

import (
	"math"
	"math/rand/v2"
	"slices"
)

// block is what a process knows of one.
type block struct {
	state int32 // one of those below
	heat  uint16
	seen  bool // demanded before
}

// States of a block.
const (
	demanded = 0
	free     = -1 // it has never been demanded, or is in no queue
	waiting  = -2 // less the bucket of the queue in which it waits to come back; behind the last it never does
)

// extent is the shape of a stream's process in steps of its own: it begins before the
// first recorded row, to be in its stride there, and ends after the last one, so that
// every row knows which blocks enter next.
type extent struct {
	topK   int
	tokens int // context at step 0 of the process, the token being generated included
	steps  int
}

// process draws which blocks are demanded at which step. It reuses its memory from
// stream to stream. All draws come from one generator in one order.
type process struct {
	extent
	dials   Locality
	random  *random
	rand    *rand.Rand // the same source
	laws    laws
	heat    int32  // chance of a block's own quantile, in 1/chances
	company int32  // chance of the step's quantile of gaps
	never   uint32 // chance of no return
	skipped uint32 // chance of a generated token not to be demanded at once
	blocks  []block
	due     queue   // runs by their end
	back    queue   // blocks by their return
	coming  []int32 // blocks due to come back, not yet in
	leaving []int32 // runs that end at the step in hand
	numbers []int32 // of runs that begin
	mixed   []int32 // quantiles, then buckets, of blocks that enter or leave
	ending  int     // runs in due

	runs  []run   // in the order of their first step
	first []int32 // by step, of runs; one more for the end
	left  []int32 // blocks in the order of the first step that no longer demands them
	gone  []int32 // by step, of left; one more for the end
}

// laws are the distributions of a stream's times.
type laws struct {
	runs, gaps, recent law
	runLengths         lengths
}

const (
	longestRun  = 1024 // steps: where the laws of runs are cut
	recentShape = 1.5  // of the runs of generated tokens
	sinks       = 4    // of the hot blocks, the first ones; KVDrive keeps as many
	chances     = 1 << 20
)

// draw fills in p.runs and p.left for one stream.
func (p *process) draw(e extent, dials *Locality, r *random) {
	p.extent, p.random, p.rand = e, r, rand.New(r)
	p.setDials(dials)
	p.reset()
	p.begin()
	p.mark()
	tempo := newTempo(dials.Burst)
	churn := churnOf(dials, float64(p.topK))
	born := bornOf(dials)
	clock, debt := 0.0, 0.0
	for t := 1; t < p.steps; t++ {
		unseen := p.unseen(clock)
		pace := tempo.next(p.rand)
		clock += pace
		plan := churn * pace
		n := p.step(t, clock, plan-debt/debtSteps, max(0, plan*unseen-born), balanceOf(debt/churn)) // less the newest token
		debt += float64(n) - plan
		p.mark()
	}
}

// mark ends a step.
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

// set fills in the tables. The scale of runs follows from the overlap: what leaves at
// a step times the mean run is the demand that is neither hot nor recent.
func (l *laws) set(d *Locality, k float64) {
	l.gaps.set(d.GapMedian, d.GapShape, math.Inf(1))
	l.recent.setMean(recentRun(d, k), recentShape, math.Max(longestRun, 8*recentRun(d, k)))
	mean := restDemand(d, k) / max(1, churnOf(d, k)-bornOf(d))
	l.runs.setMean(max(1, mean), d.RunShape, longestRun)
	l.runLengths.of(&l.runs)
	l.gaps.settle(1)
	l.recent.settle(0)
	l.runs.settle(0)
}

func (p *process) reset() {
	p.blocks = resized(p.blocks, p.tokens+p.steps)
	for x := range p.blocks {
		p.blocks[x] = block{state: free}
	}
	p.due.reset(2 * p.steps)
	p.back.reset(2 * p.steps)
	p.coming, p.ending = p.coming[:0], 0
	leaving := int(churnOf(&p.dials, float64(p.topK))*float64(p.steps)) * 9 / 8 // about
	p.runs, p.first = slices.Grow(p.runs[:0], p.topK+leaving), append(p.first[:0], 0)
	p.left, p.gone = slices.Grow(p.left[:0], leaving), append(p.gone[:0], 0)
}

// unseen is the share of gaps longer than time.
func (p *process) unseen(time float64) float64 {
	return 1 - (1-p.dials.Drift)*float64(p.laws.gaps.below(time))/quantiles
}

// step draws the demand of step t, whose clock is the time by then, and returns how
// many blocks it exchanged. Who is due comes back, and the newest token enters, if it is not skipped. Of
// blocks never seen, as many enter as lie halfway between the number that a process of
// this age brings (unseen) and the number missing to the planned one; if even none is
// too many, half of the surplus waits. That leaves the number that enters free to differ
// from the plan for a while. Where it has differed for long, as every token generated
// is one more that wants to come back, the plan holds: who is due beyond it never
// returns, or blocks never seen make up for all that is missing.
func (p *process) step(t int, clock, plan, unseen float64, so balance) int {
	newest, tick := int32(p.tokens+t-1), int(clock*ticks)
	p.coming = p.back.takeBefore(tick+1, p.coming)
	born := p.born()
	returning, missing, chance := len(p.coming), plan-float64(born+len(p.coming)), p.rand.Float64()
	fresh := (unseen+missing)/2 + chance
	switch {
	case so == tooMany && missing < 0:
		returning = max(0, int(plan-float64(born)+chance))
		p.forgetAll(p.coming[returning:])
		p.coming, fresh = p.coming[:returning], 0
	case so == tooFew:
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

// leave ends the runs that are due to and sets when their blocks come back, if ever.
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
		p.forget(due, last)
	}
	p.back.putAll(left, due)
	blocks := p.blocks
	for i, x := range left {
		blocks[x].state = waiting - due[i]
	}
}

// forget delays some returns for ever.
func (p *process) forget(due []int32, last int32) {
	for i := range due {
		if uint32(p.random.Uint64()>>44) < p.never {
			due[i] = last
		}
	}
}

// forgetAll makes blocks that are due never come back.
func (p *process) forgetAll(blocks []int32) {
	for _, x := range blocks {
		p.blocks[x].state = waiting - int32(len(p.back.end))
	}
}

// own returns the blocks' own quantiles, in memory that is used again.
func (p *process) own(blocks []int32) []int32 {
	p.mixed = resized(p.mixed, len(blocks))
	mixed, of := p.mixed, p.blocks
	for i, x := range blocks {
		mixed[i] = int32(of[x].heat)
	}
	return mixed
}

// mix keeps each of the quantiles with the chance p.heat, makes it another one with the
// chance given, and any otherwise.
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

// quantile is own with the chance heat, other with the chance given, else any; bits decide,
// without a branch, as none could foretell them.
func quantile(bits uint32, heat, own, chance, other int32) int32 {
	v := int32(bits % chances)
	q := pick(chances-chance-1-v, other, int32(bits/chances))
	return pick(v-heat, own, q)
}

// pick is a where sign is negative, else b.
func pick(sign, a, b int32) int32 { return b ^ (a^b)&(sign>>31) }

// enterAll begins a run of each of the blocks at step t.
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

// enter begins a run of block x at step t.
func (p *process) enter(t int, x int32) {
	q := quantile(uint32(p.random.Uint64()), p.heat, quantiles-1-int32(p.blocks[x].heat), 0, 0)
	p.begun(t, x, p.laws.runs.ticks[q])
}

// begun begins a run that is so many ticks long.
func (p *process) begun(t int, x int32, length int32) {
	p.demand(t, x)
	p.due.put(int32(len(p.runs)-1), int32(min(p.due.at+int(length), len(p.due.end)-1)))
	p.ending++
}

// demand begins a run without end.
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
	p.runs[len(p.runs)-1] = p.runs[len(p.runs)-1].from(0) // ranked as if it had long been demanded
}

// tempo draws how much time a step takes: log-normal with mean 1.
type tempo struct{ mu, sigma float64 }

func newTempo(variation float64) tempo {
	variance := math.Log1p(variation * variation)
	return tempo{-variance / 2, math.Sqrt(variance)}
}

func (t tempo) next(r *rand.Rand) float64 {
	return math.Exp(t.mu + t.sigma*r.NormFloat64())
}
