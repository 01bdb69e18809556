package metrics

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/trace/printable"
)

// RenderJSON writes the comparison as indented JSON; metrics/README.md documents the
// fields.
func (c *Comparison) RenderJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(c)
}

// RenderTable writes the comparison for a terminal.
func (c *Comparison) RenderTable(w io.Writer) error {
	var out strings.Builder
	for i := range c.Groups {
		g := &c.Groups[i]
		if i > 0 {
			out.WriteString("\n")
		}
		out.WriteString(c.title(g) + "\n")
		if g.Pooled != nil {
			out.WriteString(c.table(g).text())
		}
		for _, n := range slices.Concat(g.Notes, c.legend(g)) {
			fmt.Fprintf(&out, "  %s\n", n)
		}
	}
	_, err := io.WriteString(w, printable.Text(out.String()))
	return err
}

// RenderMarkdown writes the comparison as Markdown (GitHub's tables).
func (c *Comparison) RenderMarkdown(w io.Writer) error {
	var out strings.Builder
	for i := range c.Groups {
		g := &c.Groups[i]
		if i > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "## %s\n\n", escapeMarkdown(c.title(g)))
		if g.Pooled != nil {
			out.WriteString(c.table(g).markdown() + "\n")
		}
		for _, n := range slices.Concat(g.Notes, c.legend(g)) {
			fmt.Fprintf(&out, "- %s\n", escapeMarkdown(n))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (c *Comparison) title(g *ComparedGroup) string {
	text := fmt.Sprintf("A = %s against B = %s", c.A, c.B)
	if g.Start == coldStart {
		text += ", cold starts"
	}
	return c.Incomplete.titled(g.Labels.Title(text))
}

func (c *Comparison) table(g *ComparedGroup) *textTable {
	t := newTable("trace", "capacity", "misses A", "misses B", "A ÷ B", "95 %", "requests A:B:=", "p", "streams A:B:=", "better")
	t.rightFrom(2)
	for i := range g.Cells {
		d := &g.Cells[i]
		trace := d.Trace
		if apart := d.Labels.Without(g.Labels); len(apart) > 0 {
			trace = fmt.Sprintf("%s (%s)", trace, apart)
		}
		t.add(append([]string{trace, d.Capacity}, d.texts()...)...)
	}
	t.line()
	t.add(append([]string{"pooled", count(len(g.Cells), "cell")}, g.Pooled.texts()...)...)
	return t
}

// texts are the cells of a contest's line behind its place.
func (d *Contest) texts() []string {
	p, ratio, interval, better := notAvailable, times(d.Ratio), intervalText(d.Ratio), "–"
	if d.Requests.tested() {
		p = fmt.Sprintf("%.3g", *d.Requests.P)
	}
	if interval == "" { // every request has the same ratio
		interval = fmt.Sprintf("[%[1]s, %[1]s]", times(d.Ratio))
	}
	if d.inverse != nil { // B alone has no miss
		if ratio = "∞"; d.inverse.bounded() {
			interval = "[∞, ∞]"
		}
	}
	switch {
	case d.Better != nil:
		better = *d.Better
	case d.testable():
		better = "≈"
	}
	return []string{fmt.Sprint(d.MissesA), fmt.Sprint(d.MissesB), ratio, interval, d.Requests.text(), p, d.Streams.text(), better}
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
	if slices.ContainsFunc(contests, func(d Contest) bool { return d.Requests.tested() }) {
		notes = append(notes,
			fmt.Sprintf("95 %%: paired bootstrap over requests, %d resamples, seed %d; p: exact two-sided sign test over requests", c.Resamples, c.Seed),
			fmt.Sprintf("better: the interval excludes 1 and p < %g (needs 6 requests or more); ≈: not told apart; –: not claimed", significant),
			"cells share their requests: take the pooled line for the answer; single cells are not corrected for their number")
	}
	var ratios []*Figure
	for _, d := range contests {
		ratios = append(ratios, d.Ratio, d.inverse)
	}
	return append(notes, intervalNotes(ratios)...)
}
