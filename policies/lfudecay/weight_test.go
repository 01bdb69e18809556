package lfudecay

import (
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
)

// exact holds the sums of a ledger in integers of any length.
type exact []*big.Int

// stay adds the steps from..to-1, one by one.
func (e exact) stay(x int32, from, to int, l *ledger) {
	for t := from; t < to; t++ {
		w := big.NewInt(1)
		e[x].Add(e[x], w.Lsh(w, uint((t-l.start)/l.halfLife)))
	}
}

// The ledger's order, leading bits and buckets agree with the exact sums, over streams of hundreds
// of half-lives with any stays and pauses.
func TestOrderIsExact(t *testing.T) {
	const blocks = 24
	for seed := uint64(0); seed < 120; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		halfLife := []int{1, 2, 3, 7, 16, 1000, maxHalfLife}[r.IntN(7)]
		windows := r.IntN(50)
		sc := &policies.Scope{Blocks: blocks, Windows: windows, Steps: min(400*halfLife, 3000)}
		steps := sc.Steps - windows
		var l ledger
		l.reset(sc, halfLife)
		sums := make(exact, blocks)
		buckets, mixed := make([]int32, blocks), make([]uint64, l.coarse.buckets())
		since := make([]int, blocks)
		free := make([]int, blocks) // step from which on a block may be demanded again
		var idle []int32
		for x := range sums {
			sums[x] = new(big.Int)
			since[x] = -1 << 30
		}
		for now := -sc.Windows; now <= steps; now++ {
			m := l.at(now)
			for x := range int32(blocks) {
				switch staying := since[x] > -1<<30; {
				case staying && r.IntN(4) == 0:
					l.leave([]int32{x}, m, buckets[x:x+1], mixed)
					sums.stay(x, since[x], now, &l)
					since[x], free[x] = -1<<30, now
					if r.IntN(3) == 0 {
						free[x] += r.IntN(200 * halfLife)
					}
				case !staying && free[x] <= now && r.IntN(6) == 0:
					if r.IntN(30) == 0 {
						l.begin(x, m)
						sums[x].SetInt64(0)
					} else {
						l.enter(x, m)
					}
					since[x] = now
				}
			}
			idle = idle[:0]
			for x := range int32(blocks) {
				if since[x] == -1<<30 && sums[x].Sign() > 0 {
					idle = append(idle, x)
				}
			}
			if len(idle) > 0 && now%5 == 0 {
				checkPair(t, seed, &l, buckets, mixed, sums, idle[r.IntN(len(idle))], idle[r.IntN(len(idle))])
			}
		}
	}
}

// checkPair compares two idle blocks of the ledger with their sums.
func checkPair(t *testing.T, seed uint64, l *ledger, buckets []int32, mixed []uint64, sums exact, x, y int32) {
	t.Helper()
	want := sums[x].Cmp(sums[y])
	if got := l.compare(x, y); got != want {
		t.Fatalf("seed %d: %v and %v compare as %d", seed, sums[x], sums[y], got)
	}
	top, below := l.top(x)
	length := bits.Len64(top)
	rest := uint(sums[x].BitLen() - length)
	lead := new(big.Int).Rsh(sums[x], rest)
	if length < min(33, sums[x].BitLen()) || !lead.IsUint64() || lead.Uint64() != top || below != (sums[x].Cmp(lead.Lsh(lead, rest)) != 0) {
		t.Fatalf("seed %d: %v is led by %b, more %v", seed, sums[x], top, below)
	}
	bx, by := buckets[x], buckets[y]
	if want != 0 && bx == by && mixed[bx] == 0 {
		t.Fatalf("seed %d: %v and %v go to bucket %d, which is not mixed", seed, sums[x], sums[y], bx)
	}
	if bx < 1 || int(bx) >= len(mixed) || want < 0 && bx > by || want == 0 && bx != by {
		t.Fatalf("seed %d: %v and %v go to buckets %d, %d of %d", seed, sums[x], sums[y], bx, by, len(mixed))
	}
}

// The bucket of a weight of more than 53 bits follows its leading bits, however a float64 would
// round it.
func TestSticky(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	s := coarse{64, maxBits}.scale(0)
	for range 10000 {
		v := (r.Uint64() | 1<<63) >> (1 + r.IntN(10))
		if r.IntN(2) == 0 {
			v |= 1<<(50+r.IntN(3)) - 1 // long runs of ones round up
		}
		b, rest := s.bucket(sticky(v))
		length := bits.Len64(v)
		want := 1 + (length-1)<<maxBits + int(v>>(length-1-maxBits))&(1<<maxBits-1)
		if int(b) != want || rest == 0 {
			t.Fatalf("%b goes to bucket %d, rest %b, want %d", v, b, rest, want)
		}
	}
}
