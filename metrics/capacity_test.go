package metrics

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// One size has one spelling, and that is its own; what is no size stays as it is.
func TestCapacityText(t *testing.T) {
	for want, spellings := range map[string][]string{
		"4x":                    {"4.0x", "4.00x", "04x", "0.4e1x"},
		"1.25x":                 {"1.250x"},
		"0.2ctx":                {".2ctx", "0.20ctx"},
		"1024":                  {"01024"},
		"1MiB":                  {"1.0MiB", "1024KiB", "1 MiB", "1048576B", "1,024KiB", "1miB"},
		"1.5GiB":                {"1536MiB"},
		"64KB":                  {"64kB", "0.064MB", "62.5KiB"},
		"1KB":                   {"1.000KB", "1000B"},
		"1234567B":              {"1.234567MB"},
		"1x+2x@64":              {"1.0x+2x@64", "1x+2.0x@064"},
		"8+9@3":                 {"08+9@3"},
		"peak:window:2":         nil,
		"peak:a:x+01":           nil,
		"peak:a:x=1.0":          nil,
		"plan:m@2.0x":           nil,
		"plan:a+b@2.0x":         nil,
		"":                      nil,
		"lots":                  nil,
		"x":                     nil,
		"-1.0x":                 nil,
		"Infx":                  nil,
		"18446744073709551615B": nil,
	} {
		for _, text := range append(spellings, want) {
			if got := CapacityText(text); got != want {
				t.Errorf("%q is spelled %q, want %q", text, got, want)
			}
		}
	}
}

// Rows that name one capacity in two ways are of one cell, and filters find it either way.
func TestReadRowsSpellsCapacities(t *testing.T) {
	written := []Row{row("a", "opt", "4.0x", 10), row("a", "opt", "4x", 10)}
	for form, write := range map[string]func(*bytes.Buffer) error{
		"JSON lines": func(b *bytes.Buffer) error { return WriteJSONL(b, written) },
		"CSV":        func(b *bytes.Buffer) error { return WriteCSV(b, written) },
	} {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			t.Fatal(err)
		}
		rows, err := DecodeRows(&text, form)
		if err != nil || len(rows) != 2 || *rows[0].Capacity != "4x" {
			t.Fatalf("%s: %v, %v", form, rows, err)
		}
		if b := mustBoard(t, rows); len(b.Cells) != 1 {
			t.Errorf("%s: %d cells, want 1", form, len(b.Cells))
		}
		w, err := ParseWhere([]string{"capacity=4.00x"})
		if err != nil {
			t.Fatal(err)
		}
		if found, err := w.Filter(rows); err != nil || len(found) != 2 {
			t.Errorf("%s: capacity=4.00x selects %d rows, %v", form, len(found), err)
		}
	}
}

// K counts what the trace lists, whatever the blocks of the replay.
func TestCapacityOverK(t *testing.T) {
	for name, c := range map[string]struct {
		capacity string
		entries  int64 // of a stream, of K = 10
		block    int
		tokens   bool // are listed
		want     float64
	}{
		"tokens in blocks of 16":               {"16x", 160, 16, true, 16},
		"tokens in blocks of 16, by entries":   {"160", 160, 16, true, 16},
		"a size that blocks do not divide":     {"1.25x", 12, 1, true, 1.2},
		"blocks of 16":                         {"2x", 320, 16, false, 2},
		"blocks of 16, by entries":             {"320", 320, 16, false, 2},
		"blocks of 4, replayed in those of 16": {"2x", 80, 16, false, 2},
	} {
		r := row("a", "opt", c.capacity, 10)
		r.CapacityEntries, r.BlockTokens = &c.entries, c.block
		if c.tokens {
			r.DemandEntries, r.MissedEntries = ptr(r.Demand), ptr(r.Misses)
		}
		got := mustBoard(t, []Row{r}).Cells[0].CapacityOverK
		if got == nil {
			t.Fatalf("%s: not known", name)
		}
		if *got != c.want {
			t.Errorf("%s: %g × K, want %g", name, *got, c.want)
		}
	}
}

// A multiple of K and an absolute size that come to the same are two cells, with a note.
func TestNoteOfOneSizeTwice(t *testing.T) {
	var rows []Row
	for _, capacity := range []string{"4x", "1024", "2x"} {
		for _, policy := range []string{"opt", "lru"} {
			r := row("a", policy, capacity, 10)
			entries := map[bool]int64{false: 1024, true: 512}[capacity == "2x"]
			r.CapacityEntries = &entries
			rows = append(rows, r)
		}
	}
	want := "a: 4x and 1024 are one capacity, of 1024 entries a stream, and it counts 2 times; drop one with --where capacity!=1024"
	b := mustBoard(t, rows)
	if !slices.Contains(b.Notes, want) {
		t.Errorf("notes %q, want %q among them", b.Notes, want)
	}
	if strings.Contains(strings.Join(b.Notes, " "), "2x and") || len(b.Tables[0].Capacities) != 3 {
		t.Errorf("capacities %v, notes %q", b.Tables[0].Capacities, b.Notes)
	}
}
