package synthetic

import (
	"math/rand/v2"
	"testing"
)

// The queue returns elements in the order of their buckets, each once, with any number per bucket.
// It forgets removed elements and those due behind the last bucket.
func TestQueue(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		var q queue
		q.reset(2)
		due := map[int32]int{}
		for x := range int32(2000) {
			switch left := len(q.end) - q.at; r.IntN(8) {
			case 0:
				checkTaken(t, seed, due, q.takeBefore(q.at+r.IntN(3), nil), q.at, false)
			case 1:
				if n := len(due); n > 0 {
					n = 1 + r.IntN(n)
					list := q.takeFirst(n, []int32{-1})
					if list[0] != -1 || len(list) != 1+n {
						t.Fatalf("seed %d: %v taken, expected %d behind -1", seed, list, n)
					}
					checkTaken(t, seed, due, list[1:], q.at, true)
				}
			case 2:
				for y, bucket := range due {
					q.remove(y, bucket)
					delete(due, y)
					break
				}
			case 3, 4:
				bucket := q.at + r.IntN(left)
				q.put(x, int32(bucket))
				due[x] = bucket
			default:
				n := r.IntN(40)
				elements, buckets := make([]int32, n), make([]int32, n)
				for i := range n {
					elements[i], buckets[i] = 2000+x*40+int32(i), int32(q.at+r.IntN(left+1))
					if int(buckets[i]) < len(q.end) {
						due[elements[i]] = int(buckets[i])
					}
				}
				q.putAll(elements, buckets)
			}
			if q.at == len(q.end) {
				q.at = 0 // as good as any
			}
		}
		checkTaken(t, seed, due, q.takeBefore(len(q.end), nil), len(q.end), false)
		if len(due) > 0 {
			t.Fatalf("seed %d: %d elements are lost", seed, len(due))
		}
	}
}

// checkTaken checks the taken elements when the current bucket had come to at. They are in order,
// none is due later, and all that were due before are taken. inAt: some due at it may have been
// taken too.
func checkTaken(t *testing.T, seed uint64, due map[int32]int, taken []int32, at int, inAt bool) {
	t.Helper()
	last := 0
	for _, x := range taken {
		bucket, ok := due[x]
		if !ok || bucket < last || bucket > at || bucket == at && !inAt {
			t.Fatalf("seed %d: took %d, due in bucket %d (%v), after one of bucket %d, at %d", seed, x, bucket, ok, last, at)
		}
		delete(due, x)
		last = bucket
	}
	for x, bucket := range due {
		if bucket < at {
			t.Fatalf("seed %d: %d of bucket %d was not taken, at %d", seed, x, bucket, at)
		}
	}
}
