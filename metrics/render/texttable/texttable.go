// Package texttable is the look of the tables that commands print.
package texttable

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// New begins a table with a header; the columns of the given numbers, from 1, are
// figures and stand to the right.
func New(header table.Row, right ...int) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format = table.FormatOptions{Header: text.FormatDefault, Row: text.FormatDefault}
	style.Options = table.Options{SeparateHeader: true}
	t.SetStyle(style)
	var columns []table.ColumnConfig
	for _, number := range right {
		columns = append(columns, table.ColumnConfig{Number: number, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	t.AppendHeader(header)
	return t
}

// Figures lays out rows whose first column is text and whose others are figures. No line
// ends with spaces.
func Figures(header []string, rows [][]string) string {
	var right []int
	for i := range header[1:] {
		right = append(right, i+2)
	}
	t := New(rowOf(header), right...)
	for _, cells := range rows {
		t.AppendRow(rowOf(cells))
	}
	lines := strings.Split(t.Render(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func rowOf(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = c
	}
	return row
}
