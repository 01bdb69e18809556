// Package nearlrfu is LRFU that also looks at what the current step almost selected: a
// candidate of rank K to M has its demand rate raised for the step.
//
// Source: new here; the rate is LRFU's (Lee et al., IEEE Transactions on Computers
// 50(12), 2001), the use of the ranks KVDrive's (lookahead eviction). How it does is on the
// README's board.
//
// Step semantics: the rate is that of package lrfu. The ranks of the step itself count,
// as they are known when it evicts; they do not enter the rate. M is the run's: near
// misses are the ranks K … M-1 that the trace holds and the run uses.
//
// Rule: first victim is the block with the lowest S + w·near, where S is the logarithm
// of the rate and near = 1 - i/(m+1) for the i-th of the step's m candidates, counted
// from 1 at rank K, pinned ones too, and 0 for all other blocks. So the best
// candidate's rate is raised by the factor e^(w·m/(m+1)), nearly e^w. Ties go to the
// least recently used, then to the lowest block index. A rate of 0 stays 0: births are
// not raised.
//
// State and invariant: package lrfu's, the queue ordered by rate, and each block's place
// among the candidates. Raising only helps, so Evict looks only at candidates that come
// to the front by their rate; they are set aside, raised (raised.go), and are queued by
// their rate again at its end.
//
// The factors of m candidates are the powers of e^(w/(m+1)), worked out (lift.go) by
// products, quotients and sums of float64 that are rounded one by one: the same on
// every machine, as package lrfu's rates are.
//
// Options: gamma=G, the decay a step, 0.1 to 0.99999, 0.97 by default; w=W, 0 to 20, 2
// by default; history=keep or forget, as in lrfu. Defaults were chosen by hand.
// w = 0 is lrfu.
//
// Cost: O(1) a change of the demand, and a store a candidate and step. Memory: 24 B a
// block of the context and 4 B a change. Exact, online, no stack property. Needs
// ranks; with M = K it is lrfu. It loses to lrfu where the ranking near K is noise.
package nearlrfu

import (
	_ "embed" // the package comment is the policy's documentation
	"math"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
	"github.com/kvreplay/kvreplay/policies/lrfu"
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
	Traits:  policies.Traits{Memory: "24 B", Cost: "O(1) a change, O(M-K) a step"},
	New:     parse,
}

// maxW bounds w: at the default decay e^20 makes up for 650 steps without a demand.
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

	rates   lrfu.Rates
	queue   bucket.Queue // the outside set, by rate
	raised  raised       // during a call of Evict: candidates that it looked at
	near    []int32      // base plus its place among the candidates, of each of the step's
	base    int32        // larger than any entry of near before the step
	lifts   lifts
	factors []float64
}

// Needs asks for the ranks K … M-1.
func (p *Policy) Needs() policies.Needs { return policies.NeedCandidates }

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	buckets := p.rates.Reset(sc, p.Gamma, int(math.Ceil(p.W*math.Log2E)))
	p.queue.Reset(sc.Blocks, buckets)
	p.near = policies.Fill(p.near, sc.Blocks, 0)
	p.base = 1
	p.lifts.set(p.W, 0)
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	p.rates.Update(&p.queue, s, p.Forget)
	if p.W == 0 {
		return
	}
	if p.base += int32(len(p.lifts.factor)); p.base > math.MaxInt32/2 {
		clear(p.near)
		p.base = 1
	}
	p.lifts.set(p.W, len(s.Candidates))
	near, at := p.near, p.base
	for _, x := range s.Candidates {
		near[x] = at
		at++
	}
}

// factor is what x's rate is raised by.
func (p *Policy) factor(x int32) float64 {
	if i := p.near[x] - p.base; i >= 0 {
		return p.lifts.factor[i]
	}
	return 1
}

// Evict appends the n blocks with the lowest raised rates. A raised rate is never below
// the rate, so only candidates that come to the front by their rate are looked at.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	from := len(dst)
	dst = p.rates.PopFront(&p.queue, n, dst)
	end := min(from+n, len(dst)+p.queue.Len())
	p.raised.clear()
	for begin := from; from < end; from = len(dst) {
		if dst, begin = p.pop(from, end, dst); len(dst) > end {
			p.sort(dst[begin:])
			p.rates.Join(&p.queue, dst[end:])
			dst = dst[:end]
		}
	}
	p.rates.Join(&p.queue, p.raised.blocks)
	return dst
}

// pop appends to dst, which has blocks of lower rates from place from on, those of the
// lowest buckets by rate that make it end long, but no buckets above one where a raised
// block waits. Candidates among all of these are raised; those that belong in these buckets
// all the same come back. It returns where the blocks of the last bucket begin: before end.
func (p *Policy) pop(from, end int, dst []int32) (out []int32, begin int) {
	last := p.raised.low
	begin = len(dst)
	if p.queue.Len() > 0 && p.queue.Lowest() <= last {
		dst, last, begin = p.queue.PopBuckets(end-len(dst), last, dst)
		if last > 0 { // rates of 0 cannot be raised
			latest := dst[begin:]
			dst = dst[:from+p.raised.sift(dst[from:begin], p.near, p.base)]
			begin = len(dst)
			dst = append(dst, latest[:p.raised.sift(latest, p.near, p.base)]...)
			p.raise()
		}
	}
	return p.raised.take(last, begin, dst)
}

// raise works out the buckets of blocks that were set aside.
func (p *Policy) raise() {
	for _, x := range p.raised.blocks[len(p.raised.buckets):] {
		p.raised.in(p.rates.Place(x, p.factor(x)).Bucket)
	}
}

// sort puts blocks of one bucket in the order of their raised rates.
func (p *Policy) sort(blocks []int32) {
	p.factors = p.factors[:0]
	for _, x := range blocks {
		p.factors = append(p.factors, p.factor(x))
	}
	p.rates.Sort(blocks, p.factors)
}
