package synthetic

import (
	"math/rand/v2"
	"testing"
)

// The queue hands out blocks in the order of their buckets, each once, and forgets those
// that were removed; within a bucket the last comes first.
func TestQueue(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		blocks := make([]block, 40)
		for i := range blocks {
			blocks[i].bucket = unqueued
		}
		var q queue
		q.reset(blocks, 4)
		var want []int32 // blocks in the order of pop
		due := map[int32]int{}
		for range 500 {
			x := int32(r.IntN(len(blocks)))
			switch {
			case due[x] > 0:
				q.remove(x)
				delete(due, x)
				want = without(want, x)
			case r.IntN(3) > 0:
				bucket := q.at + r.IntN(len(q.head)-q.at)
				q.put(x, bucket)
				due[x] = bucket + 1
				i := 0
				for i < len(want) && due[want[i]] < due[x] {
					i++
				}
				want = append(want[:i:i], append([]int32{x}, want[i:]...)...)
			default:
				limit := q.at + r.IntN(4)
				got, expected := q.pop(limit), int32(-1)
				if len(want) > 0 && due[want[0]] <= limit {
					expected, want = want[0], want[1:]
					delete(due, expected)
				}
				if got != expected {
					t.Fatalf("seed %d: popped %d before bucket %d, expected %d", seed, got, limit, expected)
				}
			}
			if q.size != len(want) {
				t.Fatalf("seed %d: size %d, expected %d", seed, q.size, len(want))
			}
		}
	}
}

func without(list []int32, x int32) []int32 {
	var rest []int32
	for _, y := range list {
		if y != x {
			rest = append(rest, y)
		}
	}
	return rest
}
