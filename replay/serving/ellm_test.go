package serving

import (
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// tolerance is the loss by blocks. They make memory rise between two blocks, so the search may miss a
// slightly smaller share.
const tolerance = 0.05

// With few waiting requests, the choice is the best of all numbers of requests and all shares that
// keep the limits of Eq. 1.
func TestEquation1(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 29))
	chosen, shared := 0, 0
	for range 400 {
		o := Options{BlockTokens: 1 + r.IntN(4), Budget: 1000, MaxRunning: 10, NoPrefix: true,
			Memory: Memory{Total: int64(1000 + r.IntN(9000)), Token: 1, Kept: 1, Output: 1, Buffer: int64(r.IntN(8)), Elastic: true}}
		if r.IntN(2) == 0 { // memory may rise again with the share, so rounding to larger blocks could hide it
			o.BlockTokens, o.Memory.Token, o.Memory.Output = 1, int64(20+r.IntN(40)), int64(r.IntN(2000))
		}
		o.Memory.Block = int64(32 * o.BlockTokens)
		s := &State{Now: 100, Budget: o.Budget, options: &o}
		for range 1 + r.IntN(4) {
			s.Waiting = append(s.Waiting, &Job{Arrival: int64(r.IntN(100)), Input: 10 + r.IntN(150)})
		}
		slo := int64(200 + r.IntN(600))
		limit := slo
		if wait := s.Now - s.Waiting[0].Arrival; wait < slo {
			limit -= wait
		}
		price := func(n, share int) (ns int64, fits bool) {
			var x pipeline.Iteration
			blocks, again := 0, 0
			for _, j := range s.Waiting[:n] {
				uncached := (j.Input + 1) * share / Share
				blocks += (j.Input + 1 - uncached + o.BlockTokens - 1) / o.BlockTokens
				again += uncached
				a := float64(j.Input * share / Share)
				x.Context += int64(j.Input)
				x.Again += a
				x.Squares += a * a
			}
			x.Decodes, x.Outputs = int64(n), int64(n)
			ns, _ = toy{}.Iteration(&x)
			used := int64(blocks)*o.Memory.Block + max(int64(n+again)*o.Memory.Token, int64(n)*(o.Memory.Kept+o.Memory.Output)) + int64(again)*o.Memory.Buffer
			return ns, used <= o.Memory.Total
		}
		best := 0.
		for n := 1; n <= len(s.Waiting); n++ {
			for share := 0; share <= Share; share++ {
				if ns, fits := price(n, share); fits && ns <= limit {
					best = max(best, float64(n)/float64(ns))
				}
			}
		}
		p := &Optimised{Time: toy{}.Iteration, SLO: slo, Partial: true}
		p.Batch(s, nil)
		got := 0.
		if n := p.admitted; n > 0 {
			chosen++
			ns, fits := price(n, s.Uncached)
			if !fits || ns > limit {
				t.Fatalf("%d requests with share %d take %d ns of %d, fits %v", n, s.Uncached, ns, limit, fits)
			}
			got = float64(n) / float64(ns)
		}
		if s.Uncached > 0 {
			shared++
		}
		if got < best*(1-tolerance) {
			t.Fatalf("%d of %d requests with share %d have a quotient of %g, the best has %g", p.admitted, len(s.Waiting), s.Uncached, got, best)
		}
	}
	if chosen < 100 || shared < 20 {
		t.Errorf("%d choices, %d with a share: the draws test little", chosen, shared)
	}
}

// watched fails the test if Eq. 1 passes over a request that has waited longer than the limit,
// although an iteration with it keeps the limit. WT_max is then no reason to let it wait.
type watched struct {
	*Optimised
	t     *testing.T
	waits *int
}

func (w watched) Batch(s *State, plan []int) {
	w.Optimised.Batch(s, plan)
	if len(s.Waiting) == 0 || len(s.Running) >= s.options.MaxRunning {
		return
	}
	longest := int64(0)
	for _, j := range s.Waiting {
		if j.Preemptions == 0 { // those that ran before do not count for WT_max
			longest = max(longest, s.Now-j.Arrival)
		}
	}
	var x pipeline.Iteration
	for _, j := range append(s.Running[:len(s.Running):len(s.Running)], s.Waiting[0]) {
		x.Context += int64(j.Tokens())
		x.Decodes++
		x.Outputs++
	}
	ns, _ := toy{}.Iteration(&x)
	if longest <= w.SLO || ns > w.SLO {
		return
	}
	if *w.waits++; w.admitted == 0 {
		w.t.Fatalf("at %d ns, a request has waited %d of %d ns, and Eq. 1 admits none, although an iteration takes %d", s.Now, longest, w.SLO, ns)
	}
}

// Nobody waits beyond WT_max if there is room.
func TestLongestWait(t *testing.T) {
	waits := 0
	for seed := range uint64(300) {
		all, o := drawn(seed)
		o.Scheduler = watched{&Optimised{Time: toy{}.Iteration, SLO: int64(110 + seed%300)}, t, &waits}
		rows, _, err := runAll(t, all, o)
		if err != nil {
			continue // larger than memory
		}
		if err := starved(o, rows); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if waits < 1000 {
		t.Errorf("%d waits beyond the limit: the draws test little", waits)
	}
}

// Literal gives Eq. 4 as worked by hand for one request of 1000 tokens, half of them uncached, on an
// A100 (replay/reproduce/ellm).
func TestLiteral(t *testing.T) {
	m := &hardware.Model{}
	m.Layers.Value, m.Hidden.Value, m.Vocabulary.Value = 40, 5120, 32000
	ns, err := Literal(m, 312e12)(&pipeline.Iteration{Decodes: 1, Context: 1000, Again: 500, Squares: 250000})
	if err != nil || ns != 42644929 {
		t.Errorf("%d ns, %v, expected 42.644929 ms", ns, err)
	}
}

// Eq. 1 multiplies the memory by the number of GPUs, but Eq. 4 divides by the FLOP/s of one.
func TestLiteralOfSeveralGPUs(t *testing.T) {
	lib, err := hardware.Load("")
	fatal.If(t, err)
	m, err := lib.Model("llama-2-70b")
	fatal.If(t, err)
	a100, err := lib.Machine("a100-80")
	fatal.If(t, err)
	x := &pipeline.Iteration{Decodes: 2, Context: 1800}
	want, err := Literal(m, float64(a100.GPU.BF16.Value))(x)
	fatal.If(t, err)
	for _, gpus := range []int{1, 4} {
		e := &Served{engine: Engine{Options: pipeline.Options{Machine: a100, Model: m, TensorParallel: gpus}}, admits: Admission{Batch: true, Literal: true}}
		if ns, err := e.scheduler(nil).(*Optimised).Time(x); err != nil || ns != want {
			t.Errorf("%d GPUs: %d ns, %v, expected %d", gpus, ns, err, want)
		}
	}
}
