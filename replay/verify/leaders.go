package verify

import (
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// leaders returns the policies that the board of the rows ranks first, sorted by name. If the rows
// make no board, or a board without ranks, leaders uses the boards of single traces. If a trace
// makes none either, it uses those of its settings and capacities.
func leaders(rows []result.Row) []string {
	warmed, cold := result.SplitCold(rows)
	byTrace := func(r *result.Row) string { return r.Trace }
	byWork := func(r *result.Row) string { return cellOf(r).work() }
	names := append(leadersBy(warmed, byTrace, byWork), leadersBy(cold, byTrace, byWork)...)
	slices.Sort(names)
	return slices.Compact(names)
}

// leadersBy returns the policies that the board of the rows ranks first. If it ranks none, leadersBy
// divides the rows by the first key, and uses the others for the groups.
func leadersBy(rows []result.Row, keys ...func(*result.Row) string) (names []string) {
	names, err := rankedFirst(rows)
	if err == nil && len(names) > 0 || len(keys) == 0 {
		return names
	}
	for _, group := range slice.Group(rows, keys[0]) {
		names = append(names, leadersBy(group, keys[1:]...)...)
	}
	return names
}

func rankedFirst(rows []result.Row) (names []string, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	b, err := board.NewBoard(rows, board.Options{Resamples: 1})
	if err != nil {
		return nil, err
	}
	for _, t := range b.Rankings() {
		for _, l := range append(t.Ranked, t.Unranked...) {
			if strings.TrimSuffix(l.Rank, "=") == "1" || len(t.Ranked) == 0 && len(t.Unranked) == 1 { // first in a tie, or the only line
				names = append(names, l.Policy)
			}
		}
	}
	return names, nil
}

// claims returns the rows that every sample includes. They are one row of every cell of the
// leaders, with which the cell's others are compared, and the row with the lowest × OPT.
func claims(rows []result.Row, among []int, leaders []string) (always []int) {
	seen := map[string]bool{}
	for _, at := range among {
		if r := &rows[at]; slices.Contains(leaders, r.Policy) && r.Tier == 0 && !seen[cellOf(r).key()] {
			seen[cellOf(r).key()] = true
			always = append(always, at)
		}
	}
	if at, there := lowest(rows, among); there {
		always = append(always, at)
	}
	return always
}

// place identifies rows of different policies that did the same work.
type place struct {
	work string
	part twinKey
}

func placeOf(r *result.Row) place { return place{cellOf(r).work(), twinKeyOf(r)} }

// lowest finds the contenders' row with the lowest ratio of misses to OPT's.
func lowest(rows []result.Row, among []int) (at int, there bool) {
	optimum := map[place]int64{}
	for i := range rows {
		if r := &rows[i]; r.Policy == "opt" && r.Tier == 0 {
			optimum[placeOf(r)] = r.Misses
		}
	}
	least := math.Inf(1)
	for _, i := range among {
		r := &rows[i]
		opt, known := optimum[placeOf(r)]
		if r.Offline || r.Lossy || r.Tier > 0 || !known {
			continue
		}
		if x := float64(r.Misses) / float64(opt); x < least { // 0 ÷ 0 does not count
			at, there, least = i, true, x
		}
	}
	return at, there
}
