package board

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
)

// Legend explains the lines.
func (c *Comparison) Legend(g *ComparedGroup) []string {
	if g.Pooled == nil {
		return nil
	}
	var notes, tests []string
	contests := append(slices.Clone(g.Cells), *g.Pooled)
	if slices.ContainsFunc(contests, func(d Contest) bool { return d.P != nil }) {
		notes = append(notes, "The pooled line decides. The cells share requests, and their p is not corrected for the number of cells")
		tests = testNotes(contests, "better:", 1, c.Resamples, c.Seed)
	}
	notes = append(notes, "A ÷ B: misses of A divided by those of B, below 1 if A is better. Pooled: geometric mean over the cells",
		"A:B:=: requests (streams) in which A misses less, B misses less, or both are equal")
	notes = append(notes, tests...)
	if slices.ContainsFunc(contests, func(d Contest) bool { return d.contradicts(d.P, 1) }) {
		notes = append(notes, disagreeNote)
	}
	return append(notes, intervalNotes(Ratios(contests))...)
}

// disagreeNote explains an interval and a verdict that contradict each other.
const disagreeNote = "If the interval and p disagree, p decides. With few requests the interval is too narrow"

// Ratios lists the ratios of contests.
func Ratios(contests []Contest) (ratios []*Figure) {
	for _, d := range contests {
		ratios = append(ratios, d.Ratio, d.Inverse)
	}
	return ratios
}

// testNotes explain the columns of the interval, p and the verdict. The tests are those
// that are corrected together.
func testNotes(contests []Contest, verdict string, tests, resamples int, seed uint64) []string {
	notes := []string{
		fmt.Sprintf("%s p < %g. ≈: not significant. n = N: N requests are too few, a decision takes %d", verdict, Significant, fewestDecidable(tests)),
		"p: two-sided permutation test of A ÷ B, which exchanges A and B in each request",
	}
	if slices.ContainsFunc(Ratios(contests), (*Figure).Bounded) {
		notes = append(notes, fmt.Sprintf("95 %%: paired bootstrap over requests, %d resamples, seed %d", resamples, seed))
	}
	return notes
}

// Verdict names the better policy, or the reason that there is none. Holm corrected p for a number
// of tests.
func (d *Contest) Verdict(p *float64, tests int) string {
	switch d.outcome(p, tests) {
	case decided:
		return *d.Better
	case tooFew:
		return fmt.Sprintf("n = %d", d.Requests.Count)
	case undecided:
		return "≈"
	}
	return "–"
}

// Legend explains the lines.
func (all *Comparisons) Legend(g *ComparedPolicies) []string {
	notes := []string{
		"A ÷ B: misses of A divided by those of B, below 1 if A is better. Geometric mean over the cells that both have",
		"A:B:=: requests in which A misses less, B misses less, or both are equal",
	}
	if n := g.Tests(); n > 0 {
		notes = append(notes, testNotes(g.Contests(), "A is better or worse if", n, all.Resamples, all.Seed)...)
		notes = append(notes, fmt.Sprintf("p is corrected for %s (Holm). Bounds know the future and are not tested", text.Count(n, "test")))
	} else if slices.ContainsFunc(g.Policies, func(p ComparedPolicy) bool { return p.Requests == nil }) {
		notes = append(notes, "No test: rows are pooled over requests. Replay with --per request")
	}
	if slices.ContainsFunc(g.Policies, func(p ComparedPolicy) bool { return !p.Bound && p.contradicts(p.PHolm, g.Tests()) }) {
		notes = append(notes, disagreeNote)
	}
	return append(notes, intervalNotes(Ratios(g.Contests()))...)
}

// Tests is the number of tests that are corrected together.
func (g *ComparedPolicies) Tests() (n int) {
	return slice.Count(g.Policies, func(p ComparedPolicy) bool { return p.PHolm != nil })
}

// Contests are those of all policies.
func (g *ComparedPolicies) Contests() []Contest {
	return slice.Map(g.Policies, func(p ComparedPolicy) Contest { return p.Contest })
}

// notes describe the cells of the figures and repeat the warnings of the rows. They name the
// policies with more to consider than misses.
func (c *Comparison) notes(pairs []pair, unpaired []CellRef) []string {
	var notes []string
	var as, bs []*cell
	without := 0
	for _, p := range pairs {
		if !p.hasRatio() {
			without++
		}
		as, bs = append(as, p.a), append(bs, p.b)
	}
	if len(pairs) > 0 {
		notes = append(notes, requestsNote(pairs))
	}
	if without > 0 && len(pairs) > 1 {
		notes = append(notes, fmt.Sprintf("Left out of the pooled ratio, because a policy has no misses: %s", text.Count(without, "cell")))
	}
	if len(unpaired) > 0 {
		notes = append(notes, "Not compared, because only one of the two has rows: "+refsText(unpaired))
	}
	return append(notes, c.remarks(remarksOf(as), remarksOf(bs))...)
}

// remarks names the policy that each remark is about.
func (c *Comparison) remarks(as, bs []string) []string {
	var all []string
	for _, remark := range text.Union(as, bs...) {
		subject := "A and B"
		switch {
		case !slices.Contains(bs, remark):
			subject = c.A
		case !slices.Contains(as, remark):
			subject = c.B
		}
		all = append(all, subject+": "+remark)
	}
	return all
}

// remarksOf returns the remarks about one side.
func remarksOf(cells []*cell) []string {
	var warnings []string
	for _, c := range cells {
		warnings = append(warnings, c.warnings...)
		if c.sample.Offline {
			warnings = append(warnings, "knows the future: a bound, not a contender")
		}
		if c.sample.Bypasses {
			warnings = append(warnings, "may read demanded blocks without keeping them")
		}
		if c.capacity == "" {
			warnings = append(warnings, "has no capacity: the other was given its peak size")
		}
		if c.total.prefetched > 0 {
			warnings = append(warnings, "prefetches: judge misses and bytes together")
		}
	}
	merged, _ := MergeNotes(warnings)
	return merged
}

// requestsNote states the number of requests of each trace, and whether they are too few for an
// interval.
func requestsNote(pairs []pair) string {
	var traces []string
	for _, p := range pairs {
		n := len(p.a.requests)
		switch {
		case p.a.requests == nil || p.b.requests == nil:
			traces = append(traces, p.at.Trace+" (rows pooled over requests, so no test: replay with --per request)")
		case n < MinRequests:
			traces = append(traces, fmt.Sprintf("%s (n = %d, an interval needs %d)", p.at.Trace, n, MinRequests))
		default:
			traces = append(traces, fmt.Sprintf("%s (n = %d)", p.at.Trace, n))
		}
	}
	return "requests: " + strings.Join(text.Union(traces), ", ")
}
