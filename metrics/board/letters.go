package board

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// PairTest is the paired permutation test of two ranked policies.
type PairTest struct {
	A string `json:"a"`
	B string `json:"b"`
	// P is two-sided, Holm is P corrected for the number of pairs.
	P    float64 `json:"p"`
	Holm float64 `json:"p_holm"`
}

// holm corrects p-values for their number (Holm, Scandinavian Journal of Statistics 6,
// 1979): the chance of one false difference or more is at most that of one test.
func holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(ps[i], ps[j]) })
	corrected, least := make([]float64, len(ps)), 0.0
	for rank, i := range order {
		least = max(least, min(1, ps[i]*float64(len(ps)-rank)))
		corrected[i] = least
	}
	return corrected
}

// distinguish tests every pair of the policies, best first, over the cells, and gives
// letters to groups that the requests do not distinguish. The amounts are those of a
// cell's requests. Without rows by request it returns nothing. If the requests are too
// few to distinguish any pair, a note says so and there are no letters.
func (g *grid) distinguish(policies []string, refs []CellRef, amounts func(*cell) []float64, of statistic) (pairs []PairTest, letters []string, notes []string) {
	by := make([][][]float64, len(policies)) // by policy, cell and request
	for i, p := range policies {
		for _, r := range refs {
			c := g.at(r, p)
			if c.requests == nil {
				return nil, nil, nil
			}
			by[i] = append(by[i], amounts(c))
		}
	}
	if len(policies) < 2 || len(refs) == 0 {
		return nil, nil, nil
	}
	swaps := newSwaps(g.seed, paired(refs, by[0], by[0]))
	n, tests := swaps.requests(), len(policies)*(len(policies)-1)/2
	if !decidable(n, tests) {
		return nil, nil, []string{fmt.Sprintf("no letters: n = %d; to distinguish one of %s takes %d requests; `kvreplay compare A B` tests one", n, result.Count(tests, "pair"), fewestDecidable(tests))}
	}
	var ps []float64
	for i := range policies {
		for j := i + 1; j < len(policies); j++ {
			p := swaps.p(paired(refs, by[i], by[j]), of)
			if math.IsNaN(p) { // an amount is not known
				return nil, nil, nil
			}
			ps = append(ps, p)
			pairs = append(pairs, PairTest{A: policies[i], B: policies[j]})
		}
	}
	var different [][2]int
	for k, corrected := range holm(ps) {
		pairs[k].P, pairs[k].Holm = *Number(ps[k]), *Number(corrected)
		if corrected < Significant {
			different = append(different, [2]int{slices.Index(policies, pairs[k].A), slices.Index(policies, pairs[k].B)})
		}
	}
	letters = lettersOf(len(policies), different)
	if letters == nil {
		return pairs, nil, []string{"no letters: the policies make too many groups; `kvreplay compare --all B` tests all against one"}
	}
	return pairs, letters, []string{fmt.Sprintf("letters: policies that share one are not distinguished (permutation test over %d requests, Holm for %s, p < %g)", n, result.Count(tests, "pair"), Significant)}
}

// alphabet has the letters of groups.
const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// mostGroups bounds the groups that lettersOf keeps while it works.
const mostGroups = 20 * len(alphabet)

// lettersOf is the compact letter display of n items, some pairs of which are different:
// two items share a letter if and only if they are not different. Each letter stands for
// a largest group of items without a difference (insert-and-absorb: Piepho, Journal of
// Computational and Graphical Statistics 13, 2004). Letters follow the order of the
// items. It returns nil if there are more groups than letters.
func lettersOf(n int, different [][2]int) []string {
	groups := [][]bool{slices.Repeat([]bool{true}, n)}
	for _, pair := range different {
		var kept, halves [][]bool
		for _, g := range groups {
			if !g[pair[0]] || !g[pair[1]] {
				kept = append(kept, g)
				continue
			}
			for _, out := range pair {
				half := slices.Clone(g)
				half[out] = false
				halves = append(halves, half)
			}
		}
		for _, half := range halves {
			if !slices.ContainsFunc(kept, func(g []bool) bool { return within(half, g) }) {
				kept = append(kept, half)
			}
		}
		if groups = kept; len(groups) > mostGroups {
			return nil
		}
	}
	if len(groups) > len(alphabet) {
		return nil
	}
	slices.SortFunc(groups, func(a, b []bool) int { // the one with the first item that the other lacks
		for i := range a {
			if c := result.CompareBool(b[i], a[i]); c != 0 {
				return c
			}
		}
		return 0
	})
	letters := make([]string, n)
	for k, g := range groups {
		for i, in := range g {
			if in {
				letters[i] += alphabet[k : k+1]
			}
		}
	}
	return letters
}

// within reports whether all items of a are in b.
func within(a, b []bool) bool {
	for i := range a {
		if a[i] && !b[i] {
			return false
		}
	}
	return true
}

// paired sets the amounts of two policies side by side, by cell.
func paired(refs []CellRef, a, b [][]float64) []sides {
	cells := make([]sides, len(refs))
	for i, r := range refs {
		cells[i] = sides{r.Trace, a[i], b[i]}
	}
	return cells
}

// missAmounts returns the misses of a cell's requests, lostAmounts their lost blocks.
func missAmounts(c *cell) []float64 {
	return amountsOf(c, func(t *tally) int64 { return t.misses })
}

func lostAmounts(c *cell) []float64 { return amountsOf(c, func(t *tally) int64 { return t.lost }) }

func amountsOf(c *cell, of func(*tally) int64) []float64 {
	amounts := make([]float64, len(c.requests))
	for i := range c.requests {
		amounts[i] = float64(of(&c.requests[i]))
	}
	return amounts
}
