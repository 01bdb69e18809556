package ruler

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
)

// draws are the random choices of one sample. They depend on seed, task and index, not
// on the length: samples of one index have the same needles at every length.
type draws struct {
	seed uint64
	name string
}

// stream returns the generator of one kind of choice, at one size if the size matters.
func (d draws) stream(kind string, n int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(d.name + "/" + kind + "/" + strconv.Itoa(n)))
	return rand.New(rand.NewPCG(d.seed, h.Sum64()))
}

// distinct returns k of 0 … n−1 in random order. k must be at most n.
func distinct(r *rand.Rand, n, k int) []int {
	if k*8 > n {
		return r.Perm(n)[:k]
	}
	list := make([]int, 0, k)
	for seen := make(map[int]bool, k); len(list) < k; {
		if i := r.IntN(n); !seen[i] {
			seen[i] = true
			list = append(list, i)
		}
	}
	return list
}

func shuffle[T any](r *rand.Rand, list []T) {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// letters returns n random letters of the alphabet that begins with first.
func letters(r *rand.Rand, first byte, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = first + byte(r.IntN(26))
	}
	return string(text)
}

// unused draws until the result is not in seen, and adds it.
func unused(seen map[string]bool, draw func() string) string {
	for {
		if s := draw(); !seen[s] {
			seen[s] = true
			return s
		}
	}
}
