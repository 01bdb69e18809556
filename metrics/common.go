package metrics

import (
	"slices"
)

// mostLeftOut is the share of the policies that may be left out of a ranking for the sake
// of more cells: a policy that needs scores does not take the traces without scores from all.
const mostLeftOut = 0.25

// commonCells chooses the cells that pooled figures are over: those that all ranked
// policies have. Policies are left out of the ranking, fewest cells first, while that
// makes policies × cells larger, a quarter of them at most; any number rather than
// having no cell. Cells and policies come back sorted.
func commonCells(policies []string, cellsOf func(string) []CellRef) (common []CellRef, ranked, unranked []string) {
	left := slices.Sorted(slices.Values(policies))
	for len(left) > 0 {
		if many := float64(len(policies)-len(left)) > mostLeftOut*float64(len(policies)); many && common != nil {
			break
		}
		if cells := intersection(left, cellsOf); len(cells)*len(left) > len(common)*len(ranked) {
			common, ranked = cells, slices.Clone(left)
		}
		i := loneliest(left, cellsOf)
		left = slices.Delete(left, i, i+1)
	}
	for _, p := range policies {
		if !slices.Contains(ranked, p) {
			unranked = append(unranked, p)
		}
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
