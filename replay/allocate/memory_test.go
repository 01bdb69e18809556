package allocate

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// With K = 4, two streams per request and 10 B per entry, Memory equals replay's sum over both.
func TestMemory(t *testing.T) {
	rows := twoRequests()
	for i := range rows { // 0.5ctx was replayed: 9 entries for request a, 14 for b
		r := rowOf(*rows[i].RequestID, *rows[i].LayerID, -1, map[string]int64{"a": 9, "b": 14}[*rows[i].RequestID], 20)
		text := "0.5ctx"
		r.Capacity = &text
		rows = append(rows, r)
	}
	p := pool(t, rows, "")
	for text, want := range map[string]int64{"1x": 8, "1.5x": 12, "1.3x": 10, "0.01x": 2, "7": 14, "200B": 20, "1KB": 100, "1KiB": 102, "0.5ctx": 23, "0.50ctx": 23} {
		if got, err := p.Memory(text); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{"": "expected a multiple of K", "x": "expected", "-1x": "expected", "0": "expected", "NaNx": "expected", "0B": "expected",
		"9999999999x": "expected at most 1073741824", "1073741825": "expected at most 1073741824", "99999999TiB": "less than 1 EiB", "1.5": "expected a multiple of K",
		"window:": "expected", "window:1": "add --policy window", "1e1x": "expected a multiple of K", "0x1p4x": "expected a multiple of K", "0.2ctx": "replay with --capacity sweep,0.2ctx", "peak:window:2": "expected"} {
		if got, err := p.Memory(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d, %v, want %q", text, got, err, want)
		}
	}
	for i, request := range []string{"a", "b", "b"} { // 0.7ctx was not replayed for layer 0 of request a
		r := rowOf(request, int32(1-i%2), -1, 12, 20)
		text := "0.7ctx"
		r.Capacity = &text
		rows = append(rows, r)
	}
	if got, err := pool(t, rows, "").Memory("0.7ctx"); err == nil {
		t.Errorf("0.7ctx of three of four streams: %d, want an error", got)
	}
	p.SharedHeads = 4 // an entry of a cache that four heads share takes 40 B
	if got, err := p.Memory("1KB"); err != nil || got != 24 {
		t.Errorf("1KB with shared heads: %d, %v, want 12 for each of two streams", got, err)
	}
	p.SharedHeads, p.Unit = 1, 16
	for text, want := range map[string]int64{"1KB": 96, "319B": 32, "10KB": 992} { // blocks of 16: 3, 1 and 31 per stream
		if got, err := p.Memory(text); err != nil || got != want {
			t.Errorf("%s in whole blocks: %d, %v, want %d", text, got, err, want)
		}
	}
	p.EntryBytes = nil
	if _, err := p.Memory("1KiB"); err == nil || !strings.Contains(err.Error(), "--entry-bytes") {
		t.Errorf("bytes without bytes: %v", err)
	}
}

// With K = 100, sizes follow the typed decimals exactly.
func TestMemoryOfDecimals(t *testing.T) {
	p := &Profile{Problem: Problem{Family: Capacities, Unit: 1, Curves: make([]Curve, 3)}, kEntries: 100}
	for text, want := range map[string]int64{"2.3x": 690, "1.15x": 345, "0.29x": 87, "2.299x": 687} {
		if got, err := p.Memory(text); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
		if got, err := p.Floor(text); err != nil || int64(got) != want/3 {
			t.Errorf("floor %s: %d, %v, want %d", text, got, err, want/3)
		}
	}
}

func TestFloor(t *testing.T) {
	p := pool(t, twoRequests(), "")
	for text, want := range map[string]int{"": 4, "1x": 4, "1.5x": 6, "7": 7} {
		if got, err := p.Floor(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"window:1", "1KiB", "0.2ctx", "much"} {
		if got, err := p.Floor(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
	rows := twoRequests()
	rows[1].Overflow = 3 // request a, layer 0, at 6 entries
	if got, err := pool(t, rows, "").Floor(""); err != nil || got != 8 {
		t.Errorf("with overflow at 6: %d, %v, want 8", got, err)
	}
	rows[2].Overflow = 1 // and at 8 entries, the largest size
	if got, err := pool(t, rows, "").Floor(""); err != nil || got != 8 {
		t.Errorf("with overflow at 8: %d, %v, want 8", got, err)
	}
	// Sizes below K are not a floor, and K is in whole blocks.
	half := append(twoRequests(), rowOf("a", 0, -1, 2, 95), rowOf("a", 1, -1, 2, 95), rowOf("b", 0, -1, 2, 95), rowOf("b", 1, -1, 2, 95))
	if got, err := pool(t, half, "").Floor(""); err != nil || got != 4 {
		t.Errorf("with sizes from 2: %d, %v, want K = 4", got, err)
	}
	windows := pool(t, []result.Row{windowRow("a", 0, 1, 9, 5, 1), windowRow("a", 0, 2, 5, 10, 2)}, "")
	for text, want := range map[string]int{"": 1, "window:2": 2} {
		if got, err := windows.Floor(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	if _, err := windows.Floor("1x"); err == nil {
		t.Error("floor of windows in entries, no error")
	}
	if got, err := windows.Memory("window:2"); err != nil || got != 2 {
		t.Errorf("window:2: %d, %v, want 2", got, err)
	}
}

// If blocks of 8 tokens are made from a trace of tokens, 1x is K tokens. If the trace has blocks of
// 8, 1x is K blocks. Rows with only one capacity in K may leave both open.
func TestEntriesOfK(t *testing.T) {
	rows := func(sizes map[string]int64) (rows []result.Row) {
		for text, entries := range sizes {
			for layer := range int32(2) {
				r := rowOf("a", layer, -1, entries, 100-entries/8)
				r.Capacity, r.TopK, r.BlockTokens = &text, 256, 8
				rows = append(rows, r)
			}
		}
		return rows
	}
	for want, sizes := range map[int]map[string]int64{256: {"1x": 256, "1.0625x": 272}, 2048: {"1x": 2048, "2x": 4096}, 0: {"300": 296, "600": 600}} {
		if p := pool(t, rows(sizes), ""); p.kEntries != want {
			t.Errorf("%v: 1x is %d entries, want %d", sizes, p.kEntries, want)
		}
	}
	p := pool(t, rows(map[string]int64{"300": 296, "600": 600}), "")
	if _, err := p.Memory("2x"); err == nil || !strings.Contains(err.Error(), "needs the prompt's length or the list's unit") {
		t.Errorf("2x of unknown K: %v", err)
	}
	if floor, err := p.Floor(""); err != nil || floor != 296 {
		t.Errorf("floor %d, %v, want the smallest size", floor, err)
	}
}
