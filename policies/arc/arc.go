// Package arc balances recency against frequency. Blocks demanded once and blocks demanded again
// have a queue each. A miss that the other split would have avoided moves the split.
//
// Source: Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003,
// section III.B and Fig. 4. c is the capacity. T1 and T2 are resident. B1 and B2 are ghosts: block
// ids that were evicted from T1 and T2.
//
// Step semantics: an access is one demanded step of a block. T1 holds the residents with at most
// one access since their insertion, T2 those with more. A stay of n steps is n accesses, so a block
// that stays for two steps is in T2. A fetch is the first access. A birth, or a block that a
// warm-up placed, is inserted into T1 with no access. Its first demanded step therefore leaves it
// in T1. A ghost hit is a miss on a block of B1 or B2. The block becomes a member of T2 at once. A
// step is
//
//  1. The blocks that left the demand become the most recent of their queue, then the births.
//  2. Every ghost hit, in ascending order, moves the target p and leaves its ghost list. In B1 p
//     rises by max(1, |B2|/|B1|), in B2 it falls by max(1, |B1|/|B2|), within [0, c].
//  3. As many victims are named as the capacity requires. They come from T1 while |T1| > p (while
//     |T1| ≥ p in a step that hit B2), otherwise from T2. Each becomes the newest ghost.
//  4. The oldest of B1 are forgotten until |T1|+|B1| ≤ c, then the oldest of B2 until all four
//     lists have at most 2c members.
//
// The paper evicts before it inserts, so |T1| in 3 does not count the blocks that the step fetched.
// A member of D_t is never a victim. If a queue has no other member, the other queue gives the
// victim. Blocks that an overflow keeps out are forgotten and leave no ghost.
//
// Rule: the first victim is the least recently used block of the queue that 3 names. Ties go to the
// lowest index. Ghosts are forgotten in the order of their eviction.
//
// State: four lists (package lists). T1 and T2 hold only blocks outside D_t. The queue of a member
// of D_t is decided when it leaves, from the step of its first access. Invariants: 4, and those of
// Fig. 4. The target p is a float64. Its sums and quotients are rounded one by one, so it is the
// same on every machine. Cost: O(1) per change of the demand. Memory: 8 B per block of the context,
// and 4 B to 32 B per resident or ghost. Exact, online, no stack property, no options.
//
// Differences from the paper: a whole step is classified, and p adapted, before anything is
// evicted. One hit in B2 decides the tie |T1| = p for all victims of the step. With steps of one
// block it is the paper's ARC to the last miss. It loses to decayed frequency, which also remembers
// how often a block was demanded. Most of T2 is in the demand and cannot be traded for T1, so it
// stays near LRU. On the README's board it misses 3 % less than LRU in the geometric mean.
package arc

import (
	_ "embed" // the package comment is the policy's documentation
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/lists"
)

//go:embed arc.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "arc",
	Summary: "LRU queues for one and for more demands, split by ghost hits",
	Source:  "Megiddo and Modha, FAST 2003, Fig. 4",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Sized: true, Memory: "8 B", Cost: "O(1)"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// The lists. A victim of list q becomes a ghost of list q+ghost.
const (
	t1 int32 = iota
	t2
	b1
	b2
	ghost = b1 - t1
)

// Values of first that are no step.
const (
	never = 1<<31 - 1 // no access yet
	again = -1 << 31  // more than one
)

// Policy is ARC over one stream.
type Policy struct {
	queues   lists.Lists
	first    []int32 // step of a resident's only access, never, or again
	capacity int
	target   float64 // p
	inT1     int     // members of D_t that are in T1: their first access is this step
	hitT1    int     // of these, resident before the step
	resident int     // members of D_t that stay resident
	tie      bool    // a ghost hit in B2 at this step
	scratch  []int32
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.queues.Reset(sc.Blocks)
	p.first = policies.Fill(p.first, sc.Blocks, again)
	p.capacity, p.target, p.resident, p.inT1 = sc.Capacity, 0, 0, 0
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	p.leave(s)
	p.hit(s)
	p.miss(s)
	p.resident = s.Demand - len(s.Pass)
	for _, x := range s.Pass {
		if p.first[x] == s.T {
			p.inT1--
		}
	}
}

// leave inserts the blocks that left the demand and the births into their queues.
func (p *Policy) leave(s *policies.Step) {
	p.queues.Reserve(t1, len(s.Exit)+len(s.Offered))
	p.queues.Reserve(t2, len(s.Exit))
	for _, x := range s.Exit {
		to := t2
		if p.first[x] == s.T-1 {
			to = t1
		}
		p.queues.Push(to, x)
	}
	for _, x := range s.Offered {
		p.queues.Drop(x)
		p.queues.Push(t1, x)
		p.first[x] = never
	}
}

// hit takes residents into the demand.
func (p *Policy) hit(s *policies.Step) {
	p.hitT1 = 0
	for _, x := range s.Hit {
		if p.first[x] == never {
			p.first[x] = s.T
			p.hitT1++
		} else {
			p.first[x] = again
		}
		p.queues.Drop(x)
	}
}

// miss takes fetched blocks into the demand and adapts to ghost hits.
func (p *Policy) miss(s *policies.Step) {
	p.scratch = slices.Grow(p.scratch[:0], len(s.Miss)+1)
	hits, n := p.scratch[:len(s.Miss)+1], 0
	for _, x := range s.Miss { // writes every block and keeps the ghost hits, without a branch
		hits[n] = x
		first := s.T
		if p.queues.In(x) != lists.None {
			first = again
			n++
		}
		p.first[x] = first
	}
	p.inT1, p.tie = p.hitT1+len(s.Miss)-n, false
	for _, x := range hits[:n] {
		p.adapt(p.queues.In(x))
		p.queues.Drop(x)
	}
}

// adapt moves the target for a hit in a ghost list (Fig. 4, cases II and III).
func (p *Policy) adapt(in int32) {
	n1, n2 := float64(p.queues.Len(b1)), float64(p.queues.Len(b2))
	if in == b1 {
		p.target = min(p.target+ratio(n2, n1), float64(p.capacity))
	} else {
		p.target = max(p.target-ratio(n1, n2), 0)
		p.tie = true
	}
}

// ratio returns max(1, a/b).
func ratio(a, b float64) float64 {
	if a <= b {
		return 1
	}
	return a / b
}

// Evict appends n blocks and trims the ghosts.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	if n > 0 {
		from := len(dst)
		dst = p.evict(t1, min(n, p.surplus()), dst)
		dst = p.evict(t2, n-(len(dst)-from), dst)
		dst = p.evict(t1, n-(len(dst)-from), dst) // T2 has no other member
	}
	p.trim()
	return dst
}

// surplus returns the number of victims that T1 gives before T2 does (Fig. 4, REPLACE). A victim of
// T2 changes nothing that REPLACE reads.
func (p *Policy) surplus() int {
	size, target := p.queues.Len(t1)+p.hitT1, int(p.target) // size > p if and only if size > ⌊p⌋
	if p.tie && float64(target) == p.target {
		target-- // size = p is enough
	}
	return min(size-target, p.queues.Len(t1))
}

// evict appends n blocks of a queue to dst and makes them ghosts.
func (p *Policy) evict(in int32, n int, dst []int32) []int32 {
	from := len(dst)
	dst = p.queues.Pop(in, n, dst)
	p.queues.PushAll(in+ghost, dst[from:])
	return dst
}

// trim forgets the oldest ghosts (Fig. 4, case IV).
func (p *Policy) trim() {
	q := &p.queues
	p.scratch = q.Pop(b1, q.Len(t1)+p.inT1+q.Len(b1)-p.capacity, p.scratch[:0])
	rest := q.Len(t1) + q.Len(t2) + p.resident + q.Len(b1)
	p.scratch = q.Pop(b2, rest+q.Len(b2)-2*p.capacity, p.scratch[:0])
}
