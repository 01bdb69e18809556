package metrics

import (
	"fmt"
	"io"
	"strings"

	"github.com/kvreplay/kvreplay/trace/printable"
)

// RenderTable writes the board for a terminal; perTrace adds a table per trace.
func (b *Board) RenderTable(w io.Writer, perTrace bool) error {
	var out strings.Builder
	for i, s := range b.sections(perTrace) {
		if i > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "%s\n%s", s.title, s.table.text())
		for _, n := range s.notes {
			fmt.Fprintf(&out, "  %s\n", n)
		}
	}
	for i, text := range b.Footnotes {
		if i == 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "%s\n", b.marks().footnote(i+1, text))
	}
	_, err := io.WriteString(w, printable.Text(out.String()))
	return err
}
