package verify

import (
	"math/rand/v2"
	"slices"
)

// sampleStream keeps the draws of a sample apart from those of others with its seed.
const sampleStream = 0x7665726966790000

// sample draws k of n rows without replacement, each as likely as any other, and
// returns their positions in order.
func sample(n, k int, seed uint64) []int {
	if k == 0 {
		k = DefaultSample
	}
	picked := rand.New(rand.NewPCG(seed, sampleStream)).Perm(n)
	if k > 0 && k < n {
		picked = picked[:k]
	}
	slices.Sort(picked)
	return picked
}
