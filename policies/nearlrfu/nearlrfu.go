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
// lowest block index. A rate of 0 stays 0: births are not raised.
//
// State and invariant: package lrfu's, the queue ordered by rate, and each block's place
// among the candidates. Raising only helps, so Evict looks only at candidates that come
// to the front by their rate; they wait in a second queue, raised, and are queued by
// their rate again at its end.
//
// The factors of m candidates are the powers of e^(w/(m+1)), worked out (lift.go) by
// products, quotients and sums of float64 that are rounded one by one: the same on
// every machine, as package lrfu's rates are.
//
// Options: gamma=G, the decay a step, 0.1 to 0.99999, 0.97 by default; w=W, 0 to 20, 2
// by default; history=keep or forget, as in lrfu. Defaults are the study's, at M = 3K.
// w = 0 is lrfu.
//
// Cost: O(1) a change of the demand, and a store a candidate and step. Memory: 28 B a
// block of the context and 4 B a change. Exact, online, no stack property. Needs
// ranks; with M = K it is lrfu. It loses to lrfu where the ranking near K is noise.
package nearlrfu

import (
	_ "embed" // the package comment is the policy's documentation
	"math"
	"slices"

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
	Traits:  policies.Traits{Memory: "28 B", Cost: "O(1) + O(M-K) a step"},
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

	rates   lrfu.Rates
	queue   bucket.Queue // the outside set, by rate
	raised  bucket.Queue // during a call of Evict: candidates that it looked at, by raised rate
	near    []int32      // base plus its place among the candidates, of each of the step's
	base    int32        // larger than any entry of near before the step
	lifts   lifts
	to      []int32 // buckets of candidates
	moved   []int32 // candidates
	factors []float64
}

// Needs asks for the ranks K … M-1.
func (p *Policy) Needs() policies.Needs { return policies.NeedCandidates }

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	buckets := p.rates.Reset(sc, p.Gamma, int(math.Ceil(p.W*math.Log2E)))
	p.queue.Reset(sc.Blocks, buckets)
	p.raised.Reset(sc.Blocks, buckets)
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
// the rate, so only candidates that come to the front by their rate are looked at: first
// those of all buckets from which n blocks would come by rate, then bucket by bucket.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	from := len(dst)
	dst = p.rates.PopFront(&p.queue, n, dst)
	end := min(from+n, len(dst)+p.queue.Len())
	if end <= from {
		return dst
	}
	dst, begin := p.popFront(from, end, dst)
	for len(dst) < end { // what is raised was queued
		begin = len(dst)
		dst = p.popBucket(p.lowest(), dst)
	}
	if len(dst) > end {
		p.sort(dst[begin:])
		p.rates.Join(&p.queue, dst[end:])
		dst = dst[:end]
	}
	if p.raised.Len() > 0 {
		p.moved = p.raised.PopLowest(p.raised.Len(), p.moved[:0])
		p.rates.Join(&p.queue, p.moved)
	}
	return dst
}

// popFront appends to dst, which has blocks of lower rates from place from on, those of the
// lowest buckets by rate that make it end long, and keeps the blocks whose raised rates
// belong there too. It returns where those of the last bucket begin: before end.
func (p *Policy) popFront(from, end int, dst []int32) (out []int32, begin int) {
	dst, b, begin := p.queue.PopBuckets(end-len(dst), dst)
	if b == 0 {
		return dst, begin // of rate 0, which cannot be raised
	}
	last := dst[begin:]
	dst = p.raise(from, dst[:begin])
	begin = len(dst)
	dst = p.raise(begin, append(dst, last...))
	for p.raised.Len() > 0 && p.raised.Lowest() <= b {
		r, at := p.raised.Lowest(), len(dst)
		dst = p.raised.PopBucket(r, dst)
		for ; r < b && at < len(dst); at++ {
			dst[begin], dst[at] = dst[at], dst[begin]
			begin++
		}
	}
	return dst, begin
}

// raise moves the candidates from dst[from:] to p.raised.
func (p *Policy) raise(from int, dst []int32) []int32 {
	n := len(dst) - from
	p.moved = slices.Grow(p.moved[:0], n)[:n]
	kept, moved := sift(dst[from:], p.near, p.base, p.moved)
	if moved > 0 {
		p.moved, p.to = p.moved[:moved], p.to[:0]
		for _, x := range p.moved {
			p.to = append(p.to, p.rates.Place(x, p.factor(x)).Bucket)
		}
		p.raised.PushAll(p.to, p.moved)
	}
	return dst[:from+kept]
}

// sift moves the blocks with near below base to the front, copies the others to out, and
// returns how many they are of each.
//
//go:noinline
func sift(blocks, near []int32, base int32, out []int32) (kept, moved int) {
	out = out[:len(blocks)]
	for _, x := range blocks {
		blocks[kept], out[moved] = x, x
		stays := int(uint32(near[x]-base) >> 31)
		kept += stays
		moved += 1 - stays
	}
	return kept, moved
}

// lowest is the lowest bucket in use of both queues, of which one is not empty.
func (p *Policy) lowest() int32 {
	switch {
	case p.raised.Len() == 0:
		return p.queue.Lowest()
	case p.queue.Len() == 0:
		return p.raised.Lowest()
	}
	return min(p.queue.Lowest(), p.raised.Lowest())
}

// popBucket appends the blocks whose raised rates belong in bucket b, the lowest.
func (p *Policy) popBucket(b int32, dst []int32) []int32 {
	dst = p.raise(len(dst), p.queue.PopBucket(b, dst))
	if p.raised.Len() == 0 || p.raised.Lowest() > b {
		return dst
	}
	return p.raised.PopBucket(b, dst)
}

// sort puts blocks of one bucket in the order of their raised rates.
func (p *Policy) sort(blocks []int32) {
	p.factors = p.factors[:0]
	for _, x := range blocks {
		p.factors = append(p.factors, p.factor(x))
	}
	p.rates.Sort(blocks, p.factors)
}
