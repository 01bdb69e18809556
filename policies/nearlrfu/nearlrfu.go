// Package nearlrfu is LRFU that also looks at what the current step almost selected: a
// candidate of rank K to M has its demand rate raised for the step.
//
// Source: a study of this project on eight real traces, where it is the best of the
// policies that one would ship; the rate is LRFU's (Lee et al., IEEE Transactions on
// Computers 50(12), 2001), the use of the ranks KVDrive's (lookahead eviction).
//
// Step semantics: the rate is that of package lrfu. The ranks of the step itself count,
// as they are known when it evicts; they do not enter the rate. M is the run's: near
// misses are the ranks K … M-1 that the trace holds and the run uses.
//
// Rule: first victim is the block with the lowest S + w·near, where S is the logarithm
// of the rate and near = 1 - i/(m+1) for the i-th of the step's m candidates, counted
// from 1 at rank K, and 0 for all other blocks. So w is the factor e^w by which the
// best candidate's rate is raised. Ties go to the least recently used, then to the
// lowest block index; two raised rates tie only by rounding, and then the one with the
// lower rate goes. A rate of 0 stays 0: births are not raised.
//
// State and invariant: package lrfu's, the queue ordered by rate, and each block's place
// among the candidates. Raising only helps, so Evict looks only at candidates that come
// to the front by their rate; they are queued again, raised, and restored at its end.
//
// The factors of m candidates are the powers of e^(w/(m+1)), worked out (lift.go) by
// products, quotients and sums of float64 that are rounded one by one: the same on
// every machine, as package lrfu's rates are.
//
// Options: gamma=G, the decay a step, 0.1 to 0.99999, 0.97 by default; w=W, 0 to 20, 2
// by default; history=keep or forget, as in lrfu. Defaults are the study's, at M = 3K.
// w = 0 is lrfu.
//
// Cost: O(1) a change of the demand, and a store a candidate and step. Memory: 24 B a
// block of the context and 24 B a resident. Exact, online, no stack property. Needs
// ranks; with M = K it is lrfu. It loses to lrfu where the ranking near K is noise.
package nearlrfu

import (
	_ "embed" // the package comment is the policy's documentation
	"math"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/lrfu"
	"github.com/kvreplay/kvreplay/policies/sorted"
)

//go:embed nearlrfu.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "near-lrfu",
	Summary: "lrfu that raises the rate of the step's near misses, ranks K to M",
	Source:  "here; LRFU of Lee et al., IEEE ToC 2001",
	Usage:   "near-lrfu:gamma=G,w=W,history=H with G from 0.1 to 0.99999, 0.97 by default, W from 0 to 20, 2 by default, and H keep (default) or forget",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Memory: "24 B", Cost: "O(1) + O(M-K) a step"},
	New:     parse,
}

// maxW bounds w: e^20 already lifts every candidate above what is not one.
const maxW = 20

func parse(text string) (func() policies.Policy, string, error) {
	gamma, w, history := 0.97, 2.0, "keep"
	canonical, err := policies.ParseOptions(text, policies.Float("gamma", &gamma, lrfu.MinGamma, lrfu.MaxGamma),
		policies.Float("w", &w, 0, maxW), policies.Word("history", &history, "keep", "forget"))
	return func() policies.Policy { return &Policy{Gamma: gamma, W: w, Forget: history == "forget"} }, canonical, err
}

// Policy is near-LRFU over one stream.
type Policy struct {
	Gamma  float64 // decay a step
	W      float64 // weight of a near miss, in units of ln rate
	Forget bool    // an eviction forgets the block's rate

	queue  sorted.Queue
	rates  lrfu.Rates
	near   []candidacy // of each block
	calls  int32
	lifts  lifts
	raised []int32 // popped and pushed again during a call of Evict
}

// candidacy is a block's place among the candidates of a call of Update, counted from
// 1; raised while Evict has the block queued at its raised rate.
type candidacy struct{ call, place int32 }

const raised = -1

// Needs asks for the ranks K … M-1.
func (p *Policy) Needs() policies.Needs { return policies.NeedCandidates }

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	headroom := int(math.Ceil(p.W * math.Log2E))
	p.queue.Reset(p.rates.Reset(sc, p.Gamma, headroom))
	p.near = policies.Fill(p.near, sc.Blocks, candidacy{})
	p.calls = 0
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	p.rates.Update(&p.queue, s, p.Forget)
	p.calls++
	if p.W == 0 {
		return
	}
	p.lifts.set(p.W, len(s.Candidates))
	for i, x := range s.Candidates {
		p.near[x] = candidacy{p.calls, int32(i)}
	}
}

// Evict appends the n blocks with the lowest raised rates. A raised rate is never
// below the rate, so only candidates that come to the front by their rate are looked
// at: they are pushed again at their raised rate, until the victims are found.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	p.raised = p.raised[:0]
	for n = min(n, p.queue.Len()); n > 0; {
		x := p.queue.PopLowest()
		if c := &p.near[x]; c.call == p.calls && !p.rates.Never(x) {
			p.raise(x, c)
			continue
		}
		p.near[x].call = 0
		dst = append(dst, x)
		n--
	}
	p.restore()
	return dst
}

// raise pushes a candidate at its raised rate; popped again, it is a victim.
func (p *Policy) raise(x int32, c *candidacy) {
	p.rates.SetSlot(x, p.queue.Push(p.rates.Place(x, p.lifts.factor[c.place]), x))
	c.call = raised
	p.raised = append(p.raised, x)
}

// restore gives raised blocks that stay their rate again. They were popped in order
// and nothing below them is left, so each goes to the front, the last popped first.
func (p *Policy) restore() {
	kept := p.raised[:0]
	for _, x := range p.raised {
		if p.near[x].call == raised {
			p.queue.Remove(p.rates.Slot(x))
			p.near[x].call = p.calls
			kept = append(kept, x)
		}
	}
	for i := len(kept) - 1; i >= 0; i-- {
		x := kept[i]
		p.rates.SetSlot(x, p.queue.PushFront(p.rates.Place(x, 1), x))
	}
}
