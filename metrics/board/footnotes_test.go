package board

import (
	"strings"
	"testing"
)

func TestMergeNotes(t *testing.T) {
	footnotes, of := MergeNotes([]string{"by 9 of 40", "by 11 of 40", "cold", "cold"})
	if len(footnotes) != 2 || footnotes[0] != "by 9–11 of 40" || of["by 11 of 40"] != footnotes[0] || of["cold"] != "cold" {
		t.Errorf("footnotes %q, %v", footnotes, of)
	}
}

// A decimal is one number. The ends of a range are the least and the largest number.
func TestMergedNotesKeepDecimals(t *testing.T) {
	footnotes, _ := MergeNotes([]string{"recall 0.15 of it", "recall 0.9 of it", "recall 1 of it", "12 of 9.5", "9 of 9.5"})
	if got, want := strings.Join(footnotes, "|"), "9–12 of 9.5|recall 0.15–1 of it"; got != want {
		t.Errorf("footnotes %q, want %q", got, want)
	}
}
