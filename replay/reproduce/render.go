package reproduce

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/kvreplay/kvreplay/metrics/texttable"
)

var (
	lineHeader    = table.Row{"", "printed", "ours", "error", "gate", "status", "result"}
	summaryHeader = table.Row{"paper", "section", "judged", "within", "worst error", "known misses", "past", "fitted", "not reproducible"}
)

func (l *Line) row() table.Row {
	return table.Row{l.Item, l.printed(), l.ours(), l.err(), l.Gate.String(), l.Status, l.Verdict()}
}

func (s *Section) lines() table.Writer {
	t := texttable.New(lineHeader, 2, 3, 4)
	for i := range s.Lines {
		t.AppendRow(s.Lines[i].row())
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

// RenderTable writes the report for a terminal.
func (r *Report) RenderTable(w io.Writer) error {
	var b strings.Builder
	all := texttable.New(summaryHeader, 3, 4, 5, 6, 7, 8, 9)
	for _, p := range r.Papers {
		fmt.Fprintf(&b, "%s: %s\n\n", p.Name, p.Citation)
		for i := range p.Sections {
			s := &p.Sections[i]
			s.text(&b)
			all.AppendRow(s.sum(p.Name, s.Name))
		}
	}
	fmt.Fprintln(&b, all.Render())
	return writeTrimmed(w, b.String())
}

func (s *Section) text(b *strings.Builder) {
	fmt.Fprintf(b, "%s (%s)\n", s.Title, s.Name)
	fmt.Fprintf(b, "  %s\n", s.Method)
	for i := range s.Constants {
		fmt.Fprintf(b, "  constant: %s\n", s.Constants[i].text())
	}
	fmt.Fprintf(b, "%s\n", s.lines().Render())
	s.notes(b)
	for _, c := range s.Contradictions {
		fmt.Fprintf(b, "  contradiction: %s\n", c)
	}
	fmt.Fprintf(b, "  %s\n\n", s.Summary())
}

// notes writes each note once, after the lines that it is about.
func (s *Section) notes(b *strings.Builder) {
	items := map[string][]string{}
	var order []string
	for i := range s.Lines {
		l := &s.Lines[i]
		if l.Note != "" && items[l.Note] == nil {
			order = append(order, l.Note)
		}
		items[l.Note] = append(items[l.Note], l.Item)
	}
	for _, note := range order {
		fmt.Fprintf(b, "  %s: %s\n", strings.Join(items[note], "; "), note)
	}
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
