package verify

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// sampleStream separates the random numbers of a sample from those of other uses of its seed.
const sampleStream = 0x7665726966790000

// sample draws k of some rows and returns their positions in order. Policies are strata: each gives
// one row in turn until there are k, and every policy gives at least one. Within a policy each row
// is equally likely.
func sample(rows []result.Row, among []int, k int, seed uint64) []int {
	if k == All || k >= len(among) {
		return among
	}
	k = cmp.Or(k, DefaultSample)
	r := rand.New(rand.NewPCG(seed, sampleStream))
	var drawn []int
	strata := shuffled(rows, among, r)
	for turn := 0; len(drawn) < min(k, len(among)); turn++ {
		for _, rows := range strata {
			if turn < len(rows) && (turn == 0 || len(drawn) < k) {
				drawn = append(drawn, rows[turn])
			}
		}
	}
	slices.Sort(drawn)
	return drawn
}

// shuffled returns the rows of each policy in random order, and the policies in random order.
func shuffled(rows []result.Row, among []int, r *rand.Rand) (strata [][]int) {
	strata = slice.Group(among, func(at *int) string { return rows[*at].Policy })
	for _, rows := range strata {
		r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	r.Shuffle(len(strata), func(i, j int) { strata[i], strata[j] = strata[j], strata[i] })
	return strata
}
