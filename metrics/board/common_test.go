package board

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The policy with the fewest cells is removed first. A tie goes to the one without which the others
// have most in common, then to the last by name.
func TestLoneliest(t *testing.T) {
	for cells, want := range map[string]int{
		"x, x y, x y":        0,
		"x y, z, x y":        1,
		"x, y z, y z w":      0, // without it the others have two
		"v, w x, y z":        0, // nothing is in common without it either
		"x, y, x":            1,
		"x, x, x":            2,
		"x y, u v, x y, u w": 3, // without any of them the others have nothing in common
	} {
		var policies []string
		of := map[string][]CellRef{}
		for i, capacities := range strings.Split(cells, ",") {
			p := fmt.Sprint("p", i)
			policies = append(policies, p)
			for capacity := range strings.FieldsSeq(capacities) {
				of[p] = append(of[p], CellRef{"a", capacity})
			}
		}
		if got := loneliest(policies, func(p string) []CellRef { return of[p] }); got != want {
			t.Errorf("%s: %d goes, expected %d", cells, got, want)
		}
	}
}

// Cells are of trace a, named by their capacities.
func TestCommonCells(t *testing.T) {
	for name, c := range map[string]struct {
		cells map[string]string
		want  string
	}{
		// Three of four have x, which is more than half. s lacks it.
		"most agree": {map[string]string{"p": "x", "q": "x y", "r": "x", "s": "y"}, "[a x] [p q r] [s]"},
		// No more than two have any cell. Policies are left out until there is one, fewest cells first,
		// then the last by name.
		"halves": {map[string]string{"p": "x y", "q": "x y", "r": "z", "s": "z"}, "[a x a y] [p q] [r s]"},
		// Three of four have x, and three have y, but only p and q have both. Without s there is x. p and
		// q have 2 × 2 cells, which does not count, because half of the policies would be out.
		"a quarter": {map[string]string{"p": "x y", "q": "x y", "r": "x", "s": "y"}, "[a x] [p q r] [s]"},
		// All have w. Without s, three policies have two cells, which is more than four with one.
		"a quarter for more": {map[string]string{"p": "w x y", "q": "w x y", "r": "w x", "s": "w y"}, "[a w a x] [p q r] [s]"},
		// The one that frees most is left out: without r there are two cells, without q one.
		"frees most":     {map[string]string{"p": "x y", "q": "x y", "r": "u v"}, "[a x a y] [p q] [r]"},
		"ran nowhere":    {map[string]string{"p": "x", "q": ""}, "[a x] [p] [q]"},
		"none has cells": {map[string]string{"p": "", "q": ""}, "[] [] [p q]"},
	} {
		var policies []string
		for p := range c.cells {
			policies = append(policies, p)
		}
		common, ranked, unranked := commonCells(policies, func(p string) (refs []CellRef) {
			for _, capacity := range strings.Fields(c.cells[p]) {
				refs = append(refs, CellRef{"a", capacity})
			}
			return refs
		})
		var cells []string
		for _, r := range common {
			cells = append(cells, r.Trace+" "+r.Capacity)
		}
		if got := fmt.Sprint(cells, ranked, unranked); got != c.want || !slices.IsSorted(ranked) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
