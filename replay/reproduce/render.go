package reproduce

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
)

// FileName is the report in the folder that Write fills. figuresFolder is the folder of its
// figures.
const (
	FileName      = "REPRODUCTION.md"
	figuresFolder = "reproduction"
)

// printer writes a report for a terminal or as Markdown (GitHub's tables).
type printer struct {
	strings.Builder
	markdown bool
	figures  bool // the figures are next to the Markdown
	notes    bool // tables have the notes of lines, as in Markdown
}

// RenderTable writes the report for a terminal: the counts by kind and by paper, the papers, and
// the counts by section.
func (r *Report) RenderTable(w io.Writer) error {
	if page := r.page(); page != nil {
		return page.Render(w, &r.Papers[0], false)
	}
	p := &printer{}
	fmt.Fprintf(p, "%s\n\n%s\n%s", r.Headline(), r.byKind().Text(), r.byPaper().Text())
	if gaps := r.gaps(); gaps != "" {
		fmt.Fprintf(p, "\n%s\n", gaps)
	}
	for _, paper := range r.Papers {
		fmt.Fprintf(p, "\n%s: %s\n\n", paper.Name, paper.Citation)
		for i := range paper.Sections {
			p.section(&paper.Sections[i])
		}
		for _, g := range paper.Gaps {
			fmt.Fprintf(p, "  without a line: %s\n", g.text())
		}
	}
	fmt.Fprintf(p, "\n%s", r.bySection(p).Text())
	return p.flush(w)
}

const (
	markdownHead = `# Published figures, recomputed by kvreplay

Reference, printed by ` + "`kvreplay reproduce`" + `. [reproduce](reproduce/README.md) explains the method.

`
	markdownLegend = `- A *gate* is the largest error that passes. Each line of this document states its gate.
- A *known miss* is a figure past its gate, or a statement that does not hold, whose note gives the reason.
- A line *past* its gate has no known reason. One such line makes the command fail.
- *Printed* holds numbers as the paper prints them. *Reference* holds all other numbers to compare with. A line below the table states their origin.

`
	// The README shows the text between these marks.
	splitBegins, splitEnds = "<!-- split -->\n", "<!-- end of split -->\n"
)

// RenderMarkdown writes the report as Markdown. figures states whether the figures are next to it.
func (r *Report) RenderMarkdown(w io.Writer, figures bool) error {
	if page := r.page(); page != nil {
		return page.Render(w, &r.Papers[0], true)
	}
	p := &printer{markdown: true, figures: figures}
	fmt.Fprintf(p, "%s## Summary\n\n%s%s\n\n%s%s\n%s%s\n", markdownHead, splitBegins, r.Headline(),
		r.byKind().RawMarkdown(), splitEnds, markdownLegend, r.byPaper().RawMarkdown())
	if gaps := r.gaps(); gaps != "" {
		fmt.Fprintf(p, "%s Each paper's part of this document ends with their list.\n\n", gaps)
	}
	fmt.Fprintf(p, "## Sections\n\n%s", r.bySection(p).RawMarkdown())
	for _, paper := range r.Papers {
		fmt.Fprintf(p, "\n## %s\n\n%s\n", paper.Name, escape(paper.Citation))
		for i := range paper.Sections {
			fmt.Fprintf(p, "\n<a id=\"%s-%s\"></a>\n\n", paper.Name, paper.Sections[i].Name)
			p.section(&paper.Sections[i])
		}
		if len(paper.Gaps) == 0 {
			continue
		}
		t := table.New("place", "shows", "printed numbers", "why no line exists")
		for _, g := range paper.Gaps {
			t.AddTexts([]string{g.Place, escape(g.Shows), escape(strings.Join(g.Prints, ", ")), escape(g.Why)})
		}
		fmt.Fprintf(p, "\n### Figures of the paper without a line\n\n%s", t.RawMarkdown())
	}
	return p.flush(w)
}

// section writes a section. At a terminal, notes follow the table and the summary comes last.
func (p *printer) section(s *Section) {
	if p.markdown {
		fmt.Fprintf(p, "### %s\n\n%s\n", escape(s.Title), escape(s.Method))
	} else {
		fmt.Fprintf(p, "%s (%s)\n  %s\n", s.Title, s.Name, s.Method)
	}
	p.list("Assumptions", "assumption: ", s.Assumptions)
	p.list("Constants", "constant: ", s.constants())
	switch {
	case !p.markdown:
		p.WriteString(p.lines(s).Text())
	case len(s.Lines) > 0:
		p.WriteString("\n" + p.lines(s).RawMarkdown())
	}
	p.list("", "", s.references())
	if p.markdown {
		fmt.Fprintf(p, "\n%s.\n", s.Summary)
	} else {
		for _, g := range grouped(s.Lines, func(l *Line) string { return l.Note }) {
			fmt.Fprintf(p, "  %s: %s\n", strings.Join(g.items, "; "), g.text)
		}
	}
	p.list("Contradictions within the paper", "contradiction: ", s.Contradictions)
	if !p.markdown {
		fmt.Fprintf(p, "  %s\n\n", s.Summary)
	}
	for _, f := range s.Figures {
		if p.figures {
			fmt.Fprintf(p, "\n![%s](%s/%s.svg)\n", escape(f.Alt), figuresFolder, f.Name)
		}
	}
}

// Tables returns the report as tables: the counts by kind, paper and section, then the lines of each
// section with their method, assumptions, constants, origins and contradictions as notes.
func (r *Report) Tables() *table.Report {
	kinds, all, sections := r.byKind(), r.byPaper(), r.bySection(&printer{})
	kinds.Title, all.Title, sections.Title = "By kind", "By paper", "By section"
	report := &table.Report{Title: "Published figures, recomputed by kvreplay", Tables: []*table.Table{kinds, all, sections}}
	if gaps := r.gaps(); gaps != "" {
		report.Footnotes = append(report.Footnotes, gaps)
	}
	for _, paper := range r.Papers {
		report.Footnotes = append(report.Footnotes, paper.Name+": "+paper.Citation)
		for i := range paper.Sections {
			s := &paper.Sections[i]
			t := (&printer{notes: true}).lines(s)
			t.Title = paper.Name + ", " + s.Title
			t.Notes = slices.Concat([]string{s.Method}, labelled("Assumption: ", s.Assumptions), labelled("Constant: ", s.constants()),
				s.references(), labelled("Contradiction within the paper: ", s.Contradictions), []string{s.Summary.String() + "."})
			report.Tables = append(report.Tables, t)
		}
	}
	return report
}

// labelled returns items with a label before each.
func labelled(label string, items []string) []string {
	return slice.Map(items, func(item string) string { return label + item })
}

// constants states the constants of a section.
func (s *Section) constants() []string {
	return slice.Map(s.Constants, func(c Constant) string {
		return fmt.Sprintf("%s = %s (%s)", c.Name, numberText(c.Value, c.Unit, -1), c.From)
	})
}

// list writes items, in Markdown below a heading. Without a heading they are paragraphs.
func (p *printer) list(heading, label string, items []string) {
	for i, item := range items {
		switch {
		case !p.markdown:
			fmt.Fprintf(p, "  %s%s\n", label, item)
		case heading == "":
			fmt.Fprintf(p, "\n%s\n", escape(item))
		default:
			if i == 0 {
				fmt.Fprintf(p, "\n%s:\n\n", heading)
			}
			fmt.Fprintf(p, "- %s\n", escape(item))
		}
	}
}

// lines is the table of a section. It has a column of references if a line has one, and except at a
// terminal a column of notes if a line has one.
func (p *printer) lines(s *Section) *table.Table {
	references := slices.ContainsFunc(s.Lines, func(l Line) bool { return l.From != "" })
	notes := (p.markdown || p.notes) && slices.ContainsFunc(s.Lines, func(l Line) bool { return l.Note != "" })
	columns := func(all ...string) []string {
		if !notes {
			all = all[:len(all)-1]
		}
		if !references {
			all = slices.Delete(all, 2, 3)
		}
		return all
	}
	t := table.New(columns("", "printed", "reference", "ours", "error", "gate", "kind", "result", "note")...)
	t.Right(1, 2, 3)
	if references {
		t.Right(4)
	}
	for i := range s.Lines {
		l := &s.Lines[i]
		t.AddTexts(columns(p.text(l.Item), numberText(l.Printed, l.Unit, -1), numberText(l.Reference, l.Unit, -1),
			l.ours(), l.error(), l.gate(), string(l.Kind), string(l.Result), p.text(l.Note)))
	}
	return t
}

func (p *printer) text(text string) string {
	if p.markdown {
		return escape(text)
	}
	return text
}

// escape returns the text such that Markdown shows it unchanged.
func escape(s string) string {
	return strings.NewReplacer("\\", "\\\\", "*", "\\*", "_", "\\_", "`", "\\`", "<", "&lt;", "\n", " ").Replace(s)
}

// flush writes the text without blanks at line ends.
func (p *printer) flush(w io.Writer) error {
	var b strings.Builder
	for line := range strings.Lines(p.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// group is a text that several lines share.
type group struct {
	text  string
	items []string
}

// grouped lists the texts of lines once each, in their order.
func grouped(lines []Line, text func(*Line) string) (groups []group) {
	for i := range lines {
		shared := text(&lines[i])
		if shared == "" {
			continue
		}
		at := slices.IndexFunc(groups, func(g group) bool { return g.text == shared })
		if at < 0 {
			at, groups = len(groups), append(groups, group{text: shared})
		}
		groups[at].items = append(groups[at].items, lines[i].Item)
	}
	return groups
}

// references states the origin of the figures in the column of references.
func (s *Section) references() (texts []string) {
	groups := grouped(s.Lines, func(l *Line) string { return l.From })
	for _, g := range groups {
		if len(groups) == 1 {
			return []string{"Reference: " + g.text + "."}
		}
		texts = append(texts, fmt.Sprintf("Reference of %s: %s.", strings.Join(g.items, "; "), g.text))
	}
	return texts
}

func (r *Report) byKind() *table.Table {
	t := table.New("kind", "figures", "within", "known misses", "past", "meaning").Right(1, 2, 3, 4)
	for _, s := range split(r.lines()) {
		if s.Kind.Judged() {
			t.Add(s.Kind, s.Lines, s.Within, s.Known, s.Past, s.Meaning)
		} else {
			t.Add(s.Kind, s.Lines, text.None, text.None, text.None, s.Meaning)
		}
	}
	return t
}

// byPaper is the table of papers: their judged lines by kind, then the results.
func (r *Report) byPaper() *table.Table {
	header := []string{"paper"}
	for _, k := range kinds {
		header = append(header, string(k.kind))
	}
	t := table.New(append(header, "within", "known misses", "past")...).RightFrom(1)
	row := func(name string, lines []Line) {
		row := []any{name}
		for _, s := range split(lines) {
			row = append(row, s.Lines)
		}
		all := count(lines, nil)
		t.Add(append(row, all.Within, all.Known, all.Past)...)
	}
	for _, p := range r.Papers {
		row(p.Name, p.lines())
	}
	if len(r.Papers) > 1 {
		row("all", r.lines())
	}
	return t
}

// bySection is the table of sections, in Markdown with links to them.
func (r *Report) bySection(p *printer) *table.Table {
	t := table.New("paper", "section", "judged", "within", "worst error", "known misses", "past", "fitted",
		"not computable").RightFrom(2)
	for _, paper := range r.Papers {
		for _, s := range paper.Sections {
			name, n := s.Name, s.Summary
			if p.markdown {
				name = fmt.Sprintf("[%s](#%s-%s)", escape(s.Title), paper.Name, s.Name)
			}
			t.Add(paper.Name, name, n.Judged, n.Within, percent(n.Worst, false), n.Known, n.Past, n.Fitted, n.Absent)
		}
	}
	return t
}

// gaps states how much of each paper has no line.
func (r *Report) gaps() string {
	var parts []string
	for _, p := range r.Papers {
		prints := slice.Sum(p.Gaps, func(g Gap) int { return len(g.Prints) })
		if len(p.Gaps) > 0 {
			parts = append(parts, fmt.Sprintf("%d places of %s (%d printed numbers)", len(p.Gaps), p.Name, prints))
		}
	}
	if parts == nil {
		return ""
	}
	return "Not covered: " + strings.Join(parts, ", ") + "."
}

func (g *Gap) text() string {
	text := g.Place + ": " + g.Shows
	if len(g.Prints) > 0 {
		text += fmt.Sprintf(" (%d printed: %s)", len(g.Prints), strings.Join(g.Prints, ", "))
	}
	return text + ". " + strings.ToUpper(g.Why[:1]) + g.Why[1:] + "."
}

// numberText writes a number with its unit, rounded to a number of digits, or with −1 as it was printed.
func numberText(v Number, unit string, digits int) string {
	if math.IsNaN(float64(v)) {
		return text.None
	}
	text := plain(float64(v), digits)
	if unit != "" {
		text += " " + unit
	}
	return text
}

// plain formats a number rounded to a number of digits, without exponent up to 16 of them. −1 keeps
// the printed digits, at most 9 except for integers.
func plain(v float64, digits int) string {
	a := math.Abs(v)
	switch {
	case v == 0 || v == math.Trunc(v) && a < 1e16 && (digits < 0 || a >= 1e6):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a < 1e-4 || a >= 1e16:
		return strconv.FormatFloat(v, 'g', digits, 64)
	case digits < 0:
		if text := strconv.FormatFloat(v, 'f', -1, 64); len(text) <= 10 {
			return text
		}
		digits = 6
	}
	text := strconv.FormatFloat(v, 'f', max(0, digits-1-int(math.Floor(math.Log10(a)))), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

func percent(v Number, signed bool) string {
	format := "%.1f %%"
	switch a := math.Abs(float64(v)); {
	case math.IsNaN(a):
		return text.None
	case a < 5e-7:
		return "0"
	case a < 0.001:
		format = "%.4f %%"
	case a < 0.01:
		format = "%.2f %%"
	}
	if signed {
		format = "%+" + format[1:]
	}
	return fmt.Sprintf(format, 100*v)
}

// ours returns our figure to 5 digits. More would show the order of operations and a processor's
// fused multiplications.
func (l *Line) ours() string {
	if l.meets() {
		return numberText(Number(l.target()), l.Unit, -1)
	}
	return numberText(l.Ours, l.Unit, 5)
}

// meets reports whether ours equals the target up to floating-point rounding.
func (l *Line) meets() bool {
	return math.Abs(float64(l.Ours)-l.target()) <= 1e-9*math.Abs(l.target())
}

// error returns the error in the terms of the gate.
func (l *Line) error() string {
	switch d := float64(l.Ours) - l.target(); {
	case math.IsNaN(d) || l.Kind == Ordinal:
		return text.None
	case l.meets():
		return "0"
	case l.Absolute > 0 && !(l.Relative > 0) || l.target() == 0:
		return fmt.Sprintf("%+.2g", d)
	}
	return percent(l.Error, true)
}

// gate returns the largest error that passes, or "" if there is none.
func (l *Line) gate() string {
	var parts []string
	if l.Relative > 0 {
		parts = append(parts, "± "+plain(100*float64(l.Relative), 4)+" %")
	}
	if l.Absolute > 0 {
		parts = append(parts, "± "+plain(float64(l.Absolute), 4))
	}
	return strings.Join(parts, ", ")
}

// RenderCSV writes one line per row. An empty field is a missing figure.
func (r *Report) RenderCSV(w io.Writer) error {
	t := table.New("paper", "section", "item", "unit", "kind", "printed", "reference", "reference_from", "ours",
		"error", "gate_relative", "gate_absolute", "result", "note")
	for _, p := range r.Papers {
		for _, s := range p.Sections {
			for _, l := range s.Lines {
				t.Add(p.Name, s.Name, l.Item, l.Unit, l.Kind, l.Printed, l.Reference, l.From, l.Ours, l.Error,
					l.Relative, l.Absolute, l.Result, l.Note)
			}
		}
	}
	return t.CSV(w)
}

// RenderJSON writes the report as an object: the counts by kind and the papers. Figures appear by
// name.
func (r *Report) RenderJSON(w io.Writer) error {
	type paper struct {
		Paper    string    `json:"paper"`
		Citation string    `json:"citation"`
		Split    []Split   `json:"split"`
		Sections []Section `json:"sections"`
		Gaps     []Gap     `json:"without_line"`
	}
	report := struct {
		Headline string  `json:"headline"`
		Split    []Split `json:"split"`
		Papers   []paper `json:"papers"`
	}{r.Headline(), split(r.lines()), []paper{}}
	for _, p := range r.Papers {
		report.Papers = append(report.Papers, paper{p.Name, p.Citation, split(p.lines()), p.Sections, p.Gaps})
	}
	if err := text.WriteJSON(w, report); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// FileOf returns the file that Write writes for the report of some papers: REPRODUCTION.md, or the
// page of the only paper.
func FileOf(papers []Paper) string {
	if len(papers) == 1 && papers[0].Page != nil {
		return papers[0].Page.File
	}
	return FileName
}

// Write writes the report into a folder, and its figures into the folder reproduction there. Each
// file is written whole or not at all.
func (r *Report) Write(folder string) error {
	file := FileName
	if page := r.page(); page != nil {
		file = page.File
	}
	if err := Prepare(folder, file); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := r.RenderMarkdown(&text, true); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	all := map[string][]byte{file: text.Bytes()}
	for _, p := range r.Papers {
		for _, s := range p.Sections {
			for _, f := range s.Figures {
				all[filepath.Join(figuresFolder, f.Name+".svg")] = f.SVG
			}
		}
	}
	for name, text := range all {
		if err := files.Write(filepath.Join(folder, name), text); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	return nil
}

// Prepare makes the folders that Write fills for a report with this file name. It returns an error
// before any work if a report cannot be written there.
func Prepare(folder, file string) error {
	made, paths := folder, []string{filepath.Join(folder, file)}
	if file == FileName { // pages have no figures
		made = filepath.Join(folder, figuresFolder)
		paths = append(paths, filepath.Join(made, "any.svg"))
	}
	if err := files.MakeFolder(made); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	for _, path := range paths {
		if err := files.Check(path); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	return nil
}
