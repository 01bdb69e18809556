// Package serialtest compares policies with the algorithms of their papers. It uses steps of one
// block each, so that a step is an access and both mean the same.
package serialtest

import (
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
)

// Access applies an access to a paper's cache. It returns whether the access hit and the block that
// was evicted, -1 for none.
type Access func(x int32) (hit bool, evicted int32)

// Compare replays random accesses with the policy and with the cache that paper returns, at random
// capacities of at least two. It compares every hit and every victim.
func Compare(t *testing.T, entry policies.Entry, options string, paper func(capacity int) Access) {
	t.Helper()
	spec, err := policies.NewTable(entry).Parse(entry.Name + ":" + options)
	fatal.If(t, err)
	p := spec.Make()
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 41))
		capacity, accesses := 2+r.IntN(20), draw(r)
		sc := policies.Scope{Blocks: blocks, Capacity: capacity, Steps: len(accesses), Demand: 1}
		fatal.If(t, p.Reset(&sc))
		d := driver{policy: p, capacity: capacity, resident: map[int32]bool{}, last: -1}
		access := paper(capacity)
		for i, x := range accesses {
			hit, victim := d.access(int32(i), x)
			if wantHit, want := access(x); hit != wantHit || victim != want {
				t.Fatalf("seed %d, capacity %d, access %d of block %d: hit %v, evicts %d; the paper: %v, %d\n%v",
					seed, capacity, i, x, hit, victim, wantHit, want, accesses[:i+1])
			}
		}
	}
}

const blocks = 64

// draw mixes loops, a hot set that moves, and noise. One access in five repeats the one before.
func draw(r *rand.Rand) (accesses []int32) {
	loop, hot := 1+r.IntN(30), 1+r.IntN(12)
	for i := range 600 {
		x := r.IntN(blocks)
		switch r.IntN(3) {
		case 0:
			x = i % loop
		case 1:
			x = (i/200*20 + r.IntN(hot)) % blocks
		}
		if i > 0 && r.IntN(5) == 0 {
			x = int(accesses[i-1])
		}
		accesses = append(accesses, int32(x))
	}
	return accesses
}

// driver is a minimal engine: steps of one block, no births, no pins.
type driver struct {
	policy   policies.Policy
	capacity int
	resident map[int32]bool
	last     int32 // block of the step before, -1 at first
}

// access applies step t, which demands x.
func (d *driver) access(t, x int32) (hit bool, victim int32) {
	s := policies.Step{T: t, Demand: 1}
	if d.last >= 0 && d.last != x {
		s.Exit = []int32{d.last}
	}
	hit = d.resident[x]
	switch {
	case !hit:
		s.Miss = []int32{x}
	case d.last != x:
		s.Hit = []int32{x}
	}
	d.resident[x], d.last = true, x
	d.policy.Update(&s)
	victims := d.policy.Evict(max(0, len(d.resident)-d.capacity), nil)
	if len(victims) == 0 {
		return hit, -1
	}
	delete(d.resident, victims[0])
	return hit, victims[0]
}
