package synthetic

import (
	"math"
	"math/rand/v2"
)

// run is a maximal span of steps that demand a block.
type run struct {
	block       int32
	enter, exit uint16 // steps of the process: the first that demands it, the first that no longer does
}

// forever is the exit of a run that outlasts the process; steps are below it.
const forever = math.MaxUint16

// departure is a block that left the demand.
type departure struct {
	block, step int32 // the first step that no longer demands it
}

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
	own     uint32 // chance of a block's own quantile, in 1/chances
	company uint32 // chance of the step's quantile of gaps
	never   uint32 // chance of no return
	blocks  []block
	due     queue   // demanded blocks by the end of their run
	back    queue   // blocks to come back
	coming  []int32 // due to come back, not yet in
	common  uint16  // quantile of gaps that blocks leaving at this step share

	runs  []run       // in the order of their first step
	first []int32     // by step, of runs; one more for the end
	left  []departure // in the order of their step
	gone  []int32     // by step, of left; one more for the end
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
	clock, debt := 0.0, 0.0
	for t := 1; t < p.steps; t++ {
		unseen := p.unseen(clock)
		pace := tempo.next(p.rand)
		clock += pace
		plan := churn * pace
		n := p.step(t, clock, plan-debt/debtSteps, max(0, plan*unseen-1)) // less the newest token
		debt += float64(n) - plan
		p.mark()
	}
}

// debtSteps is the time in which a surplus of exchanged blocks is made up for.
const debtSteps = 16

// mark ends a step.
func (p *process) mark() {
	p.first, p.gone = append(p.first, int32(len(p.runs))), append(p.gone, int32(len(p.left)))
}

func (p *process) setDials(d *Locality) {
	p.own = uint32(math.Sqrt(d.Heat) * chances)
	p.company = uint32(min(math.Sqrt(d.Company), 1-math.Sqrt(d.Heat)) * chances)
	p.never = uint32(d.Drift * chances)
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
	mean := restDemand(d, k) / max(1, churnOf(d, k)-1)
	l.runs.setMean(max(1, mean), d.RunShape, longestRun)
	l.runLengths.of(&l.runs)
	l.gaps.settle()
	l.recent.settle()
	l.runs.settle()
}

func (p *process) reset() {
	p.blocks = resized(p.blocks, p.tokens+p.steps)
	for x := range p.blocks {
		p.blocks[x] = block{bucket: unqueued, run: free}
	}
	p.due.reset(p.blocks, 2*p.steps)
	p.back.reset(p.blocks, 2*p.steps)
	p.coming = p.coming[:0]
	p.runs, p.first = p.runs[:0], append(p.first[:0], 0)
	p.left, p.gone = p.left[:0], append(p.gone[:0], 0)
}

// unseen is the share of gaps longer than time.
func (p *process) unseen(time float64) float64 {
	return 1 - float64(p.laws.gaps.below(time))/quantiles
}

// step draws the demand of step t, whose clock is the time by then, and returns how
// many blocks it exchanged. Who is due comes back, and the newest token enters. Of
// blocks never seen, as many enter as lie halfway between the number that a process of
// this age brings (unseen) and the number missing to the planned one; if even none is
// too many, half of the surplus waits.
func (p *process) step(t int, clock, plan, unseen float64) int {
	newest, tick := int32(p.tokens+t-1), int(clock*ticks)
	for x := p.back.pop(tick + 1); x >= 0; x = p.back.pop(tick + 1) {
		p.coming = append(p.coming, x)
		p.blocks[x].run = taken
	}
	returning, fresh := len(p.coming), (unseen+plan-float64(1+len(p.coming)))/2+p.rand.Float64()
	if fresh < 0 {
		returning = max(0, returning-int(-fresh/2))
	}
	returning = min(returning, p.due.size-1)
	n := min(1+returning+max(0, min(int(fresh), int(newest)-p.topK-len(p.coming))), p.due.size)
	p.exit(t, n)
	p.enterNewest(t, newest)
	for _, x := range p.coming[:returning] {
		p.enter(t, x)
	}
	p.coming = p.coming[:copy(p.coming, p.coming[returning:])]
	for range n - 1 - returning {
		p.enterFresh(t, clock, newest)
	}
	p.common = uint16(p.random.Uint64() % quantiles)
	for _, d := range p.left[len(p.left)-n:] {
		p.leave(d.block, tick)
	}
	return n
}

// exit ends the n runs that are due first.
func (p *process) exit(t, n int) {
	for range n {
		x := p.due.pop(len(p.due.head))
		b := &p.blocks[x]
		p.runs[b.run].exit = uint16(t)
		p.left = append(p.left, departure{x, int32(t)})
		b.run = taken
	}
}

// leave sets when a block that left comes back, if ever.
func (p *process) leave(x int32, tick int) {
	p.blocks[x].run = free
	bits := p.random.Uint64()
	if uint32(bits>>44) < p.never {
		return
	}
	q := p.quantile(uint32(bits), p.blocks[x].heat, p.company, p.common)
	if bucket := tick + max(1, int(p.laws.gaps.ticks[q])); bucket < len(p.back.head) {
		p.back.put(x, bucket)
	}
}

// quantile is own or, with the chance given, other, else any; bits decide.
func (p *process) quantile(bits uint32, own uint16, chance uint32, other uint16) uint16 {
	switch v := bits % chances; {
	case v < p.own:
		return own
	case v >= chances-chance:
		return other
	}
	return uint16(bits / chances)
}

// enter begins a run of block x at step t.
func (p *process) enter(t int, x int32) {
	q := p.quantile(uint32(p.random.Uint64()), quantiles-1-p.blocks[x].heat, 0, 0)
	p.begun(t, x, p.laws.runs.ticks[q])
}

// begun begins a run that is so many ticks long.
func (p *process) begun(t int, x int32, length int32) {
	p.demand(t, x)
	p.due.put(x, min(p.due.at+int(length), len(p.due.head)-1))
}

// demand begins a run without end.
func (p *process) demand(t int, x int32) {
	b := &p.blocks[x]
	b.run, b.seen = int32(len(p.runs)), true
	p.runs = append(p.runs, run{block: x, enter: uint16(t), exit: forever})
}

func (p *process) enterNewest(t int, x int32) {
	bits := p.random.Uint64()
	p.blocks[x].heat = uint16(bits % quantiles)
	p.begun(t, x, p.laws.recent.ticks[bits>>32%quantiles])
	p.runs[len(p.runs)-1].enter = 0 // ranked as if it had long been demanded
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
