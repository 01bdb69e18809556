package metrics

import (
	"slices"
)

// commonCells chooses the cells that pooled figures are over: those that all ranked
// policies have. Policies without any cell in common with the others are left out of
// the ranking, fewest cells first, rather than emptying it. Cells and policies come
// back sorted.
func commonCells(policies []string, cellsOf func(string) []CellRef) (common []CellRef, ranked, unranked []string) {
	ranked = slices.Clone(policies)
	slices.Sort(ranked)
	for len(ranked) > 0 {
		if common = intersection(ranked, cellsOf); len(common) > 0 {
			break
		}
		i := loneliest(ranked, cellsOf)
		unranked = append(unranked, ranked[i])
		ranked = slices.Delete(ranked, i, i+1)
	}
	slices.Sort(unranked)
	return common, ranked, unranked
}

// intersection returns the cells that all policies have, sorted.
func intersection(policies []string, cellsOf func(string) []CellRef) []CellRef {
	have := map[CellRef]int{}
	for _, p := range policies {
		for _, r := range cellsOf(p) {
			have[r]++
		}
	}
	var common []CellRef
	for r, n := range have {
		if n == len(policies) {
			common = append(common, r)
		}
	}
	slices.SortFunc(common, compareRefs)
	return common
}

// loneliest picks the policy with the fewest cells; of equals the one whose leaving
// frees most cells, then the last by name.
func loneliest(policies []string, cellsOf func(string) []CellRef) int {
	best, bestFreed := 0, -1
	for i, p := range policies {
		cells, least := len(cellsOf(p)), len(cellsOf(policies[best]))
		if bestFreed >= 0 && cells > least {
			continue
		}
		others := slices.Delete(slices.Clone(policies), i, i+1)
		freed := len(intersection(others, cellsOf))
		if bestFreed < 0 || cells < least || freed >= bestFreed {
			best, bestFreed = i, freed
		}
	}
	return best
}
