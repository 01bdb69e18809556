// Package static keeps the blocks that the warm-up demanded most, for good.
//
// Source: the static caches of recommender and graph systems, filled once by frequency, observed or
// expected. PaGraph (Lin, Li, Miao, Liu and Xu, SoCC 2020) caches the vertices that sampling reads
// most, by their out-degree, and never replaces them.
//
// Step semantics: an access is one demanded step of a block. In the warm-up windows (T < 0)
// accesses are counted. After each window exactly the C blocks with the most accesses so far are
// kept, ties to the lowest block index. This is a choice of a set, as the importance warm-up makes
// it, not an order of eviction. Every block of that set was fetched at its last demand and kept
// since. At step 0 the C most demanded blocks of all windows are therefore resident.
//
// From step 0 on they are the cache, whatever is demanded. A block of the set always hits. Any
// other is fetched for its step and kept out. A birth belongs to no set and is dropped at the step
// that hands it over. In the windows it is dropped too, unless it is demanded there. An importance
// or staging warm-up runs no window, and the blocks that it places are the set. A cold static keeps
// nothing, like none. Blocks that no window demanded are not in the set, which may be smaller than
// C.
//
// Rule: in the windows, blocks that fall out of the set are evicted, lowest counts first. From step
// 0 on, only births are. It is a Bypasser: |D_t| may exceed C.
//
// State: in the windows a counter per block and the number of blocks of each count, after them
// none. Cost: O(|D_t| + C) and 1/64 of the context per window. From step 0 on it is O(misses) per
// step, and every demanded block outside the set is a miss at every step. Memory: 4 B per block of
// the context. Exact, online, no options. Stack property: yes, the sets are nested.
//
// It measures the worth of replacement as such. It loses to every policy as the demand drifts away
// from the demand at the prompt's end.
package static

import (
	_ "embed" // the package comment is the policy's documentation
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

//go:embed static.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "static",
	Summary: "keeps the blocks that the warm-up demanded most, for good",
	Source:  "static caches by frequency (PaGraph, SoCC 2020)",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Bypasses: true, Sized: true, Stack: true, Memory: "4 B", Cost: "O(misses) a step"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// Policy is a static cache over one stream.
type Policy struct {
	capacity int
	count    []int32  // windows that demanded each block
	having   []int32  // number of blocks per count
	set      []uint64 // blocks that are kept, and D_t until the choice
	demand   []uint64 // D_t of a window
	bypass   []int32
	victims  []int32
}

// Needs returns the need for the demand. The engine then classifies the demand as a whole, which is
// faster if much of it misses.
func (p *Policy) Needs() policies.Needs { return policies.NeedDemand }

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	words := sc.Blocks>>6 + 1
	p.capacity = sc.Capacity
	p.count = policies.Fill(p.count, sc.Blocks, 0)
	p.having = policies.Fill(p.having, sc.Windows+1, 0)
	p.set, p.demand = policies.Fill(p.set, words, 0), policies.Fill(p.demand, words, 0)
	p.bypass, p.victims = p.bypass[:0], p.victims[:0]
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	p.bypass, p.victims = p.bypass[:0], p.victims[:0]
	if s.T < 0 {
		p.dropBirths(s, nil)
		p.window(s)
		return
	}
	p.bypass = append(p.bypass, s.Miss...)
	p.dropBirths(s, &p.bypass)
}

// dropBirths makes victims of births that are not demanded. It appends the others to demanded.
func (p *Policy) dropBirths(s *policies.Step, demanded *[]int32) {
	for _, x := range s.Offered {
		if _, ok := slices.BinarySearch(s.Hit, x); !ok {
			p.victims = append(p.victims, x)
		} else if demanded != nil {
			*demanded = append(*demanded, x)
		}
	}
}

// window counts a window's demand and keeps the most demanded so far.
func (p *Policy) window(s *policies.Step) {
	for _, x := range s.Exit {
		p.demand[x>>6] &^= 1 << (x & 63)
	}
	for _, entering := range [][]int32{s.Hit, s.Miss} {
		for _, x := range entering {
			p.demand[x>>6] |= 1 << (x & 63)
		}
	}
	for w, rest := range p.demand {
		p.set[w] |= rest
		for ; rest != 0; rest &= rest - 1 {
			p.tally(w<<6 | bits.TrailingZeros64(rest))
		}
	}
	p.choose()
}

func (p *Policy) tally(x int) {
	if n := p.count[x]; n > 0 {
		p.having[n]--
	}
	p.count[x]++
	p.having[p.count[x]]++
}

// choose keeps the blocks of the set with the most demands, as many as the capacity allows. Blocks
// outside the set cannot be among them: see the package's doc.
func (p *Policy) choose() {
	least, room := p.least()
	for w, rest := range p.set {
		for ; rest != 0; rest &= rest - 1 {
			bit := rest & -rest
			x := w<<6 | bits.TrailingZeros64(rest)
			if n := p.count[x]; n > least {
				continue
			} else if n == least && room > 0 {
				room--
				continue
			}
			p.drop(w, bit, int32(x))
		}
	}
}

// least returns the count of the last blocks that fit, and the number of blocks with this count that
// fit.
func (p *Policy) least() (count int32, room int) {
	room = p.capacity
	for n := len(p.having) - 1; n > 0; n-- {
		if room <= int(p.having[n]) {
			return int32(n), room
		}
		room -= int(p.having[n])
	}
	return 0, room
}

// drop removes x from the set. It keeps x out if the window demands it, and evicts it otherwise.
func (p *Policy) drop(w int, bit uint64, x int32) {
	p.set[w] &^= bit
	if p.demand[w]&bit != 0 {
		p.demand[w] &^= bit // a miss when it is demanded again
		p.bypass = append(p.bypass, x)
	} else {
		p.victims = append(p.victims, x)
	}
}

// Bypass returns the demanded blocks that are not in the set.
func (p *Policy) Bypass(_ int, dst []int32) []int32 { return append(dst, p.bypass...) }

// Evict returns the births and, in a window, the blocks that fell out of the set.
func (p *Policy) Evict(_ int, dst []int32) []int32 { return append(dst, p.victims...) }
