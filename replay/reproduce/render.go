package reproduce

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/kvreplay/kvreplay/metrics/render/texttable"
)

var summaryHeader = table.Row{"paper", "section", "judged", "within", "worst error", "known misses", "past", "fitted", "not computable"}

// lines is the table of a section. The column of references is there if a line has one, that
// of notes if notes are wanted and a line has one.
func (s *Section) lines(notes bool, text func(string) string) table.Writer {
	references := slices.ContainsFunc(s.Lines, func(l Line) bool { v, _ := l.Target.Reference(); return !math.IsNaN(v) })
	notes = notes && slices.ContainsFunc(s.Lines, func(l Line) bool { return l.Note != "" })
	columns := func(item any, printed, reference, ours, err, gate, kind, result, note any) table.Row {
		row := table.Row{item, printed}
		if references {
			row = append(row, reference)
		}
		row = append(row, ours, err, gate, kind, result)
		if notes {
			row = append(row, note)
		}
		return row
	}
	right := []int{2, 3, 4}
	if references {
		right = append(right, 5)
	}
	t := texttable.New(columns("", "printed", "reference", "ours", "error", "gate", "kind", "result", "note"), right...)
	for i := range s.Lines {
		l := &s.Lines[i]
		t.AppendRow(columns(text(l.Item), l.printed(), l.reference(), l.ours(), l.err(), l.Gate.String(), l.Kind, l.Verdict(), text(l.Note)))
	}
	return t
}

func (c *Constant) text() string {
	return fmt.Sprintf("%s = %s (%s)", c.Name, figure(c.Value, c.Unit, -1), c.From)
}

// sum is the row of a section, named as given, in the table of all.
func (s *Section) sum(paper, name string) table.Row {
	n := s.Summary()
	return table.Row{paper, name, n.Judged, n.Within, percent(n.Worst, false), n.Known, n.Past, n.Fitted, n.Absent}
}

// RenderTable writes the report for a terminal: the counts by kind and by paper, the papers,
// and last the counts by section.
func (r *Report) RenderTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n\n%s\n", r.Headline(), r.byKind().Render(), r.byPaper().Render())
	if gaps := r.gaps(); gaps != "" {
		fmt.Fprintf(&b, "\n%s\n", gaps)
	}
	all := texttable.New(summaryHeader, 3, 4, 5, 6, 7, 8, 9)
	for _, p := range r.Papers {
		fmt.Fprintf(&b, "\n%s: %s\n\n", p.Name, p.Citation)
		for i := range p.Sections {
			s := &p.Sections[i]
			s.text(&b)
			all.AppendRow(s.sum(p.Name, s.Name))
		}
		for i := range p.Gaps {
			fmt.Fprintf(&b, "  without a line: %s\n", p.Gaps[i].text())
		}
	}
	fmt.Fprintf(&b, "\n%s\n", all.Render())
	return writeTrimmed(w, b.String())
}

func (s *Section) text(b *strings.Builder) {
	fmt.Fprintf(b, "%s (%s)\n", s.Title, s.Name)
	fmt.Fprintf(b, "  %s\n", s.Method)
	for _, a := range s.Assumptions {
		fmt.Fprintf(b, "  assumption: %s\n", a)
	}
	for i := range s.Constants {
		fmt.Fprintf(b, "  constant: %s\n", s.Constants[i].text())
	}
	fmt.Fprintf(b, "%s\n", s.lines(false, func(text string) string { return text }).Render())
	for _, r := range s.references() {
		fmt.Fprintf(b, "  %s\n", r)
	}
	for _, g := range grouped(s.Lines, func(l *Line) string { return l.Note }) {
		fmt.Fprintf(b, "  %s: %s\n", strings.Join(g.items, "; "), g.text)
	}
	for _, c := range s.Contradictions {
		fmt.Fprintf(b, "  contradiction: %s\n", c)
	}
	fmt.Fprintf(b, "  %s\n\n", s.Summary())
}

// group is a text that several lines share.
type group struct {
	text  string
	items []string
}

// grouped lists the texts of lines once each, in their order.
func grouped(lines []Line, of func(*Line) string) (groups []group) {
	for i := range lines {
		text := of(&lines[i])
		if text == "" {
			continue
		}
		at := slices.IndexFunc(groups, func(g group) bool { return g.text == text })
		if at < 0 {
			at, groups = len(groups), append(groups, group{text: text})
		}
		groups[at].items = append(groups[at].items, lines[i].Item)
	}
	return groups
}

// references says where the figures in the column of references come from.
func (s *Section) references() (texts []string) {
	groups := grouped(s.Lines, func(l *Line) string { _, from := l.Target.Reference(); return from })
	for _, g := range groups {
		if len(groups) == 1 {
			return []string{"Reference: " + g.text + "."}
		}
		texts = append(texts, fmt.Sprintf("Reference of %s: %s.", strings.Join(g.items, "; "), g.text))
	}
	return texts
}

// writeTrimmed writes text without blanks at line ends.
func writeTrimmed(w io.Writer, text string) error {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
