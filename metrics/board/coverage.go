package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
)

// coverage writes the notes about the cells of the policies.
type coverage struct {
	policies []string // all contenders
	cellsOf  func(policy string) []CellRef
	common   []CellRef // pooled
	ranked   []string
	left     []CellRef // cells of ranked policies that are not pooled, sorted
}

// leftNotes name the cells of ranked policies that are not pooled. Each names the policies
// that did not run there or, if they are fewer, those that did.
func (c *coverage) leftNotes() (notes []string) {
	var reasons []string // in the order of the cells
	of := map[string][]CellRef{}
	hints := map[string]string{}
	for _, r := range c.left {
		ran, lack := c.split(r)
		reason, hint := "only "+c.names(ran)+" ran", ""
		if len(lack) <= len(ran) {
			reason, hint = c.names(lack)+" did not run", ". Pool them with --where policy!="+strings.Join(lack, " --where policy!=")
		}
		if of[reason] == nil {
			reasons = append(reasons, reason)
		}
		of[reason], hints[reason] = append(of[reason], r), hint
	}
	for _, reason := range reasons {
		notes = append(notes, fmt.Sprintf("Not pooled, because %s: %s%s", reason, refsText(of[reason]), hints[reason]))
	}
	return notes
}

// shrinksNote marks the line of a policy for which shrinksPool is true.
const shrinksNote = "lacks cells that most ranked policies have. These cells are pooled for no policy"

// shrinksPool reports whether a ranked policy lacks a cell that at least half of the ranked
// policies have. Such a cell is pooled for no policy.
func (c *coverage) shrinksPool(policy string) bool {
	return slices.ContainsFunc(c.left, func(r CellRef) bool {
		ran, lack := c.split(r)
		return len(lack) <= len(ran) && slices.Contains(lack, policy)
	})
}

// split returns the ranked policies that ran at a cell, and those that did not.
func (c *coverage) split(r CellRef) (ran, lack []string) {
	for _, p := range c.ranked {
		if slices.Contains(c.cellsOf(p), r) {
			ran = append(ran, p)
		} else {
			lack = append(lack, p)
		}
	}
	return ran, lack
}

// names lists a few policies, and counts many.
func (c *coverage) names(policies []string) string {
	if len(policies) > 3 {
		return fmt.Sprintf("%d of %d ranked policies", len(policies), len(c.ranked))
	}
	return strings.Join(policies, ", ") + " of the ranked policies"
}

// unrankedNote names the policies that lack pooled cells in its first sentence. For each policy
// follow the cells that it lacks or, if they are fewer, the cells that it has. The last sentence
// is the filter that ranks the policy.
func (c *coverage) unrankedNote(policies []string) string {
	note := "Not ranked for lack of pooled cells: " + strings.Join(policies, ", ") + "."
	for _, p := range policies {
		ran := c.cellsOf(p)
		lacks := lacking(c.common, ran)
		note += fmt.Sprintf(" %s lacks %s", p, text.Count(len(lacks), "cell"))
		if 2*len(lacks) <= len(c.common) {
			note += ": " + refsText(lacks) + "."
		} else {
			note += fmt.Sprintf(" (it ran at %s).", cmp.Or(refsText(ran), "none"))
		}
		if filter := c.rankedWhere(p); filter != "" {
			note += " Rank it with " + filter + "."
		}
	}
	return strings.TrimSuffix(note, ".")
}

// rankedWhere returns a filter of one trace or one capacity that ranks a policy with others, empty
// if there is none.
func (c *coverage) rankedWhere(policy string) string {
	for _, key := range []struct {
		name string
		of   func(CellRef) string
	}{
		{"trace", func(r CellRef) string { return r.Trace }},
		{"capacity", func(r CellRef) string { return r.Capacity }},
	} {
		for _, at := range c.cellsOf(policy) {
			within := func(p string) []CellRef {
				return slice.Filter(c.cellsOf(p), func(r CellRef) bool { return key.of(r) == key.of(at) })
			}
			if _, ranked, _ := commonCells(c.policies, within); len(ranked) > 1 && slices.Contains(ranked, policy) {
				return "--where " + printable.ShellWord(key.name+"="+key.of(at))
			}
		}
	}
	return ""
}

// TraceNotes name the cells that the figures by trace leave out.
func (t *Ranking) TraceNotes() []string {
	left := slice.Filter(t.usable, func(r CellRef) bool { return !slices.Contains(t.onTrace[r.Trace], r) })
	if len(left) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Not in the figures of a trace, because not all policies have these cells: %s. n/a: the policy lacks other cells. --per-trace shows every cell", refsText(left))}
}

// commonOnTraces chooses cells for each trace as for the ranking: the usable cells that its
// policies have.
func commonOnTraces(traces, policies []string, cellsOf func(string) []CellRef) map[string][]CellRef {
	type place struct{ trace, policy string }
	cells := map[place][]CellRef{}
	for _, p := range policies {
		for _, r := range cellsOf(p) {
			cells[place{r.Trace, p}] = append(cells[place{r.Trace, p}], r)
		}
	}
	common := map[string][]CellRef{}
	for _, trace := range traces {
		onTrace := func(policy string) []CellRef { return cells[place{trace, policy}] }
		ran := slice.Filter(policies, func(p string) bool { return len(onTrace(p)) > 0 })
		common[trace], _, _ = commonCells(ran, onTrace)
	}
	return common
}
