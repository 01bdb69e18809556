package replay

import (
	"strings"
	"testing"
)

// A capacity that cannot be meant names its bound.
func TestCapacityBounds(t *testing.T) {
	for text, want := range map[string]string{
		"1073741825x":             `capacity "1073741825x": expected at most 1073741824`,
		"99999999999ctx":          "expected at most 1073741824",
		"1073741825":              "expected at most 1073741824",
		"99999999TiB":             `capacity "99999999TiB": expected less than 1 EiB a request`,
		"1EiB":                    "expected less than 1 EiB",
		"1e3":                     `capacity "1e3": entries are a whole number, as in 6400`,
		"1.5":                     "entries are a whole number",
		"1x+1073741825x@4":        `capacity "1073741825x": expected at most`,
		"1e30x":                   "expected a multiple of K",
		"99999999999999999999999": "expected at most 1073741824",
	} {
		if _, err := ParseCapacity(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"1073741824", "1073741824x", "2ctx", "1023PiB"} {
		if _, err := ParseCapacity(text); err != nil {
			t.Error(err)
		}
	}
}

// A capacity is that of the decimal as typed, floored: by hand.
func TestCapacityBlocks(t *testing.T) {
	bytes := 10
	s := sizing{topk: 100, blockTokens: 1, promptLen: 100, entryBytes: &bytes, streams: 3}
	for text, want := range map[string]int{
		"2.3x": 230, "1.15x": 115, "2.299x": 229, ".29x": 29, "0.001x": 1, "1x": 100,
		"0.29ctx": 29, "0.57ctx": 57, "0.1ctx": 10, "1ctx": 100,
		"230": 230, "1": 1, "100B": 3, "89B": 2, "1KB": 33, "1B": 1,
		"1073741824x": 1 << 30,
	} {
		c, err := ParseCapacity(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.blocks(s); err != nil || got != want {
			t.Errorf("%s is %d blocks, %v; want %d", text, got, err, want)
		}
		s.blockTokens = 8
		if got, err := c.blocks(s); err != nil || got != max(1, want/8) {
			t.Errorf("%s is %d blocks of 8, %v; want %d", text, got, err, max(1, want/8))
		}
		s.blockTokens = 1
	}
	for _, text := range []string{"1e1x", "0x10x", "0x1p4ctx", "1e3", "1_0x", "-1x", "NaNx", "Infctx", "x", "ctx", "", "0", "0x", "0.0ctx", "1.5", "1.5.2x"} {
		if c, err := ParseCapacity(text); err == nil {
			t.Errorf("capacity %q is read as %v", text, c)
		}
	}
}
