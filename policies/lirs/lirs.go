// Package lirs keeps the blocks that were demanded twice at the shortest distance. The distance is
// the number of other blocks demanded between the last two demands of a block. It predicts the next
// demand better than the time since the last one.
//
// Source: Jiang and Zhang, "LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy
// to Improve Buffer Cache Performance", SIGMETRICS 2002, sections 3.1 to 3.3. S is the stack of
// blocks by last access, with ghosts. Q is the queue of resident HIR blocks. LIR blocks have a low
// distance, HIR blocks a high one or none.
//
// Step semantics: an access is one demanded step of a block. All of D_t lies above everything else
// on S. A step is
//
//  1. Blocks that left the demand are put on S in ascending order, HIR blocks at the end of Q too.
//     A birth, or a block that a warm-up placed, was inserted but not accessed. It is a HIR block
//     at the end of Q and is not on S.
//  2. A block that stays in the demand for a second step becomes a LIR block, because its distance
//     is 0. Then the blocks that enter are taken in ascending order. LIR blocks stay LIR (case 1).
//     Blocks on S become LIR, if resident (case 2a) or a ghost that is hit (case 3a). The others
//     are HIR blocks (cases 2b, 3b). S is as it was at the step's start. At the start of a stream
//     every access makes a LIR block, until the LIR set is full once.
//  3. While there are too many LIR blocks, the lowest on S becomes a HIR block at the end of Q.
//     Members of D_t are never demoted, so there may be too many for a while.
//  4. The blocks on S below the lowest LIR block are removed (stack pruning), and ghosts among them
//     are forgotten.
//  5. Victims are taken.
//
// Rule: the first victim is the block at the front of Q. It became a HIR block, or was last
// accessed as one, at the earliest step. Ties go to the least recently used, then to the lowest
// index. If it is on S, it stays there as a ghost. Step 2 may turn all of Q into the demand. Then
// the lowest LIR block on S is evicted, which the paper would demote next. A block that an overflow
// keeps out is forgotten.
//
// Options: hir is the share of the capacity for HIR blocks, rounded down. HIR and LIR blocks have
// room for at least one block each. The default is 0.01, the paper's choice (section 4.2: 1 % of
// the cache).
//
// State: S and Q as lists of blocks outside D_t, and the status of each block. The share is the
// decimal exactly as written (policies.Part), applied at the start. Cost: O(1) per change of the
// demand, because pruning removes only blocks that were put on. Memory: 13 B per block of the
// context, and 4 B to 32 B for each on S or Q. Exact, online, no stack property.
//
// Differences from the paper: a whole step is classified before anything is demoted or evicted.
// Victims are taken after the accesses, not before. With steps of one block it is the paper's LIRS
// to the last miss. Only the context bounds the number of ghosts. It loses to LRU at several times
// the demand. There nearly every block has stayed for two steps once and is LIR, so new blocks are
// given no time. On the README's board it misses less than LRU up to 2 × K and more at 4 × K. It
// also loses if new blocks come back after a demand of one step, because Q has room for few of
// them.
package lirs

import (
	_ "embed" // the package comment is the policy's documentation
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/lists"
)

//go:embed lirs.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "lirs",
	Summary: "keeps blocks demanded twice at a short distance",
	Source:  "Jiang and Zhang, SIGMETRICS 2002, section 3",
	Usage:   "lirs:hir=H, share of the capacity for HIR blocks, 0 to 1, default 0.01",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Sized: true, Memory: "13 B", Cost: "O(1)"},
	New: policies.WithOptions(Policy{HIR: 0.01}, func(p *Policy) []policies.Option {
		return []policies.Option{policies.Float("hir", &p.HIR, 0, 1)}
	}),
}

// q is the list number of Q.
const q int32 = 0

// settled marks a member of D_t that is a LIR block. It is no step.
const settled = -1 << 31

// Policy is LIRS over one stream.
type Policy struct {
	HIR float64 // share of the capacity

	stack               // S
	queue   lists.Lists // Q
	entered []int32     // step at which a member of D_t entered as a HIR block, or settled
	most    int         // largest number of LIR blocks
	lirs    int         // number of LIR blocks, D_t included
	full    bool        // lirs has reached most once: the start is over
	fresh   int         // members of D_t that are HIR blocks: they entered at this step
	cold    []int32
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.stack.reset(sc.Blocks)
	p.queue.Reset(sc.Blocks)
	p.entered = policies.Fill(p.entered, sc.Blocks, settled)
	p.most = mostLIR(p.HIR, sc.Capacity)
	p.lirs, p.fresh, p.full = 0, 0, false
	return nil
}

// mostLIR returns the capacity less the HIR share. It leaves room for at least one HIR block and one
// LIR block.
func mostLIR(hir float64, capacity int) int {
	return max(1, capacity-max(1, policies.Part(hir, capacity)))
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	p.leave(s)
	p.lirs += p.fresh // without those that left: a second step makes a LIR block
	p.fresh = 0
	p.enter(s)
	p.pass(s)
	p.cold = p.cool(p.lirs-p.most, p.cold[:0])
	p.lirs -= len(p.cold)
	p.prune()
	p.queue.PushAll(q, p.cold)
}

// leave inserts the blocks that left the demand and the births.
func (p *Policy) leave(s *policies.Step) {
	p.cold = slices.Grow(p.cold[:0], len(s.Exit)+1)
	cold, n := p.cold[:len(s.Exit)+1], 0
	for _, x := range s.Exit { // written before it is known: no branch to mispredict
		cold[n] = x
		lir, joins := uint8(1), 0
		if p.entered[x] == s.T-1 {
			lir, joins = 0, 1
		}
		p.lir[x] = lir
		n += joins
	}
	p.fresh -= n
	p.push(s.Exit)
	p.queue.PushAll(q, cold[:n])
	for _, x := range s.Offered {
		p.take(x)
	}
	p.queue.PushAll(q, s.Offered)
}

// enter takes accessed blocks into the demand.
func (p *Policy) enter(s *policies.Step) {
	hit, miss := s.Hit, s.Miss
	if !p.full {
		hit, miss = p.start(s)
	}
	p.queue.DropAll(q, hit)
	for _, x := range hit {
		p.access(x, s.T)
	}
	for _, x := range miss {
		p.access(x, s.T)
	}
}

// access settles the status of x, which entered the demand (section 3.3). LIR blocks
// outside the demand are always on S.
func (p *Policy) access(x, t int32) {
	recent := p.take(x)
	p.lirs += int(recent) - int(p.lir[x])
	p.fresh += 1 - int(recent)
	entered := t
	if recent != 0 {
		entered = settled
	}
	p.entered[x] = entered
}

// start takes the first blocks of the demand in, in ascending order, while every access makes a LIR
// block. It returns the others.
func (p *Policy) start(s *policies.Step) (hit, miss []int32) {
	hit, miss = s.Hit, s.Miss
	for !p.full && len(hit)+len(miss) > 0 {
		next := &hit
		if len(hit) == 0 || len(miss) > 0 && miss[0] < hit[0] {
			next = &miss
		}
		x := (*next)[0]
		*next = (*next)[1:]
		p.queue.Drop(x)
		p.take(x)
		p.lirs += 1 - int(p.lir[x])
		p.entered[x] = settled
		p.full = p.lirs == p.most
	}
	return hit, miss
}

// pass forgets the blocks that an overflow keeps out.
func (p *Policy) pass(s *policies.Step) {
	for _, x := range s.Pass {
		if p.entered[x] == s.T {
			p.fresh--
		} else {
			p.lirs--
		}
		p.lir[x] = 0
	}
}

// Evict appends n blocks.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	if n <= 0 {
		return dst
	}
	from := len(dst)
	dst = p.queue.Pop(q, n, dst)
	before := len(dst)
	dst = p.cool(n-(before-from), dst)
	p.lirs -= len(dst) - before
	p.prune()
	return dst
}
