// Package nearlrfu is LRFU with a look at near misses: a candidate of rank K to M has its demand
// rate raised for the step.
//
// Source: new here. The rate is LRFU's (Lee et al., IEEE Transactions on Computers 50(12), 2001),
// and the use of the ranks is KVDrive's (lookahead eviction). The README's board shows how it does.
//
// Step semantics: the rate is that of package lrfu. The ranks of the step itself count, because
// they are known when it evicts. They do not enter the rate. Near misses are the ranks K … M-1 that
// the trace has and the run uses.
//
// Rule: the first victim is the block with the lowest S + w·near, with S the logarithm of the rate.
// near = 1 - i/(m+1) for the i-th of the step's m candidates, counted from 1 at rank K, pinned ones
// included. near = 0 for all other blocks. The best candidate's rate is therefore raised by the
// factor e^(w·m/(m+1)), nearly e^w. Ties go to the least recently used, then to the lowest block
// index. A rate of 0 stays 0, so births are not raised.
//
// State and invariant: package lrfu's, the queue ordered by rate, and each block's place among the
// candidates. A raised rate is never lower. Evict therefore reads only the candidates that reach
// the front by their rate. They are set aside and raised (raised.go), and queued by their rate
// again at its end.
//
// The factors of m candidates are the powers of e^(w/(m+1)) (lift.go). Their float64 products,
// quotients and sums are rounded one by one, so they are the same on every machine, like package
// lrfu's rates.
//
// Options: gamma=G is the decay per step, 0.1 to 0.99999, 0.97 by default. w=W is 0 to 20, 2 by
// default. history=keep or forget, as in lrfu. Defaults were chosen by hand. w = 0 is lrfu.
//
// Cost: O(1) per change of the demand, and one store per candidate and step. Memory: 24 B per block
// of the context and 4 B per change. Exact, online, no stack property. Needs ranks. With M = K it
// is lrfu. It loses to lrfu if the ranking near K is noise.
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
	Summary: "lrfu that also raises the rates of candidates, ranks K to M",
	Source:  "new here, after LRFU of Lee et al., IEEE ToC 2001",
	Usage:   "near-lrfu:gamma=G,w=W,history=H, G from 0.1 to 0.99999, default 0.97, W from 0 to 20, default 2, and H keep (default) or forget",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Memory: "24 B", Cost: "O(1) a change, O(M-K) a step"},
	New:     parse,
}

// maxW bounds w. At the default decay, e^20 equals 650 steps without a demand.
const maxW = 20

func parse(text string) (func() policies.Policy, string, error) {
	gamma, w, history := 0.97, 2.0, "keep"
	canonical, err := policies.ParseOptions(text, policies.Float("gamma", &gamma, lrfu.MinGamma, lrfu.MaxGamma),
		policies.Float("w", &w, 0, maxW), policies.Word("history", &history, "keep", "forget"))
	return func() policies.Policy { return &Policy{Gamma: gamma, W: w, Forget: history == "forget"} }, canonical, err
}

// Policy is near-LRFU over one stream.
type Policy struct {
	Gamma  float64 // decay per step
	W      float64 // weight of a near miss, in units of ln rate
	Forget bool    // an eviction forgets the block's rate

	rates   lrfu.Rates
	queue   bucket.Queue // the outside set, by rate
	raised  raised       // candidates that the current call of Evict has set aside
	near    []int32      // base plus the place of each of the step's candidates
	base    int32        // larger than any entry of near before the step
	lifts   lifts
	factors []float64
}

// Needs returns the need for the ranks K … M-1.
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

// factor returns the factor that raises x's rate.
func (p *Policy) factor(x int32) float64 {
	if i := p.near[x] - p.base; i >= 0 {
		return p.lifts.factor[i]
	}
	return 1
}

// Evict appends the n blocks with the lowest raised rates. A raised rate is never below the rate,
// so Evict reads only candidates that reach the front by their rate.
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

// pop extends dst towards the length end. From index from on, dst has blocks of lower rates. pop
// appends the blocks of the lowest buckets by rate, but of no bucket above one in which a raised
// block waits. It raises the candidates among all of these and keeps those that still belong in
// these buckets. It returns the index at which the blocks of the last bucket begin: before end.
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

// raise computes the buckets of blocks that were set aside.
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
