package render

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// TestTooFewForLetters: one request fewer distinguishes no pair, with any counts.
func TestTooFewForLetters(t *testing.T) {
	rows := slices.DeleteFunc(rowstest.LetteredRows(), func(r result.Row) bool { return *r.RequestID == "r006" })
	b := mustBoard(t, rows)
	for _, l := range b.Tables[0].Ranked {
		if l.Letters != "" {
			t.Errorf("%s has the letters %s", l.Policy, l.Letters)
		}
	}
	rowstest.WantNote(t, b.Tables[0].Notes, "No letters: 3 pairs need 7 requests for a significant difference, n = 6")
	if text := renderAll(t, b); strings.Contains(text, "letters  ") {
		t.Errorf("an empty column of letters:\n%s", text)
	}
}
