// Package blocklfu is LFU over blocks with admission: of what a step misses, only the
// blocks with the most demanded entries are worth a place.
//
// Source: PQCache (Zhang et al., "PQCache: Product Quantization-based KVCache for Long
// Context LLM Inference", SIGMOD 2025), its block-level GPU cache and the authors'
// implementation (HugoZHL/PQCache, vq_method/retrieval_based): blocks of 128 tokens,
// shared by the heads of a layer; a step's blocks are counted over its Top-K of all
// heads, and the cache_topk blocks with the most of them, by default as many as the
// cache holds, are inserted or, where they are there, counted once more; missed
// entries are fetched one by one, whatever is inserted moves whole as well.
//
// Step semantics: an access is one demanded step of a block that is among the step's
// first `admit` by demanded entries, ties to the lowest block index. Only such blocks
// are counted and only such are inserted, with a count of one, as long as there is room
// beside the hits of the step: most demanded entries first. All other misses are kept
// out. A birth has a count of zero.
//
// Rule: first victim is the block outside the demand with the lowest count; ties go to
// the least recently used, then to the lowest block index. Where births leave more hits
// than the capacity, the hits with the lowest counts go, lowest index first.
//
// It departs from the implementation where that inserts one block after the other and
// may evict what the same step inserted; here a member of D_t is never a victim. The
// order of equal counts is by last use, not by the time of the last count.
//
// It is a Bypasser and an Admitter: what it fetches and what it fills differ. With
// blocks of one entry each block has one demanded entry and admission is by index: it
// is meant for `--block-tokens 128 --share-heads`. Cost: O(|D_t| log |D_t|) a step.
// Memory: 8 B a block of the context and 4 B a change. Exact, online, no stack
// property. It loses where a few entries of many blocks are demanded: it then moves
// whole blocks for them.
package blocklfu

import (
	_ "embed" // the package comment is the policy's documentation
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

//go:embed blocklfu.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "block-lfu",
	Summary: "evicts the block counted least, admits those with the most demanded entries",
	Source:  "PQCache, SIGMOD 2025, block-level GPU cache",
	Usage:   "block-lfu:admit=N with N ≥ 0 blocks a step; 0, the default: as many as the capacity",
	Example: "admit=4",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Bypasses: true, Sized: true, Memory: "8 B", Cost: "O(|D| log |D|) a step"},
	New:     parse,
}

func parse(text string) (func() policies.Policy, string, error) {
	admit := 0
	canonical, err := policies.ParseOptions(text, policies.Int("admit", &admit, 0, math.MaxInt32))
	return func() policies.Policy { return &Policy{Admit: admit} }, canonical, err
}

// Policy is LFU over blocks with admission, over one stream.
type Policy struct {
	Admit int // most blocks that a step counts or inserts; 0: the capacity

	capacity int
	queue    bucket.Queue // outside the demand, by count
	count    []int32      // of each resident block; absent where it is not resident
	order    []ranked     // of D_t, most demanded entries first
	bypass   []int32
}

// ranked is a block behind the number that it is ordered by: they sort as one.
type ranked uint64

func rankedBy(number uint32, block int32) ranked { return ranked(number)<<32 | ranked(block) }

func (r ranked) block() int32 { return int32(r) }

const absent = -1

// Needs asks for the demand and its entries.
func (p *Policy) Needs() policies.Needs { return policies.NeedDemand | policies.NeedPicked }

// Admits says that what is kept out is fetched entry by entry.
func (p *Policy) Admits() {}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.capacity = sc.Capacity
	p.queue.Reset(sc.Blocks, sc.Steps+1)
	p.count = policies.Fill(p.count, sc.Blocks, absent)
	p.bypass = p.bypass[:0]
	return nil
}

// Resize follows a capacity that changes.
func (p *Policy) Resize(capacity int) { p.capacity = capacity }

// Update applies a step and decides what of it is kept.
func (p *Policy) Update(s *policies.Step) {
	p.queue.PushBy(p.count, s.Exit)
	p.queue.Push(0, s.Offered...)
	for _, x := range s.Offered {
		p.count[x] = 0
	}
	p.queue.Remove(s.Hit...)
	p.rank(s)
	p.choose()
}

// rank orders D_t by demanded entries.
func (p *Policy) rank(s *policies.Step) {
	p.order = p.order[:0]
	for i, x := range s.Members {
		p.order = append(p.order, rankedBy(^uint32(s.Picked[i]), x))
	}
	slices.Sort(p.order)
}

// choose counts the hits among the first blocks, inserts their misses where there is
// room and keeps the rest out.
func (p *Policy) choose() {
	p.bypass = p.bypass[:0]
	room := p.capacity
	for _, r := range p.order {
		if p.count[r.block()] != absent {
			room--
		}
	}
	admit := p.Admit
	if admit == 0 {
		admit = p.capacity
	}
	for i, r := range p.order {
		x := r.block()
		switch {
		case p.count[x] != absent:
			if i < admit {
				p.count[x]++
			}
		case i < admit && room > 0:
			p.count[x] = 1
			room--
		default:
			p.bypass = append(p.bypass, x)
		}
	}
	if room < 0 {
		p.dropHits(-room)
	}
}

// dropHits keeps the n hits with the lowest counts out.
func (p *Policy) dropHits(n int) {
	hits := p.order[:0]
	for _, r := range p.order {
		if x := r.block(); p.count[x] != absent {
			hits = append(hits, rankedBy(uint32(p.count[x]), x))
		}
	}
	slices.Sort(hits)
	for _, r := range hits[:n] {
		p.count[r.block()] = absent
		p.bypass = append(p.bypass, r.block())
	}
}

// Bypass returns what of the demand is not kept.
func (p *Policy) Bypass(_ int, dst []int32) []int32 { return append(dst, p.bypass...) }

// Evict appends the n blocks with the smallest counts.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	before := len(dst)
	dst = p.queue.PopLowest(n, dst)
	for _, x := range dst[before:] {
		p.count[x] = absent
	}
	return dst
}
