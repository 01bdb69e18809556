package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// Every rendering of an incomplete board says so in the title of every table.
func TestIncompleteTitles(t *testing.T) {
	rows := rowstest.RenderRows()
	incomplete := result.FindIncomplete([]result.Row{rows[0], rowstest.Row("z", "lru", "1x", 0)}, rows, result.Where{})
	b, err := board.NewBoard(rows, board.Options{Incomplete: incomplete})
	fatal.If(t, err)
	for i, s := range Board(b, everything).Tables {
		if !strings.HasPrefix(s.Title, "INCOMPLETE: 1 of 2 traces. ") {
			t.Errorf("section %d has title %q", i, s.Title)
		}
	}
	var csv bytes.Buffer
	fatal.If(t, CSV(&csv, b))
	for i, line := range strings.Split(strings.TrimSpace(csv.String()), "\n") {
		if want := map[bool]string{true: ",incomplete,", false: ",1 of 2 traces,"}[i == 0]; !strings.Contains(line, want) {
			t.Errorf("CSV line %d: %s", i, line)
		}
	}
}
