package fit

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// percent formats an error, n/a if it is nil.
func percent(e *float64) string {
	if e == nil {
		return "n/a"
	}
	return fmt.Sprintf("%+.1f %%", 100**e)
}

// rate formats bytes per second with three digits.
func rate(v float64) string {
	return strings.Replace(fmt.Sprintf("%.3g GB/s", v/1e9), "e+0", "e", 1)
}

func (c *Comparison) row() []any {
	measured, model := rate(c.Measured), "n/a"
	if c.AtMost {
		measured = "at most " + measured
	}
	if c.Model != nil {
		model = rate(*c.Model)
	}
	verdict := ""
	if c.Sets {
		verdict = "sets constants"
	}
	if c.Missed() {
		verdict = "missed"
	}
	return []any{c.Item, c.Series, c.Path, c.Point, measured, model, percent(c.Error), percent(c.LeftOut), verdict}
}

func comparisonTable(rows []Comparison) *table.Table {
	t := table.New("link or drive", "series", "path", "blocks", "measured", "model", "error", "left out", "").Right(4, 5, 6, 7)
	for i := range rows {
		t.Add(rows[i].row()...)
	}
	return t
}

// WriteComparisons prints a table, and the reasons for missed points.
func WriteComparisons(w io.Writer, rows []Comparison) error {
	text := comparisonTable(rows).Text() + "\n" + summary(rows) + "\n" + listed("  ", reasons(rows))
	_, err := io.WriteString(w, text)
	return err
}

// listed returns lines, each after a mark.
func listed(mark string, lines []string) (text string) {
	for _, line := range lines {
		text += mark + line + "\n"
	}
	return text
}

// WriteComparisonsMarkdown prints the table as Markdown with its sources.
func WriteComparisonsMarkdown(w io.Writer, rows []Comparison) error {
	text := comparisonTable(rows).Markdown() + "\n" + summary(rows) + "\n\n" + listed("- ", reasons(rows)) +
		"\nSources:\n\n" + listed("- ", sources(rows))
	_, err := io.WriteString(w, text)
	return err
}

// sources lists each source with its series.
func sources(rows []Comparison) []string {
	groups := slice.Group(rows, func(c *Comparison) string { return c.Source })
	return slice.Map(groups, func(group []Comparison) string {
		series := slice.Distinct(group, func(c *Comparison) string { return c.Item + " " + c.Series })
		return strings.Join(series, ", ") + ": " + group[0].Source
	})
}

// summary counts the comparisons.
func summary(rows []Comparison) string {
	var all, within [4]int // unknown size, left out, predicted, sets constants
	for i := range rows {
		r := &rows[i]
		kind := 0
		switch {
		case r.LeftOut != nil:
			kind = 1
		case r.Sets:
			kind = 3
		case r.Model != nil:
			kind = 2
		}
		all[kind]++
		if !r.Missed() {
			within[kind]++
		}
	}
	text := fmt.Sprintf("%s. Within %.0f %%: %d of %d left out of a fit, %d of %d predicted without a fit, %d of %d that set a constant.",
		english.Plural(len(rows), "point", ""), 100*Tolerance, within[1], all[1], within[2], all[2], within[3], all[3])
	if all[0] > 0 {
		text += fmt.Sprintf(" %d have blocks of a size that the source does not state.", all[0])
	}
	return text
}

// reasons returns the reason of each missed point.
func reasons(rows []Comparison) (lines []string) {
	for i := range rows {
		if r := &rows[i]; r.Missed() {
			lines = append(lines, fmt.Sprintf("%s %s, %s: %s.", r.Item, r.Series, r.Point, cmp.Or(r.Why, "not explained")))
		}
	}
	return lines
}

// WriteResult prints a fitted curve, the error of each point, and the undetermined constants.
func WriteResult(w io.Writer, title string, r *Result, points []Point) error {
	if title != "" {
		title += "\n"
	}
	left := "n/a"
	if e := Worst(r.LeftOut); e == e {
		left = fmt.Sprintf("%.1f %%", 100*e)
	}
	text := title + constantsTable(r).Text() + "\n" + pointsTable(r, points).Text() + "\n" +
		fmt.Sprintf("worst error %.1f %%, left out %s\n", 100*Worst(r.Errors), left)
	if r.Zero != nil {
		text += "not determined by these points, so 0 or taken from another regime: " + strings.Join(r.Zero, ", ") + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

func constantsTable(r *Result) *table.Table {
	t := table.New("constant", "value").Right(1)
	c := r.Curve
	t.Add("launch", microseconds(c.Launch))
	if c.Submit > 0 {
		t.Add("submit", microseconds(c.Submit))
	}
	if c.Ahead > 0 {
		t.Add("ahead", fmt.Sprintf("%.0f descriptors", c.Ahead))
	}
	for _, g := range c.Regimes {
		from := ""
		if g.From > 0 {
			from = fmt.Sprintf(" from %g B", g.From)
		}
		t.Add("descriptor"+from, microseconds(g.Descriptor))
		t.Add("rate"+from, hardware.BytesPerSecond(g.Rate).String())
	}
	return t
}

func microseconds(s float64) string { return fmt.Sprintf("%.4g us", s*1e6) }

func pointsTable(r *Result, points []Point) *table.Table {
	t := table.New("line", "block", "blocks", "measured", "fitted", "error", "left out").RightFrom(0)
	for i := range points {
		p := &points[i]
		left := "n/a"
		if e := r.LeftOut[i]; e == e {
			left = percent(&e)
		}
		bytes := float64(p.Request.Bytes)
		t.Add(p.Line, fmt.Sprintf("%g B", p.block()), p.Request.Descriptors, rate(bytes/p.Seconds), rate(bytes/r.Curve.Time(p.Request)), percent(&r.Errors[i]), left)
	}
	return t
}

// WriteYAML prints a curve as a path of a link's data file. All of its numbers get the given
// source.
func WriteYAML(w io.Writer, c *transfer.Curve, source string) error {
	fact := func(value string) string {
		return fmt.Sprintf("{value: %s, status: fitted, source: %s, note: \"fitted\"}", value, source)
	}
	lines := []string{"launch: " + fact(microseconds(c.Launch))}
	if c.Submit > 0 {
		lines = append(lines, "submit: "+fact(microseconds(c.Submit)))
	}
	if c.Ahead > 0 {
		lines = append(lines, "ahead: "+fact(fmt.Sprintf("%.0f", c.Ahead)))
	}
	if c.SMs > 0 {
		lines = append(lines, "sms: "+fact(fmt.Sprintf("%g", c.SMs)))
	}
	lines = append(lines, "regimes:")
	for _, g := range c.Regimes {
		lines = append(lines, "  - from: "+fact(fmt.Sprintf("%.0f B", g.From)), "    descriptor: "+fact(microseconds(g.Descriptor)), "    rate: "+fact(fmt.Sprintf("%.4g GB/s", g.Rate/1e9)))
		if g.Inline {
			lines = append(lines, "    inline: true")
		}
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
