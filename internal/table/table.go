// Package table lays out tables of texts. A Table is filled once and rendered for a terminal,
// as Markdown, as HTML or as CSV. A Report is tables with titles, notes and footnotes.
//
// On a terminal a table, a title and a note are at most Columns wide. Headers break between words
// first, and then the texts of the widest columns. Figures, in columns aligned right, do not break.
// No text is shortened: a line is longer if a name leaves no other way.
package table

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Columns is the width of a terminal that texts fit into.
const Columns = 100

// Table is rows of texts under a header, with a title and notes.
type Table struct {
	Title string
	// Header names the columns. A table without one has no rule.
	Header []string
	// Notes are lines below the table.
	Notes []string

	rows  [][]string
	lines map[int]bool // rows that a rule follows
	right map[int]bool // columns aligned right
}

// New begins a table with a header.
func New(header ...string) *Table {
	return &Table{Header: header, lines: map[int]bool{}, right: map[int]bool{}}
}

// Right aligns columns, counted from 0, to the right.
func (t *Table) Right(columns ...int) *Table {
	for _, c := range columns {
		t.right[c] = true
	}
	return t
}

// RightFrom aligns the columns of the header from the n-th on, counted from 0, to the right.
func (t *Table) RightFrom(n int) *Table {
	for c := n; c < len(t.Header); c++ {
		t.right[c] = true
	}
	return t
}

// Add adds a row. Cells are texts, or values that fmt.Sprint turns into texts. A pointer to a number
// stands for the number. A nil pointer, and nil, is an empty cell.
func (t *Table) Add(cells ...any) { t.rows = append(t.rows, slice.Map(cells, textOf)) }

func textOf(cell any) string {
	switch v := cell.(type) {
	case nil:
		return ""
	case *float64:
		return orEmpty(v)
	case *int64:
		return orEmpty(v)
	case *int:
		return orEmpty(v)
	}
	return fmt.Sprint(cell)
}

func orEmpty[N int | int64 | float64](v *N) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

// NonZero is a cell that is empty for 0.
func NonZero[N int | float64](v N) any {
	if v == 0 {
		return nil
	}
	return v
}

// Figures lays out rows whose first column is text and whose others are figures.
func Figures(header []string, rows [][]string) string {
	t := New(header...).RightFrom(1)
	t.rows = rows
	return t.Text()
}

// AddTexts adds a row of texts.
func (t *Table) AddTexts(cells []string) { t.rows = append(t.rows, cells) }

// Line draws a rule between the rows before and those that follow. Markdown has no such rule.
func (t *Table) Line() { t.lines[len(t.rows)-1] = true }

// columns returns the number of columns.
func (t *Table) columns() int {
	n := len(t.Header)
	for _, row := range t.rows {
		n = max(n, len(row))
	}
	return n
}

// at returns the n-th text, "" behind the last.
func at(texts []string, n int) string {
	if n < len(texts) {
		return texts[n]
	}
	return ""
}

// Text renders the table for a terminal of Columns. No line ends with blanks.
func (t *Table) Text() string { return t.text(Columns) }

// text renders the table at most as wide as most, as far as words and figures allow it. Columns
// that do not fit follow below, next to the columns that name a row again. These are the columns
// before the first figure, or else two.
func (t *Table) text(most int) string {
	all := slice.Indices(t.columns())
	first := all[:min(len(all), 2)]
	if figure := slices.IndexFunc(all, func(c int) bool { return t.right[c] }); figure > 0 {
		first = all[:figure]
	}
	var parts []string
	for rest := all; ; {
		fit := len(rest)
		for fit > len(first)+1 && !t.only(rest[:fit]).fits(most) {
			fit--
		}
		part := t.only(rest[:fit])
		parts = append(parts, part.lay(part.rooms(most)))
		if fit == len(rest) {
			return strings.Join(parts, "\n")
		}
		rest = slices.Concat(first, rest[fit:])
	}
}

// only returns the table with some of its columns.
func (t *Table) only(columns []int) *Table {
	pick := func(row []string) []string {
		return slice.Map(columns, func(c int) string { return at(row, c) })
	}
	some := &Table{lines: t.lines, right: map[int]bool{}, rows: slice.Map(t.rows, pick)}
	if t.Header != nil {
		some.Header = pick(t.Header)
	}
	for i, c := range columns {
		some.right[i] = t.right[c]
	}
	return some
}

// fits reports whether the table can be as narrow as most.
func (t *Table) fits(most int) bool {
	return slice.Sum(t.rooms(most), func(room int) int { return room + 2 }) <= most
}

// lay renders the table with columns that are at most as wide as rooms.
func (t *Table) lay(rooms []int) string {
	widths := make([]int, len(rooms))
	layOut := func(row []string) [][]string { // the lines of each cell
		cells := make([][]string, len(rooms))
		for c, cell := range row {
			cells[c] = wrap(printable.Line(cell), rooms[c], pieces)
			widths[c] = max(widths[c], widestOf(cells[c]))
		}
		return cells
	}
	header, rows := layOut(t.Header), slice.Map(t.rows, layOut)
	var out strings.Builder
	rule := func() {
		out.WriteString(strings.Repeat("─", slice.Sum(widths, func(w int) int { return w + 2 })) + "\n")
	}
	write := func(cells [][]string) {
		for i := range max(1, len(slices.MaxFunc(cells, func(a, b []string) int { return len(a) - len(b) }))) {
			var line strings.Builder
			for c, lines := range cells {
				shown := at(lines, i)
				blanks := strings.Repeat(" ", widths[c]-width(shown))
				if t.right[c] {
					shown, blanks = blanks+shown, ""
				}
				line.WriteString(" " + shown + blanks + " ")
			}
			out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
	}
	if t.Header != nil {
		write(header)
		rule()
	}
	for i, cells := range rows {
		write(cells)
		if t.lines[i] && i+1 < len(rows) {
			rule()
		}
	}
	return out.String()
}

// rooms returns the width of each column in a table that is at most as wide as most. First it
// narrows columns that only their headers make wide, and then all, always the widest.
func (t *Table) rooms(most int) []int {
	n := t.columns()
	rooms, heads, least := make([]int, n), make([]int, n), make([]int, n)
	total := 2 * n
	for c := range n {
		head, cells := printable.Line(at(t.Header, c)), 0
		least[c] = widestOf(strings.Fields(head))
		heads[c] = least[c]
		for _, row := range t.rows {
			cell := printable.Line(at(row, c))
			cells = max(cells, width(cell))
			if t.right[c] {
				least[c] = max(least[c], width(cell))
			} else {
				least[c] = max(least[c], min(width(cell), proseRoom), widestOf(pieces(cell)))
			}
		}
		rooms[c], heads[c] = max(width(head), cells), max(heads[c], cells)
		total += rooms[c]
	}
	for _, floors := range [][]int{heads, least} {
		for ; total > most; total-- {
			widest := -1
			for c, room := range rooms {
				if room > floors[c] && (widest < 0 || room > rooms[widest]) {
					widest = c
				}
			}
			if widest < 0 {
				break
			}
			rooms[widest]--
		}
	}
	return rooms
}

// proseRoom is the width that the texts of a column have at least.
const proseRoom = 20

// breaks are the characters after which a word may break.
var breaks = strings.NewReplacer(",", ",\n", "|", "|\n", "/", "/\n", "_", "_\n")

// pieces splits a text where a cell may break: at blanks, and within words that are too wide.
func pieces(cell string) []string { return strings.Fields(breaks.Replace(cell)) }

// Wrap breaks a line between words if it is wider than most.
func Wrap(line string, most int) []string { return wrap(line, most, strings.Fields) }

// wrap breaks a line between words if it is wider than room, and between the pieces of a word if that
// is wider.
func wrap(line string, room int, pieces func(word string) []string) []string {
	if width(line) <= room {
		return []string{line}
	}
	var lines []string
	for _, word := range strings.Fields(line) {
		parts, glue := []string{word}, " "
		if width(word) > room {
			parts = pieces(word)
		}
		for _, part := range parts {
			if last := len(lines) - 1; last >= 0 && width(lines[last]+glue+part) <= room {
				lines[last] += glue + part
			} else {
				lines = append(lines, part)
			}
			glue = ""
		}
	}
	return lines
}

// widestOf returns the width of the widest text.
func widestOf(texts []string) (most int) {
	for _, s := range texts {
		most = max(most, width(s))
	}
	return most
}

// Markdown renders the table as GitHub's Markdown, without title and notes.
func (t *Table) Markdown() string { return t.markdown(printable.Cell) }

// RawMarkdown is Markdown for cells that contain Markdown. It escapes only bars and line ends.
func (t *Table) RawMarkdown() string { return t.markdown(func(s string) string { return s }) }

func (t *Table) markdown(escape func(string) string) string {
	var out strings.Builder
	n := t.columns()
	bars := strings.NewReplacer("|", `\|`, "\n", "<br/>")
	write := func(row []string) {
		for c := range n {
			out.WriteString("| " + bars.Replace(escape(strings.TrimRight(at(row, c), " "))) + " ")
		}
		out.WriteString("|\n")
	}
	if t.Header != nil {
		write(t.Header)
		for c := range n {
			out.WriteString(map[bool]string{true: "| ---:", false: "| --- "}[t.right[c]])
		}
		out.WriteString("|\n")
	}
	for _, row := range t.rows {
		write(row)
	}
	return out.String()
}

// HTML renders the table as an HTML table with its title as the caption, without notes.
func (t *Table) HTML() string {
	var out strings.Builder
	n := t.columns()
	write := func(tag string, row []string) {
		out.WriteString("<tr>")
		for c := range n {
			cell, class := printable.HTML(strings.TrimSpace(at(row, c))), ""
			if t.right[c] {
				class = ` class="right"`
			}
			out.WriteString("<" + tag + class + ">" + cell + "</" + tag[:2] + ">")
		}
		out.WriteString("</tr>\n")
	}
	out.WriteString("<table>\n<caption>" + printable.HTML(t.Title) + "</caption>\n")
	if t.Header != nil {
		out.WriteString("<thead>")
		write(`th scope="col"`, t.Header)
		out.WriteString("</thead>\n")
	}
	out.WriteString("<tbody>\n")
	for _, row := range t.rows {
		write("td", row)
	}
	out.WriteString("</tbody>\n</table>\n")
	return out.String()
}

// CSV writes the header and the rows. Spreadsheets show the cells without computing them.
func (t *Table) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	for _, row := range slices.Concat([][]string{t.Header}, t.rows) {
		if err := c.Write(printable.Record(slices.Clone(row))); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// Report is a sequence of tables.
type Report struct {
	// Title heads the Markdown document. A terminal does not show it.
	Title     string
	Tables    []*Table
	Footnotes []string
	// Wide lets tables and their titles be wider than Columns.
	Wide bool
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error {
	var out strings.Builder
	for i, t := range r.Tables {
		if i > 0 {
			out.WriteString("\n")
		}
		most := Columns
		if r.Wide {
			most = math.MaxInt
		}
		out.WriteString(strings.Join(Wrap(printable.Line(t.Title), most), "\n") + "\n" + t.text(most))
		for _, n := range t.Notes {
			for i, line := range Wrap(printable.Line(n), Columns-4) {
				out.WriteString(map[bool]string{true: "  ", false: "    "}[i == 0] + line + "\n")
			}
		}
	}
	for i, n := range r.Footnotes {
		if i == 0 {
			out.WriteString("\n")
		}
		out.WriteString(strings.Join(Wrap(printable.Line(n), Columns-2), "\n  ") + "\n")
	}
	_, err := io.WriteString(w, printable.Text(out.String()))
	return err
}

// Markdown writes the report as GitHub's Markdown.
func (r *Report) Markdown(w io.Writer) error {
	var out strings.Builder
	list := func(items []string) {
		for _, item := range items {
			out.WriteString("- " + printable.Markdown(item) + "\n")
		}
	}
	if r.Title != "" {
		out.WriteString("# " + r.Title + "\n\n")
	}
	for i, t := range r.Tables {
		if i > 0 {
			out.WriteString("\n")
		}
		out.WriteString("## " + printable.Markdown(t.Title) + "\n\n" + t.Markdown())
		if t.Header != nil && t.Notes != nil {
			out.WriteString("\n")
		}
		list(t.Notes)
	}
	if len(r.Footnotes) > 0 {
		out.WriteString("\n## Footnotes\n\n")
	}
	list(r.Footnotes)
	_, err := io.WriteString(w, out.String())
	return err
}

// cellWidth does not depend on the locale: ambiguous characters such as × are one cell wide.
var cellWidth = &runewidth.Condition{StrictEmojiNeutral: true}

// width returns the number of terminal cells of a line.
func width(line string) (n int) {
	for _, r := range line {
		n += cellWidth.RuneWidth(r)
	}
	return n
}
