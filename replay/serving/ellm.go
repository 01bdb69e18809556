package serving

import (
	"math"
	"sort"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// Optimised serves in the order of FCFS. In each iteration it chooses the running requests, the first
// waiting ones, and the uncached share by Eq. 1 (Chen et al., eLLM, EuroSys 2026, section 4.1). It
// maximises the requests over the time of an iteration, which keeps the limit of tokens. For given requests the best share is the least that fits into memory, because time
// grows with the share. The batches tried end with the first that keeps no limit.
type Optimised struct {
	FCFS
	// Time returns T of Eq. 4, in ns.
	Time func(x *pipeline.Iteration) (int64, error)
	// SLO is the longest time of a token, in ns, 0 for none. Eq. 1 subtracts WT_max, the longest time
	// that a request has waited. After longer waits no batch is feasible, and SLO alone counts.
	SLO int64
	// Partial allows an uncached share, as in eLLM. Its comparison sets it to 0 for other systems.
	Partial bool

	jobs     []*Job
	admitted int // waiting requests that Admit still takes in the iteration
}

// candidate is a batch of Eq. 1.
type candidate struct {
	requests int
	ns       int64
}

// better reports whether a batch has at least as many requests per time as another.
func (c candidate) better(o candidate) bool {
	return float64(c.requests)*float64(o.ns) >= float64(o.requests)*float64(c.ns)
}

// evaluate returns the batch of requests that all decode.
func (p *Optimised) evaluate(s *State, jobs []*Job, share int) candidate {
	x := pipeline.Iteration{TopK: s.options.TopK}
	decode(&x, jobs, share)
	return p.price(&x)
}

// decode adds requests that decode to an iteration.
func decode(x *pipeline.Iteration, jobs []*Job, share int) {
	for _, j := range jobs {
		x.AddDecode(int64(j.Tokens()), int64(j.Tokens()*share/Share))
	}
	x.Outputs = x.Decodes
}

// price returns the batch of an iteration. If it cannot be priced, it takes forever.
func (p *Optimised) price(x *pipeline.Iteration) candidate {
	ns, err := p.Time(x)
	if err != nil {
		ns = math.MaxInt64
	}
	return candidate{int(x.Decodes), ns}
}

// least returns the least share with which requests fit that all decode, and more than Share if none
// does. Memory falls with the share, except for the rounding to blocks, while the sampler needs more than
// the layers. Then the activations of uncached tokens count too, and memory may fall or rise. So it
// bisects one of these two ranges.
func (p *Optimised) least(s *State, jobs []*Job) int {
	n := int64(min(len(jobs), s.Budget))
	need := func(share int) (blocks int, again int64) {
		for _, j := range jobs {
			uncached := (j.Tokens() + 1) * share / Share
			blocks += s.options.blocks(j.Tokens() + 1 - uncached)
			again += int64(uncached)
		}
		return blocks, again
	}
	fits := func(share int) bool {
		blocks, again := need(share)
		return blocks <= s.options.limit(n, n, again)
	}
	switch {
	case fits(0):
		return 0
	case !p.Partial:
		return Share + 1
	}
	sampler := s.options.activations(n, n, 0)
	kink := sort.Search(Share, func(i int) bool {
		_, again := need(i + 1)
		return s.options.activations(n, n, again) > sampler
	})
	next := min(kink+1, Share) // the token at which the layers need more may still save memory
	for _, r := range [][2]int{{0, kink}, {0, next}, {next, Share}} {
		if from, to := r[0], r[1]; fits(to) {
			return from + 1 + sort.Search(to-from-1, func(i int) bool { return fits(from + i + 1) })
		}
	}
	return Share + 1
}

// Batch solves Eq. 1 and gives requests tokens as FCFS does.
func (p *Optimised) Batch(s *State, plan []int) {
	p.FCFS.Batch(s, plan)
	s.Uncached, p.admitted = 0, 0
	best := p.running(s)
	limit := int64(math.MaxInt64)
	if p.SLO > 0 && len(s.Waiting) > 0 {
		limit = p.SLO
		if wait := s.Now - oldest(s.Waiting); wait < p.SLO {
			limit -= wait
		}
	}
	p.jobs = append(p.jobs[:0], s.Running...)
	cached := pipeline.Iteration{TopK: s.options.TopK} // of these requests, if no token is made again
	decode(&cached, p.jobs, 0)
	most := min(len(s.Waiting), s.options.MaxRunning-len(s.Running))
	for n := 1; n <= most; n += 1 + p.stride(n) {
		more := s.Waiting[len(p.jobs)-len(s.Running) : n]
		p.jobs = append(p.jobs, more...)
		decode(&cached, more, 0)
		share := 0
		if p.Partial {
			share = p.least(s, p.jobs)
		}
		if share > Share {
			return
		}
		var with candidate
		if share > 0 {
			with = p.evaluate(s, p.jobs, share)
		} else {
			with = p.price(&cached)
		}
		if with.ns > limit {
			return
		}
		if !p.Partial || with.better(best) {
			best, s.Uncached, p.admitted = with, share, n
		}
	}
}

// stride returns the number of batches that are not evaluated after n more requests. It is 0 without
// a share, where the largest batch within the limit is best. With one, a batch may be better than
// all slightly larger ones, because the times of kernels have steps.
func (p *Optimised) stride(n int) int {
	if !p.Partial {
		return 0
	}
	return n / 4
}

// running sets the share of the running requests. If it gains more to preempt the latest until all
// KV fits, the share is 0.
func (p *Optimised) running(s *State) (best candidate) {
	share := 0
	if p.Partial {
		share = p.least(s, s.Running)
	}
	if share == 0 || share > Share {
		return p.evaluate(s, s.Running, 0)
	}
	fewer := s.Running
	for whole := (&Optimised{}); len(fewer) > 1 && whole.least(s, fewer) > 0; {
		fewer = fewer[:len(fewer)-1]
	}
	all, part := p.evaluate(s, s.Running, share), p.evaluate(s, fewer, 0)
	if !all.better(part) || p.SLO > 0 && all.ns > p.SLO {
		return part
	}
	s.Uncached = share
	return all
}

// Admit returns the first request while Batch has chosen more.
func (p *Optimised) Admit(s *State) int {
	if p.admitted--; p.admitted >= 0 || len(s.Running) == 0 {
		return 0
	}
	return -1
}

// oldest returns the earliest arrival of waiting requests. Those that were preempted do not count,
// because they waited before. Without others, it returns a time long ago.
func oldest(waiting []*Job) int64 {
	first := int64(math.MaxInt64)
	for len(waiting) > 0 {
		if j := waiting[0]; j.Preemptions > 0 {
			waiting = waiting[1:]
		} else {
			first, waiting = min(first, j.Arrival), waiting[behind(waiting, j.Priority):]
		}
	}
	if first == math.MaxInt64 {
		return math.MinInt64 / 2
	}
	return first
}

// Literal returns T of Eqs. 2 to 4 as printed: arithmetic alone, attention that is not causal, and
// logits of every token. Prompts of the iteration do not count. The rate in FLOP/s is that of one GPU,
// because Eq. 1 multiplies only the memory by the number of GPUs.
func Literal(m *hardware.Model, flops float64) func(x *pipeline.Iteration) (int64, error) {
	L, h, V := float64(m.Layers.Value), float64(m.Hidden.Value), float64(m.Vocabulary.Value)
	return func(x *pipeline.Iteration) (int64, error) {
		again := 24*h*h*L*x.Again + 4*h*L*x.Squares + 2*h*V*x.Again
		decode := 24*h*h*L*float64(x.Decodes) + 4*h*L*float64(x.Context+x.Decodes) + 2*h*V*float64(x.Context)
		return nanoseconds((again + decode) / flops), nil
	}
}
