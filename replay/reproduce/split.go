package reproduce

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/kvreplay/kvreplay/metrics/render/texttable"
)

// Split is how many lines of one kind a report has, and their results. Fitted lines and
// lines that are not computable have no result: they are not judged.
type Split struct {
	Kind    Kind   `json:"kind"`
	Meaning string `json:"meaning"`
	Lines   int    `json:"lines"`
	Within  int    `json:"within"`
	Known   int    `json:"known_misses"`
	Past    int    `json:"past_gate"`
}

// Split counts the lines of the report by kind, from the kind that proves most to the one
// that proves least.
func (r *Report) Split() []Split { return split(r.sections()) }

func split(sections []Section) (list []Split) {
	for _, d := range kinds {
		n := count(sections, func(l *Line) bool { return l.Kind == d.kind })
		list = append(list, Split{d.kind, d.meaning, n.Judged + n.Fitted + n.Absent, n.Within, n.Known, n.Past})
	}
	return list
}

// Headline states how many figures are judged, with which results, and what they prove.
func (r *Report) Headline() string {
	all := count(r.sections(), func(*Line) bool { return true })
	var parts []string
	for _, s := range r.Split() {
		if s.Kind.Judged() {
			parts = append(parts, fmt.Sprintf("%d %s", s.Lines, s.Kind))
		}
	}
	return fmt.Sprintf("%d figures and statements are judged: %d within their gates, %d past them for a known reason, %d past them without one. By kind: %s. Not judged: %d fitted, %d not computable.",
		all.Judged, all.Within, all.Known, all.Past, strings.Join(parts, ", "), all.Fitted, all.Absent)
}

// byKind is the table of kinds.
func (r *Report) byKind() table.Writer {
	t := texttable.New(table.Row{"kind", "figures", "within", "known misses", "past", "meaning"}, 2, 3, 4, 5)
	for _, s := range r.Split() {
		if !s.Kind.Judged() {
			t.AppendRow(table.Row{s.Kind, s.Lines, none, none, none, s.Meaning})
			continue
		}
		t.AppendRow(table.Row{s.Kind, s.Lines, s.Within, s.Known, s.Past, s.Meaning})
	}
	return t
}

// byPaper is the table of papers: their judged lines by kind, then the results.
func (r *Report) byPaper() table.Writer {
	header := table.Row{"paper"}
	for _, d := range kinds {
		header = append(header, d.kind)
	}
	t := texttable.New(append(header, "within", "known misses", "past"), 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
	row := func(name string, sections []Section) {
		row := table.Row{name}
		for _, s := range split(sections) {
			row = append(row, s.Lines)
		}
		all := count(sections, func(*Line) bool { return true })
		t.AppendRow(append(row, all.Within, all.Known, all.Past))
	}
	for _, p := range r.Papers {
		row(p.Name, p.Sections)
	}
	if len(r.Papers) > 1 {
		row("all", r.sections())
	}
	return t
}

// gaps states how much of each paper has no line.
func (r *Report) gaps() string {
	var parts []string
	for _, p := range r.Papers {
		if len(p.Gaps) > 0 {
			parts = append(parts, fmt.Sprintf("%s %d places with %d printed numbers", p.Name, len(p.Gaps), printed(p.Gaps)))
		}
	}
	if parts == nil {
		return ""
	}
	return "Without a line: " + strings.Join(parts, ", ") + "."
}
