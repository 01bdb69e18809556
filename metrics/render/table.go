// Package render prints result rows, boards and comparisons: tables for a terminal,
// Markdown, CSV, JSON, and curves as SVG. It computes no statistic.
package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/metrics/board"
)

// Table writes the board for a terminal; perTrace adds a table per trace.
func Table(w io.Writer, b *board.Board, perTrace bool) error {
	var out strings.Builder
	out.WriteString(textOf(boardSections(b, perTrace)))
	for i, text := range b.Footnotes {
		if i == 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "%s\n", printable.Line(boardMarks(b).footnote(i+1, text)))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// textOf lays out titled tables with their notes for a terminal. A section may have no
// table.
func textOf(sections []section) string {
	var out strings.Builder
	for i, s := range sections {
		if i > 0 {
			out.WriteString("\n")
		}
		out.WriteString(printable.Line(s.title) + "\n")
		if s.table != nil {
			out.WriteString(s.table.text())
		}
		for _, n := range s.notes {
			fmt.Fprintf(&out, "  %s\n", printable.Line(n))
		}
	}
	return printable.Text(out.String())
}
