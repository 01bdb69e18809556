package lists

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The lists agree with slices.
func TestAgainstSlices(t *testing.T) {
	var l Lists
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		ids, lists := 1+r.IntN(40), int32(1+r.IntN(Max))
		l.Reset(ids)
		twin := make([][]int32, lists)
		for range 20000 {
			x, to := r.Int32N(int32(ids)), r.Int32N(lists)
			at := int32(slices.IndexFunc(twin, func(s []int32) bool { return slices.Contains(s, x) }))
			if l.In(x) != at {
				t.Fatalf("seed %d: id %d in list %d, twin %d", seed, x, l.In(x), at)
			}
			switch r.IntN(5) {
			case 4:
				var list []int32
				for x := range int32(ids) {
					if at := l.In(x); at == to || at == None {
						list = append(list, x)
					}
				}
				list = list[r.IntN(len(list)+1):]
				held := func(x int32) bool { return slices.Contains(list, x) }
				before := len(twin[to])
				twin[to] = slices.DeleteFunc(twin[to], held)
				if got := l.DropAll(to, list); got != before-len(twin[to]) {
					t.Fatalf("seed %d: dropped %d of %v, twin %d", seed, got, list, before-len(twin[to]))
				}
			case 0:
				if got := l.Drop(x); got != at {
					t.Fatalf("seed %d: dropped from %d, twin %d", seed, got, at)
				}
				if at != None {
					twin[at] = slices.DeleteFunc(twin[at], func(y int32) bool { return y == x })
				}
			case 1, 2:
				if at == None {
					l.PushAll(to, []int32{x})
					twin[to] = append(twin[to], x)
				}
			case 3:
				n := min(r.IntN(4), len(twin[to])+1)
				want := twin[to][:min(n, len(twin[to]))]
				twin[to] = twin[to][len(want):]
				if got := l.Pop(to, n, []int32{-7}); !slices.Equal(got[1:], want) || got[0] != -7 {
					t.Fatalf("seed %d: popped %v, twin %v", seed, got, want)
				}
			}
			if l.Len(to) != len(twin[to]) {
				t.Fatalf("seed %d: length %d, twin %d", seed, l.Len(to), len(twin[to]))
			}
		}
	}
}
