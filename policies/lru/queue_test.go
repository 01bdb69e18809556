package lru

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
)

// The queue agrees with a slice from which blocks are deleted. The queue slides many times, and marks
// stay valid.
func TestQueueAgainstSlice(t *testing.T) {
	var q Queue
	slid := false
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 8))
		blocks := 1 + r.IntN(60)
		q.Reset(blocks)
		var twin []int32
		var marks []int // by step: Len before the step
		joined := policies.Fill([]int(nil), blocks, 0)
		for step := range 2000 {
			var s policies.Step
			marks = append(marks, q.Len())
			for x := range int32(blocks) {
				in := slices.Contains(twin, x)
				if in && r.IntN(4) == 0 {
					s.Hit = append(s.Hit, x)
				} else if !in && r.IntN(3) == 0 {
					s.Exit, joined[x] = append(s.Exit, x), step
				}
			}
			q.Update(&s)
			twin = slices.DeleteFunc(append(twin, s.Exit...), func(x int32) bool { return slices.Contains(s.Hit, x) })
			n := r.IntN(len(twin) + 2)
			if x, ok := q.Peek(); ok != (len(twin) > 0) || ok && x != twin[0] {
				t.Fatalf("seed %d, step %d: %d is next, the slice has %v", seed, step, x, twin)
			}
			var got []int32
			if step%5 == 4 {
				oldest := r.IntN(step + 1)
				got = q.EvictTo(marks[oldest], nil)
				n, _ = slices.BinarySearchFunc(twin, oldest, func(x int32, step int) int { return joined[x] - step })
			} else {
				got = q.Evict(n, nil)
			}
			n = min(n, len(twin))
			if !slices.Equal(got, twin[:n]) {
				t.Fatalf("seed %d, step %d: evicts %v, the slice %v", seed, step, got, twin[:n])
			}
			twin = twin[n:]
			slid = slid || q.base > 0
		}
	}
	if !slid {
		t.Error("the queue never moved to the front of its memory")
	}
}
