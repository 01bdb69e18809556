package render

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/metrics/board"
)

// textTable is a table of texts: the terminal and Markdown show the same ones, Markdown
// escaped.
type textTable struct {
	writer, escaped table.Writer
	columns         int
}

func newTable(header ...string) *textTable {
	t := &textTable{table.NewWriter(), table.NewWriter(), len(header)}
	style := table.StyleLight
	style.Format = table.FormatOptions{Header: text.FormatDefault, Footer: text.FormatDefault, Row: text.FormatDefault}
	style.Options = table.Options{SeparateHeader: true}
	t.writer.SetStyle(style)
	t.writer.AppendHeader(rowOf(header))
	t.escaped.AppendHeader(escapedRow(header))
	return t
}

func rowOf(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = printable.Line(c)
	}
	return row
}

// escapedRow is rowOf for Markdown.
func escapedRow(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = printable.Cell(strings.TrimRight(c, " "))
	}
	return row
}

// rightFrom aligns columns to the right from the n-th on, counted from 0.
func (t *textTable) rightFrom(n int) {
	var configs []table.ColumnConfig
	for i := n; i < t.columns; i++ {
		configs = append(configs, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.writer.SetColumnConfigs(configs)
	t.escaped.SetColumnConfigs(configs)
}

func (t *textTable) add(cells ...string) {
	t.writer.AppendRow(rowOf(cells))
	t.escaped.AppendRow(escapedRow(cells))
}

// line separates what follows; Markdown has no such line.
func (t *textTable) line() { t.writer.AppendSeparator() }

// text renders for a terminal, without spaces at line ends.
func (t *textTable) text() string {
	lines := strings.Split(t.writer.Render(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func (t *textTable) markdown() string { return t.escaped.RenderMarkdown() + "\n" }

// notAvailable stands where a figure cannot be computed.
const notAvailable = "n/a"

// times shows a ratio.
func times(f *board.Figure) string {
	if f == nil {
		return notAvailable
	}
	return ratioUnit.text(f)
}

// timesWithInterval is "1.23 [1.20, 1.27]".
func timesWithInterval(f *board.Figure) string {
	if f == nil || f.Low == nil {
		return times(f)
	}
	return strings.TrimSpace(times(f) + " " + ratioUnit.interval(f))
}

// percentFigure shows a share in percent.
func percentFigure(f *board.Figure) string { return percentUnit.percent(f) }

func percent(x float64) string {
	if x != x {
		return notAvailable
	}
	return threeDigits(100*x) + " %"
}

// bytesText shows bytes with three digits and a binary unit.
func bytesText(b *float64) string {
	if b == nil {
		return notAvailable
	}
	x := *b
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if x < 999.5 { // 1000 B have four digits
			return threeDigits(x) + " " + unit
		}
		x /= 1024
	}
	return threeDigits(x) + " TiB"
}
