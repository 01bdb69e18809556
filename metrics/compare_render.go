package metrics

import (
	"fmt"
	"io"
	"slices"
	"strconv"
)

// RenderJSON writes the comparison as indented JSON; metrics/README.md documents the
// fields.
func (c *Comparison) RenderJSON(w io.Writer) error { return writeJSON(w, c) }

// RenderTable writes the comparison for a terminal.
func (c *Comparison) RenderTable(w io.Writer) error {
	_, err := io.WriteString(w, textOf(c.sections()))
	return err
}

// RenderMarkdown writes the comparison as Markdown (GitHub's tables).
func (c *Comparison) RenderMarkdown(w io.Writer) error {
	_, err := io.WriteString(w, markdownOf(c.sections()))
	return err
}

// sections lay out the groups. A group in which the two share no cell has no table.
func (c *Comparison) sections() (all []section) {
	for i := range c.Groups {
		g := &c.Groups[i]
		s := section{title: c.title(g), notes: slices.Concat(g.Notes, c.legend(g))}
		if g.Pooled != nil {
			s.table = c.table(g)
		}
		all = append(all, s)
	}
	return all
}

func (c *Comparison) title(g *ComparedGroup) string {
	return c.Incomplete.titled(g.Labels.Title(fmt.Sprintf("A = %s against B = %s", c.A, c.B) + startText(g.Start)))
}

// startText is what a title says of a start; it is empty for warmed caches.
func startText(start string) string {
	if start == coldStart {
		return ", cold starts"
	}
	return ""
}

func (c *Comparison) table(g *ComparedGroup) *textTable {
	t := newTable("trace", "capacity", "misses A", "misses B", "A ÷ B", "95 %", "requests A:B:=", "p", "streams A:B:=", "better")
	t.rightFrom(2)
	add := func(d *Contest, u unit, place ...string) {
		ratio, interval := d.ratioTexts(u)
		t.add(append(place, fmt.Sprint(d.MissesA), fmt.Sprint(d.MissesB), ratio, interval, d.Requests.text(), pText(d.P), d.Streams.text(), d.betterText(d.P, 1))...)
	}
	single := ratioUnit.column(ratiosOf(g.Cells))
	for i := range g.Cells {
		trace := g.Cells[i].Trace
		if apart := g.Cells[i].Labels.Without(g.Labels); len(apart) > 0 {
			trace = fmt.Sprintf("%s (%s)", trace, apart)
		}
		add(&g.Cells[i], single, trace, g.Cells[i].Capacity)
	}
	t.line()
	add(g.Pooled, ratioUnit.column([]*Figure{g.Pooled.Ratio}), "pooled", count(len(g.Cells), "cell"))
	return t
}

// ratioTexts are A ÷ B and its interval.
func (d *Contest) ratioTexts(u unit) (ratio, interval string) {
	ratio, interval = u.aligned(d.Ratio), u.interval(d.Ratio)
	if interval == "" { // every request has the same ratio
		interval = fmt.Sprintf("[%[1]s, %[1]s]", u.text(d.Ratio))
	}
	if d.inverse != nil { // B alone has no miss
		if ratio = "∞"; d.inverse.bounded() {
			interval = "[∞, ∞]"
		}
	}
	return ratio, interval
}

// betterText names the better policy, or says why none is named. The p is one of so many.
func (d *Contest) betterText(p *float64, tests int) string {
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

// pText shows p with two digits, and with more if two would show another verdict.
func pText(p *float64) string {
	if p == nil {
		return notAvailable
	}
	if *p < 1e-4 {
		return "< 0.0001"
	}
	for digits := 2; ; digits++ {
		text := rounded(*p, digitsOf(*p, digits))
		if shown, err := strconv.ParseFloat(text, 64); err == nil && (shown < significant) == (*p < significant) {
			return text
		}
	}
}

// text is "wins:losses:ties".
func (v *Votes) text() string {
	if v == nil {
		return notAvailable
	}
	return fmt.Sprintf("%d:%d:%d", v.Wins, v.Losses, v.Ties)
}

// legend explains what the lines show.
func (c *Comparison) legend(g *ComparedGroup) []string {
	if g.Pooled == nil {
		return nil
	}
	notes := []string{
		"A ÷ B: misses, below 1 A is better; pooled: geometric mean over cells",
		"A:B:=: requests (streams) in which A missed less, B did, neither",
	}
	contests := append(slices.Clone(g.Cells), *g.Pooled)
	if slices.ContainsFunc(contests, func(d Contest) bool { return d.P != nil }) {
		notes = append(notes, testNotes(contests, "better:", 1, c.Resamples, c.Seed)...)
		notes = append(notes, "the pooled line is the answer: cells share their requests, and their p is not corrected for their number")
	}
	if slices.ContainsFunc(contests, func(d Contest) bool { return d.contradicts(d.P, 1) }) {
		notes = append(notes, disagreeNote)
	}
	return append(notes, intervalNotes(ratiosOf(contests))...)
}

// disagreeNote explains an interval and a verdict that contradict each other.
const disagreeNote = "if the interval and p disagree, p decides: with few requests the interval is too narrow"

// ratiosOf lists the ratios of contests.
func ratiosOf(contests []Contest) (ratios []*Figure) {
	for _, d := range contests {
		ratios = append(ratios, d.Ratio, d.inverse)
	}
	return ratios
}

// testNotes explain the columns of the interval, p and the verdict. The tests are those
// that are corrected together.
func testNotes(contests []Contest, verdict string, tests, resamples int, seed uint64) []string {
	var notes []string
	if slices.ContainsFunc(ratiosOf(contests), (*Figure).bounded) {
		notes = append(notes, fmt.Sprintf("95 %%: paired bootstrap over requests, %d resamples, seed %d", resamples, seed))
	}
	return append(notes,
		"p: two-sided permutation test of A ÷ B, which exchanges A and B in each request",
		fmt.Sprintf("%s p < %g; ≈: not distinguished; n = N: N requests cannot decide, %d can", verdict, significant, fewestDecidable(tests)))
}
