package synthetic

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// rows draws a process and its lists of m blocks from step 32 on.
func rows(l Locality, steps, m int) (*process, [][]int32) {
	p := drawn(l, steps+64, 3)
	var k ranker
	k.begin(p, 32)
	k.rank()
	var lists [][]int32
	for t := 32; t < 32+steps; t++ {
		list := make([]int32, m)
		if t > 32 {
			k.advance()
		}
		k.demand(list[:256])
		k.candidates(list[256:])
		lists = append(lists, list)
	}
	return p, lists
}

// The first K of a list are the demand. The candidates behind it are other blocks, each once.
func TestLists(t *testing.T) {
	for name, l := range extremes() {
		p, lists := rows(l, 40, 320)
		demanded := map[int32]bool{}
		for _, r := range p.runs[:p.first[32]] {
			if r.exit() > 31 {
				demanded[r.block()] = true
			}
		}
		for i, list := range lists {
			s := 32 + i
			for _, x := range p.left[p.gone[s]:p.gone[s+1]] {
				delete(demanded, x)
			}
			for _, r := range p.runs[p.first[s]:p.first[s+1]] {
				demanded[r.block()] = true
			}
			seen := map[int32]bool{}
			for rank, x := range list {
				if seen[x] || x < 0 || int(x) >= p.tokens+s || demanded[x] != (rank < 256) {
					t.Fatalf("%s: step %d, rank %d: block %d, demanded: %v, listed before: %v", name, s, rank, x, demanded[x], seen[x])
				}
				seen[x] = true
			}
			if len(list) != 320 {
				t.Fatalf("%s: step %d: %d blocks listed", name, s, len(list))
			}
		}
	}
}

// A share of about Near of the blocks that enter at the next step, or have just left, are
// candidates. At n steps the share is Near/n, while the candidates have room.
func TestNear(t *testing.T) {
	l := Default().Locality
	l.Overlap, l.Near = 0.7, 0.2
	_, lists := rows(l, 300, 256+96) // 96 places, all for blocks near the threshold
	place := make([]map[int32]int, len(lists))
	for i, list := range lists {
		place[i] = map[int32]int{}
		for rank, x := range list {
			place[i][x] = rank
		}
	}
	outside := func(i int, x int32) bool { rank, ok := place[i][x]; return !ok || rank >= 256 }
	for _, n := range []int{1, 2, 4} {
		var candidates, blocks float64
		for i := n; i+n < len(lists); i++ {
			for _, x := range lists[i+n][:256] { // enters n steps on, and was not demanded for long before
				far := true
				for j := max(0, i-32); j < i+n; j++ {
					far = far && outside(j, x)
				}
				if far {
					blocks++
					if _, ok := place[i][x]; ok {
						candidates++
					}
				}
			}
		}
		if got, want := candidates/blocks, l.Near*(1/float64(n)+1.0/32); math.Abs(got/want-1) > 0.25 {
			t.Errorf("%d steps before it enters, a block is a candidate with probability %.3f, expected about %.3f", n, got, want)
		}
	}
}

// Blocks that leave next have low ranks in the demand, and blocks that stay long have high ranks.
// In the bundled trace of multi_news, whose overlap is 0.7, they are at 0.69 K and 0.25 K on
// average.
func TestRanks(t *testing.T) {
	l := Default().Locality
	l.Overlap = 0.7
	_, lists := rows(l, 200, 256)
	var leaving, leavers, staying, stayers float64
	for i := range len(lists) - 20 {
		for rank, x := range lists[i] {
			at := i + 1
			for at < i+20 && has(lists[at], x) {
				at++
			}
			switch at {
			case i + 1:
				leaving, leavers = leaving+float64(rank)/256, leavers+1
			case i + 20:
				staying, stayers = staying+float64(rank)/256, stayers+1
			}
		}
	}
	t.Logf("leaving %.3f staying %.3f", leaving/leavers, staying/stayers)
	if got := leaving / leavers; math.Abs(got-0.69) > 0.05 {
		t.Errorf("blocks that leave next have mean rank %.3f K, expected about 0.69", got)
	}
	if got := staying / stayers; math.Abs(got-0.25) > 0.1 {
		t.Errorf("blocks that stay for 20 steps have mean rank %.3f K, expected about 0.25", got)
	}
}

func has(list []int32, x int32) bool {
	for _, y := range list {
		if y == x {
			return true
		}
	}
	return false
}

// Distances from the threshold order as h does, for any times, and leave room for noise.
func TestBuckets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	h := func(a, r uint16) float64 { return 1 / (1/float64(a) + 1/float64(r)) }
	for range 10000 {
		a, b, c, d := uint16(1+r.IntN(500)), uint16(1+r.IntN(500)), uint16(1+r.IntN(500)), uint16(1+r.IntN(500))
		if h(a, b) > 1.4*h(c, d) && bucketOf(a, b) < bucketOf(c, d) {
			t.Fatalf("after %d and before %d steps: bucket %d, nearer than %d, %d: %d", a, b, bucketOf(a, b), c, d, bucketOf(c, d))
		}
	}
	if far := int(bucketOf(forever, forever)) + int(noise[255]); far > 255-8 {
		t.Errorf("the farthest bucket is %d, expected room below 256", far)
	}
}

// In the order of indices, the demand is the one by rank, sorted.
func TestAscending(t *testing.T) {
	for _, topK := range []int{1, 3, 256} {
		for name, l := range extremes() {
			if l.validate(topK) != nil {
				continue
			}
			p := new(process)
			p.draw(extent{topK: topK, tokens: 600, steps: 60}, &l, source(4, 0, 0, 0, 0))
			var k ranker
			k.begin(p, 8)
			k.rank()
			for range 40 {
				k.advance()
				want, got := make([]int32, topK), make([]int32, topK)
				k.demand(want)
				k.ascending(got)
				if slices.Sort(want); !slices.Equal(got, want) {
					t.Fatalf("%s: step %d: demand by index %v, expected %v", name, k.now, got, want)
				}
			}
		}
	}
}
