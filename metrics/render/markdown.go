package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/metrics/board"
)

// Markdown writes the board as Markdown (GitHub's tables); perTrace adds a table
// per trace.
func Markdown(w io.Writer, b *board.Board, perTrace bool) error {
	var out strings.Builder
	out.WriteString("# " + b.Incomplete.Titled("Leaderboard") + "\n\n" + markdownOf(boardSections(b, perTrace)))
	if len(b.Footnotes) > 0 {
		out.WriteString("\n## Footnotes\n\n")
	}
	for i, text := range b.Footnotes {
		fmt.Fprintf(&out, "- %s\n", printable.Markdown(boardMarks(b).footnote(i+1, text)))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// markdownOf lays out titled tables with their notes as Markdown. A section may have no
// table.
func markdownOf(sections []section) string {
	var out strings.Builder
	for i, s := range sections {
		if i > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "## %s\n\n", printable.Markdown(s.title))
		if s.table != nil {
			out.WriteString(s.table.markdown())
		}
		for k, n := range s.notes {
			if k == 0 && s.table != nil {
				out.WriteString("\n")
			}
			fmt.Fprintf(&out, "- %s\n", printable.Markdown(n))
		}
	}
	return out.String()
}
