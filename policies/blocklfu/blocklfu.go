// Package blocklfu is LFU over blocks with admission: only the missed blocks with the most demanded
// entries are inserted.
//
// Source: PQCache (Zhang et al., "PQCache: Product Quantization-based KVCache for Long Context LLM
// Inference", SIGMOD 2025), its block-level GPU cache, and the authors' implementation
// (HugoZHL/PQCache, vq_method/retrieval_based). Its blocks have 128 tokens and are shared by the
// heads of a layer. The Top-K entries of all heads are counted per block. The cache_topk blocks
// with the most entries are inserted, or counted once more if they are resident. By default
// cache_topk is the capacity. Every missed entry is fetched by itself, and every inserted block is
// moved whole as well.
//
// Step semantics: an access is one demanded step of a block that is among the first `admit` blocks
// of the step by demanded entries. Ties go to the lowest block index. Only such blocks are counted,
// and only such blocks are inserted, with a count of one. They are inserted while the hits of the
// step leave room, most demanded entries first. All other misses are kept out. A birth has a count
// of zero.
//
// Rule: the first victim is the block outside the demand with the lowest count. Ties go to the
// least recently used, then to the lowest block index. If births leave more hits than the capacity,
// the hits with the lowest counts leave, lowest index first.
//
// It departs from the implementation in two ways. The implementation inserts one block after the
// other and may evict a block that the same step inserted. Here a member of D_t is never a victim.
// The order of equal counts is by last use, not by the time of the last count.
//
// It is a Bypasser and an Admitter: the bytes that it fetches and the bytes that it fills the cache
// with differ. With blocks of one entry each block has one demanded entry, and admission is by
// index. The policy is meant for `--block-tokens 128 --share-heads`. Cost: O(|D_t| log |D_t|) per
// step. Memory: 8 B per block of the context and 4 B per change. Exact, online, no stack property.
// It loses if steps demand a few entries of many blocks, because it then moves whole blocks for
// them. A larger cache admits more blocks, so it misses less but may move more bytes. With `admit`
// the number of inserted blocks does not grow with the capacity.
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
	Summary: "evicts the block with the lowest count, and inserts the missed blocks with the most demanded entries",
	Source:  "PQCache, SIGMOD 2025, block-level GPU cache",
	Usage:   "block-lfu:admit=N, N ≥ 0 blocks per step, default 0 (the capacity)",
	Example: "admit=4",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Bypasses: true, Sized: true, Memory: "8 B", Cost: "O(|D| log |D|) a step"},
	New: policies.WithOptions(Policy{}, func(p *Policy) []policies.Option {
		return []policies.Option{policies.Int("admit", &p.Admit, 0, math.MaxInt32)}
	}),
}

// Policy is LFU over blocks with admission, over one stream.
type Policy struct {
	Admit int // most blocks that a step counts or inserts. 0 means the capacity

	capacity int
	queue    bucket.Queue // outside the demand, by count
	count    []int32      // count of each block, absent if it is not resident
	order    []ranked     // of D_t, most demanded entries first
	bypass   []int32
}

// ranked is a block index below a number. The blocks sort by that number, then by index.
type ranked uint64

func rankedBy(number uint32, block int32) ranked { return ranked(number)<<32 | ranked(block) }

func (r ranked) block() int32 { return int32(r) }

const absent = -1

// Needs returns the columns of the demand and its entries.
func (p *Policy) Needs() policies.Needs { return policies.NeedDemand | policies.NeedPicked }

// Admits marks the policy as an Admitter: misses that it keeps out are fetched entry by entry.
func (p *Policy) Admits() {}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.capacity = sc.Capacity
	p.queue.Reset(sc.Blocks, sc.Steps+1)
	p.count = policies.Fill(p.count, sc.Blocks, absent)
	p.bypass = p.bypass[:0]
	return nil
}

// Resize sets a changed capacity.
func (p *Policy) Resize(capacity int) { p.capacity = capacity }

// Update applies a step and decides which blocks of it are kept.
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

// choose counts the hits among the first blocks and inserts their misses while there is room. It
// keeps the rest out.
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

// Bypass returns the blocks of the demand that are not kept.
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
