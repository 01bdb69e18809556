package board

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// coverage says in a table's notes who ran where.
type coverage struct {
	policies []string // all contenders
	cellsOf  func(policy string) []CellRef
	common   []CellRef // pooled
	ranked   []string
	left     []CellRef // of ranked policies, and not pooled; sorted
}

func newCoverage(policies []string, cellsOf func(string) []CellRef, common []CellRef, ranked []string) *coverage {
	return &coverage{policies, cellsOf, common, ranked, lacking(haveMoreThan(0, ranked, cellsOf), common)}
}

// pooledNote says what pooled figures are over.
func (c *coverage) pooledNote() string {
	shared := ""
	if len(c.ranked) > 1 {
		shared = " that all ranked policies have"
	}
	return fmt.Sprintf("pooled over %s%s: %s", result.Count(len(c.common), "cell"), shared, refsText(c.common))
}

// leftNotes name the cells of ranked policies that are not pooled, and those who did not run
// there, or, where they are fewer, those who did.
func (c *coverage) leftNotes() (notes []string) {
	var reasons []string // in the order of the cells
	of := map[string][]CellRef{}
	hints := map[string]string{}
	for _, r := range c.left {
		ran, lack := c.parted(r)
		reason, hint := "only "+c.names(ran)+" ran there", ""
		if len(lack) <= len(ran) {
			reason, hint = c.names(lack)+" did not run there", "; --where policy!="+strings.Join(lack, " --where policy!=")+" pools more"
		}
		if of[reason] == nil {
			reasons = append(reasons, reason)
		}
		of[reason], hints[reason] = append(of[reason], r), hint
	}
	for _, reason := range reasons {
		notes = append(notes, fmt.Sprintf("not pooled, as %s: %s%s", reason, refsText(of[reason]), hints[reason]))
	}
	return notes
}

// takes is true for a ranked policy that keeps cells out of the pooled figures of others:
// it did not run where half of them did.
func (c *coverage) takes(policy string) bool {
	return slices.ContainsFunc(c.left, func(r CellRef) bool {
		ran, lack := c.parted(r)
		return len(lack) <= len(ran) && slices.Contains(lack, policy)
	})
}

// parted are the ranked policies that ran at a cell, and those that did not.
func (c *coverage) parted(r CellRef) (ran, lack []string) {
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
	return strings.Join(policies, ", ")
}

// unrankedNote says which cells a policy lacks, or where it ran, whichever are fewer, and
// how to have it ranked.
func (c *coverage) unrankedNote(policy string) string {
	ran := c.cellsOf(policy)
	lacks := lacking(c.common, ran)
	text := fmt.Sprintf("%s is not ranked: it lacks %d of the pooled cells", policy, len(lacks))
	if 2*len(lacks) <= len(c.common) {
		text += ": " + refsText(lacks)
	} else {
		text += fmt.Sprintf(" (it ran at %s)", orNone(refsText(ran)))
	}
	if filter := c.rankedWhere(policy); filter != "" {
		text += "; " + filter + " ranks it there"
	}
	return text
}

// rankedWhere is a filter of one trace or one capacity that ranks a policy with others,
// empty without any.
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
				return slices.DeleteFunc(slices.Clone(c.cellsOf(p)), func(r CellRef) bool { return key.of(r) != key.of(at) })
			}
			if _, ranked, _ := commonCells(c.policies, within); len(ranked) > 1 && slices.Contains(ranked, policy) {
				return "--where " + printable.ShellWord(key.name+"="+key.of(at))
			}
		}
	}
	return ""
}

// TraceNotes say which cells the figures by trace are not over.
func (t *Table) TraceNotes() []string {
	left := slices.DeleteFunc(slices.Clone(t.usable), func(r CellRef) bool { return slices.Contains(t.onTrace[r.Trace], r) })
	if len(left) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("not in the figures of a trace, as not all policies compared there have them: %s; n/a: the policy lacks others, or ran at none (--per-trace shows every cell)", refsText(left))}
}
