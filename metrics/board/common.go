package board

import (
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// mostLeftOut is the largest share of the policies that a ranking leaves out to gain cells, if most
// policies agree on no cell.
const mostLeftOut = 0.25

// commonCells chooses the cells of pooled figures: those that more than half of the policies have.
// All ranked policies have all of them. A policy that lacks one is not ranked, because its absence
// would remove the cell from every other policy's average. If that leaves out half of the policies
// or more, largestTable chooses. If no two policies share a cell, none is ranked. Cells and
// policies are sorted.
func commonCells(policies []string, cellsOf func(string) []CellRef) (common []CellRef, ranked, unranked []string) {
	ran := slices.DeleteFunc(slices.Sorted(slices.Values(policies)), func(p string) bool { return len(cellsOf(p)) == 0 })
	common = haveMoreThan(len(ran)/2, ran, cellsOf)
	ranked = slice.Filter(ran, func(p string) bool { return len(lacking(common, cellsOf(p))) == 0 })
	if common == nil || len(ranked) <= len(ran)/2 {
		common, ranked = largestTable(ran, cellsOf)
	}
	unranked = slice.Filter(policies, func(p string) bool { return !slices.Contains(ranked, p) })
	slices.Sort(unranked)
	return common, ranked, unranked
}

// largestTable ranks over the cells that all ranked policies have. It leaves out policies, fewest
// cells first, while that increases policies × cells. It leaves out at most a quarter of them, or
// more if there would be no cell otherwise. It never leaves only one policy: if it finds no table,
// it tries sharedByTwo.
func largestTable(policies []string, cellsOf func(string) []CellRef) (common []CellRef, ranked []string) {
	left := slices.Clone(policies)
	for len(left) > 1 {
		if many := float64(len(policies)-len(left)) > mostLeftOut*float64(len(policies)); many && common != nil {
			break
		}
		if cells := intersection(left, cellsOf); len(cells)*len(left) > len(common)*len(ranked) {
			common, ranked = cells, slices.Clone(left)
		}
		i := loneliest(left, cellsOf)
		left = slices.Delete(left, i, i+1)
	}
	if common == nil {
		return sharedByTwo(policies, cellsOf)
	}
	return common, ranked
}

// sharedByTwo returns the two policies that share the most cells, and the others that have these
// cells too. It returns nothing if no two share a cell.
func sharedByTwo(policies []string, cellsOf func(string) []CellRef) (common []CellRef, ranked []string) {
	for i, p := range policies {
		for _, q := range policies[i+1:] {
			if cells := intersection([]string{p, q}, cellsOf); len(cells) > len(common) {
				common = cells
			}
		}
	}
	for _, p := range policies {
		if common != nil && len(lacking(common, cellsOf(p))) == 0 {
			ranked = append(ranked, p)
		}
	}
	return common, ranked
}

// lacking returns the cells that are not in had.
func lacking(cells, had []CellRef) []CellRef {
	there := make(map[CellRef]bool, len(had))
	for _, r := range had {
		there[r] = true
	}
	return slice.Filter(cells, func(r CellRef) bool { return !there[r] })
}

// intersection returns the cells that all policies have, sorted.
func intersection(policies []string, cellsOf func(string) []CellRef) []CellRef {
	return haveMoreThan(len(policies)-1, policies, cellsOf)
}

// haveMoreThan returns the cells that more than n policies have, sorted.
func haveMoreThan(n int, policies []string, cellsOf func(string) []CellRef) (cells []CellRef) {
	have := map[CellRef]int{}
	for _, p := range policies {
		for _, r := range cellsOf(p) {
			have[r]++
		}
	}
	for r, m := range have {
		if m > n {
			cells = append(cells, r)
		}
	}
	slice.Sort(cells, compareRefs)
	return cells
}

// loneliest returns the index of the policy with the fewest cells. A tie goes to the one whose
// removal frees most cells, then to the last by name.
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
