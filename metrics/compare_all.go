package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Comparisons sets every policy of the rows side by side with one. It is a pure function
// of rows.
type Comparisons struct {
	// Version is ComparisonVersion.
	Version int `json:"comparison_version"`
	// B is the policy that the others are compared with.
	B string `json:"b"`
	// Resamples and Seed are those of the bootstrap intervals.
	Resamples int    `json:"resamples"`
	Seed      uint64 `json:"seed"`
	// Incomplete says that cells which were asked for have no rows; null if all have.
	Incomplete *Incomplete `json:"incomplete"`
	// Groups are the warmed rows and the cold ones, as in Comparison.
	Groups []ComparedPolicies `json:"groups"`
}

// ComparedPolicies compares policies over rows that may be pooled.
type ComparedPolicies struct {
	// Start is "warmed" or "cold".
	Start string `json:"start"`
	// Labels are the conditions that limit the figures. Bounds are marked as such instead.
	// A label of some policies states their share.
	Labels Labels `json:"labels"`
	// Policies are sorted by their ratio, bounds last.
	Policies []ComparedPolicy `json:"policies"`
	// Notes say which policies were left out, and why.
	Notes []string `json:"notes"`
}

// ComparedPolicy is policy A against B over all cells that both have.
type ComparedPolicy struct {
	// A is the policy. Bound is true for an offline one.
	A     string `json:"a"`
	Bound bool   `json:"bound"`
	// The contest is pooled. Its Better is by PHolm.
	Contest
	// PHolm is P corrected for the number of policies that are not bounds (Holm). Null for
	// bounds, and without P.
	PHolm *float64 `json:"p_holm"`
}

// CompareAll sets every policy of the rows side by side with b. Rows that must not be
// compared are an error, as in Compare. Lossy policies, and those that ran at no place
// where b did, are left out with a note.
func CompareAll(rows []Row, b string, o Options) (*Comparisons, error) {
	all := &Comparisons{Version: ComparisonVersion, B: b, Resamples: cmp.Or(o.Resamples, DefaultResamples), Seed: o.Seed, Incomplete: o.Incomplete}
	top, _ := splitTiers(pointers(rows))
	known := distinct(rowFields[fieldIndex["policy"]], top)
	if !slices.Contains(known, b) {
		return nil, fmt.Errorf("compare all with %s: %w", b, &UnknownPolicy{b, known})
	}
	lossy, offline := map[string]bool{}, map[string]bool{}
	for _, r := range top {
		lossy[r.Policy], offline[r.Policy] = r.Lossy, r.Offline
	}
	if lossy[b] {
		return nil, fmt.Errorf("compare all with %s: it is lossy, which misses nothing: kvreplay leaderboard compares recall", b)
	}
	groups := map[string]*ComparedPolicies{}
	for _, start := range []string{warmedStart, coldStart} {
		groups[start] = &ComparedPolicies{Start: start}
	}
	var left, lossyOnes []string
	for _, a := range known {
		switch {
		case a == b:
			continue
		case lossy[a]:
			lossyOnes = append(lossyOnes, a)
			continue
		}
		c, err := compare(rows, a, b, o)
		if err != nil {
			return nil, err
		}
		found := false
		for _, g := range c.Groups {
			if g.Pooled != nil {
				found = true
				p := ComparedPolicy{A: a, Bound: offline[a], Contest: *g.Pooled}
				p.Labels = g.Labels
				groups[g.Start].Policies = append(groups[g.Start].Policies, p)
			}
		}
		if !found {
			left = append(left, a)
		}
	}
	for _, start := range []string{warmedStart, coldStart} {
		if g := groups[start]; len(g.Policies) > 0 {
			g.finish(b, left, lossyOnes)
			g.Labels = g.shared(offline[b])
			g.Notes = append(o.Incomplete.notes(), g.Notes...)
			all.Groups = append(all.Groups, *g)
		}
	}
	if len(all.Groups) == 0 {
		return nil, fmt.Errorf("compare all with %s: %w", b, errors.New("no other policy ran at a trace and capacity where it did: replay them at the same ones"))
	}
	fillLists(reflect.ValueOf(all).Elem())
	return all, nil
}

// finish corrects the tests, names the better ones and sorts.
func (g *ComparedPolicies) finish(b string, left, lossy []string) {
	g.correct(b)
	slices.SortStableFunc(g.Policies, func(p, q ComparedPolicy) int {
		return cmp.Or(compareBool(p.Bound, q.Bound), cmp.Compare(p.order(), q.order()), strings.Compare(p.A, q.A))
	})
	cells := 0
	for _, p := range g.Policies {
		cells = max(cells, p.Cells)
	}
	if slices.ContainsFunc(g.Policies, func(p ComparedPolicy) bool { return p.Cells < cells }) {
		g.Notes = append(g.Notes, "each ratio is over the cells that both policies have: those with fewer cells are not on one scale with the others")
	}
	if left != nil {
		g.Notes = append(g.Notes, "not compared, as they share no trace and capacity with "+b+": "+strings.Join(left, ", "))
	}
	if lossy != nil {
		g.Notes = append(g.Notes, "not compared, as they are lossy (kvreplay leaderboard ranks their recall): "+strings.Join(lossy, ", "))
	}
}

// correct applies Holm's method to the policies that are not bounds.
func (g *ComparedPolicies) correct(b string) {
	var at []int
	var ps []float64
	for i, p := range g.Policies {
		if !p.Bound && p.P != nil {
			at, ps = append(at, i), append(ps, *p.P)
		}
	}
	for i := range g.Policies {
		g.Policies[i].Better = nil
	}
	for k, corrected := range holm(ps) {
		p := &g.Policies[at[k]]
		p.PHolm = number(corrected)
		p.judge(p.A, b, p.PHolm, len(ps))
	}
}

// shared are the labels of all policies together. Those of a bound are its own unless B is
// one.
func (g *ComparedPolicies) shared(offline bool) Labels {
	of := make([]Labels, len(g.Policies))
	for i, p := range g.Policies {
		if of[i] = p.Labels; p.Bound && !offline {
			of[i] = p.Labels.Without(Labels{LabelOraclePolicy})
		}
	}
	return SharedLabels(of, "policies")
}

// tests is the number of tests that are corrected together.
func (g *ComparedPolicies) tests() (n int) {
	for _, p := range g.Policies {
		if p.PHolm != nil {
			n++
		}
	}
	return n
}

// order is the ratio: infinite where B alone has no miss, and last without a ratio.
func (p *ComparedPolicy) order() float64 {
	switch {
	case p.Ratio != nil:
		return p.Ratio.Value
	case p.inverse != nil:
		return math.MaxFloat64
	}
	return math.Inf(1)
}

// RenderJSON writes the comparisons as indented JSON; metrics/README.md documents the
// fields.
func (all *Comparisons) RenderJSON(w io.Writer) error { return writeJSON(w, all) }

// RenderTable writes the comparisons for a terminal.
func (all *Comparisons) RenderTable(w io.Writer) error {
	_, err := io.WriteString(w, textOf(all.sections()))
	return err
}

// RenderMarkdown writes the comparisons as Markdown (GitHub's tables).
func (all *Comparisons) RenderMarkdown(w io.Writer) error {
	_, err := io.WriteString(w, markdownOf(all.sections()))
	return err
}

func (all *Comparisons) sections() (sections []section) {
	for i := range all.Groups {
		g := &all.Groups[i]
		sections = append(sections, section{all.Incomplete.titled(g.Labels.Title("Every policy A against B = " + all.B + startText(g.Start))), g.table(), slices.Concat(g.Notes, all.legend(g))})
	}
	return sections
}

func (g *ComparedPolicies) table() *textTable {
	t := newTable("A", "cells", "A ÷ B", "95 %", "requests A:B:=", "p", "A is")
	t.rightFrom(1)
	u := ratioUnit.column(ratiosOf(g.contests()))
	bounds := false
	for i := range g.Policies {
		p := &g.Policies[i]
		if p.Bound && !bounds && i > 0 {
			t.line()
		}
		bounds = p.Bound
		verdict := p.betterText(p.PHolm, g.tests())
		switch {
		case p.Bound:
			verdict = "bound"
		case p.Better != nil && *p.Better == p.A:
			verdict = "better"
		case p.Better != nil:
			verdict = "worse"
		}
		ratio, interval := p.ratioTexts(u)
		t.add(p.A, fmt.Sprint(p.Cells), ratio, interval, p.Requests.text(), pText(p.PHolm), verdict)
	}
	return t
}

func (g *ComparedPolicies) contests() []Contest {
	contests := make([]Contest, len(g.Policies))
	for i, p := range g.Policies {
		contests[i] = p.Contest
	}
	return contests
}

// legend explains what the lines show.
func (all *Comparisons) legend(g *ComparedPolicies) []string {
	notes := []string{
		"A ÷ B: misses, below 1 A is better; geometric mean over the cells that both have",
		"A:B:=: requests in which A missed less, B did, neither",
	}
	if n := g.tests(); n > 0 {
		notes = append(notes, testNotes(g.contests(), "A is better or worse if", n, all.Resamples, all.Seed)...)
		notes = append(notes, fmt.Sprintf("p is corrected for %s (Holm); bounds see the future and are not tested", count(n, "test")))
	} else if slices.ContainsFunc(g.Policies, func(p ComparedPolicy) bool { return p.Requests == nil }) {
		notes = append(notes, "no test: rows are pooled over requests; replay with --per request")
	}
	if slices.ContainsFunc(g.Policies, func(p ComparedPolicy) bool { return !p.Bound && p.contradicts(p.PHolm, g.tests()) }) {
		notes = append(notes, disagreeNote)
	}
	return append(notes, intervalNotes(ratiosOf(g.contests()))...)
}
