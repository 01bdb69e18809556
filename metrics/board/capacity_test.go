package board

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// Rows that spell one capacity in two ways are in one cell, and filters match both spellings.
func TestReadRowsSpellsCapacities(t *testing.T) {
	written := []result.Row{rowstest.Row("a", "opt", "4.0x", 10), rowstest.Row("a", "opt", "4x", 10)}
	for form, write := range map[string]func(*bytes.Buffer) error{
		"JSON lines": func(b *bytes.Buffer) error { return result.WriteJSONL(b, written) },
		"CSV":        func(b *bytes.Buffer) error { return result.WriteCSV(b, written) },
	} {
		var text bytes.Buffer
		fatal.If(t, write(&text))
		rows, err := result.DecodeRows(&text, form)
		if err != nil || len(rows) != 2 || *rows[0].Capacity != "4x" {
			t.Fatalf("%s: %v, %v", form, rows, err)
		}
		if b := mustBoard(t, rows); len(b.Cells) != 1 {
			t.Errorf("%s: %d cells, want 1", form, len(b.Cells))
		}
		w, err := result.ParseWhere([]string{"capacity=4.00x"})
		fatal.If(t, err)
		if found, err := w.Filter(rows); err != nil || len(found) != 2 {
			t.Errorf("%s: capacity=4.00x selects %d rows, %v", form, len(found), err)
		}
	}
}

// K counts the entries of the trace's lists, with any block size of the replay.
func TestCapacityOverK(t *testing.T) {
	for name, c := range map[string]struct {
		capacity string
		entries  int64 // of a stream, of K = 10
		block    int
		tokens   bool // whether the lists name tokens
		want     float64
	}{
		"tokens in blocks of 16":               {"16x", 160, 16, true, 16},
		"tokens in blocks of 16, by entries":   {"160", 160, 16, true, 16},
		"a size that blocks do not divide":     {"1.25x", 12, 1, true, 1.2},
		"blocks of 16":                         {"2x", 320, 16, false, 2},
		"blocks of 16, by entries":             {"320", 320, 16, false, 2},
		"blocks of 4, replayed in those of 16": {"2x", 80, 16, false, 2},
	} {
		r := rowstest.Row("a", "opt", c.capacity, 10)
		r.CapacityEntries, r.BlockTokens = &c.entries, c.block
		if c.tokens {
			r.DemandEntries, r.MissedEntries = rowstest.Ptr(r.Demand), rowstest.Ptr(r.Misses)
		}
		got := mustBoard(t, []result.Row{r}).Cells[0].CapacityOverK
		if got == nil {
			t.Fatalf("%s: not known", name)
		}
		if *got != c.want {
			t.Errorf("%s: %g × K, want %g", name, *got, c.want)
		}
	}
}

// A multiple of K and an equal absolute size are two cells, with a note.
func TestNoteOfOneSizeTwice(t *testing.T) {
	var rows []result.Row
	for _, capacity := range []string{"4x", "1024", "2x"} {
		for _, policy := range []string{"opt", "lru"} {
			r := rowstest.Row("a", policy, capacity, 10)
			entries := map[bool]int64{false: 1024, true: 512}[capacity == "2x"]
			r.CapacityEntries = &entries
			rows = append(rows, r)
		}
	}
	want := "a: 4x and 1024 are the same capacity, 1024 entries, and count 2 times. Leave one out with --where capacity!=1024"
	b := mustBoard(t, rows)
	if !slices.Contains(b.Notes, want) {
		t.Errorf("notes %q, want %q among them", b.Notes, want)
	}
	if strings.Contains(strings.Join(b.Notes, " "), "2x and") || len(b.Tables[0].Capacities) != 3 {
		t.Errorf("capacities %v, notes %q", b.Tables[0].Capacities, b.Notes)
	}
}
