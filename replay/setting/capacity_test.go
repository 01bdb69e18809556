package setting

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/decimal"
)

// The error for an impossible capacity names the bound.
func TestCapacityBounds(t *testing.T) {
	tiny := "0." + strings.Repeat("0", 400) + "1x" // no float has this value
	for text, want := range map[string]string{
		"1073741825x":             `capacity "1073741825x": expected at most 1073741824`,
		"99999999999ctx":          "expected at most 1073741824",
		"1073741825":              "expected at most 1073741824",
		"99999999TiB":             `capacity "99999999TiB": expected less than 1 EiB a request`,
		"1EiB":                    "expected less than 1 EiB",
		"1e3":                     `capacity "1e3": expected a whole number of entries, as in 6400`,
		"1.5":                     "expected a whole number",
		"1x+1073741825x@4":        `capacity "1073741825x": expected at most`,
		"1e30x":                   "expected 1.5x (× K)",
		tiny:                      "expected 1.5x (× K)",
		"99999999999999999999999": "expected at most 1073741824",
	} {
		if _, err := ParseCapacity(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"1073741824", "1073741824x", "2ctx", "1023PiB", "0.0001ZB", ".5KiB", "1,000 kB", "010x", "1KB+0.0001ZB@3", "1x+1.5x@064"} {
		if c, err := ParseCapacity(text); err != nil || !result.KnownCapacity(c.String()) {
			t.Errorf("%s: %v, %v: expected a text for rows", text, c, err)
		}
	}
}

// A capacity is the floor of the exact typed decimal, by hand.
func TestCapacityBlocks(t *testing.T) {
	bytes := 10
	s := Sizing{TopK: 100, BlockTokens: 1, PromptLen: 100, EntryBytes: &bytes, Streams: 3}
	for text, want := range map[string]int{
		"2.3x": 230, "1.15x": 115, "2.299x": 229, ".29x": 29, "0.001x": 1, "1x": 100,
		"0.29ctx": 29, "0.57ctx": 57, "0.1ctx": 10, "1ctx": 100,
		"230": 230, "1": 1, "100B": 3, "89B": 2, "1KB": 33, "1B": 1,
		"1073741824x": 1 << 30,
	} {
		c, err := ParseCapacity(text)
		fatal.If(t, err)
		if got, err := c.Blocks(s); err != nil || got != want {
			t.Errorf("%s is %d blocks, %v; want %d", text, got, err, want)
		}
		s.BlockTokens = 8
		if got, err := c.Blocks(s); err != nil || got != max(1, want/8) {
			t.Errorf("%s is %d blocks of 8, %v; want %d", text, got, err, max(1, want/8))
		}
		s.BlockTokens = 1
	}
	for _, text := range []string{"1e1x", "0x10x", "0x1p4ctx", "1e3", "1_0x", "-1x", "NaNx", "Infctx", "x", "ctx", "", "0", "0x", "0.0ctx", "1.5", "1.5.2x"} {
		if c, err := ParseCapacity(text); err == nil {
			t.Errorf("capacity %q is read as %v", text, c)
		}
	}
}

func textsOf(list []Capacity) (texts []string) {
	for _, c := range list {
		texts = append(texts, c.String())
	}
	return texts
}

func TestParseCapacities(t *testing.T) {
	for text, want := range map[string]string{
		"sweep:4":          "1x 2x 4x 8x",
		"sweep:8":          "1x 1.5x 2x 3x 4x 6x 8x 12x",
		"sweep:10":         "1x 1.4x 1.8x 2.4x 3.2x 4x 5.6x 7.2x 9.6x 12.8x",
		"2x, sweep:4 ,16x": "2x 1x 4x 8x 16x",
		"peak:window:2":    "peak:window:2",

		"1.25x,4x,4.0x,4.00x,1024":          "1.25x 4x 1024",
		"1MiB,1024KiB,1x+2x@64,1.0x+2x@064": "1MiB 1x+2x@64",
	} {
		got, err := ParseCapacities(strings.Split(text, ","))
		if err != nil || strings.Join(textsOf(got), " ") != want {
			t.Errorf("%s: %v, %v, want %s", text, textsOf(got), err, want)
		}
	}
	for _, text := range []string{"sweep:0", "sweep:", "sweep:-1", "sweep:1025", "sweep:x", "sweeps"} {
		if got, err := ParseCapacities([]string{text}); err == nil {
			t.Errorf("%s: %v, want an error", text, textsOf(got))
		}
	}
	if _, err := ParseCapacity("+5"); err == nil || !strings.HasPrefix(err.Error(), `capacity "+5": expected `) {
		t.Errorf("+5: %v", err)
	}
}

// The texts of every grid parse back, ascend, and include the capacities that tables show.
func TestSweepGrid(t *testing.T) {
	for _, n := range []int{1, 7, SweepPoints, 100, maxSweepPoints} {
		var last decimal.Number
		for _, text := range SweepGrid(n) {
			c, err := ParseCapacity(text)
			if err != nil || c.value.Compare(last) <= 0 || c.value.Compare(decimal.Int(1)) < 0 || c.value.Compare(decimal.Int(16)) >= 0 {
				t.Fatalf("grid of %d: %s after %v: %v", n, text, last, err)
			}
			last = c.value
		}
	}
	texts := SweepGrid(SweepPoints)
	for _, want := range []string{"1x", "1.0625x", "1.5x", "2x", "3x", "4x", "8x", "15.5x"} {
		if !slices.Contains(texts, want) {
			t.Errorf("sweep has no %s: %v", want, texts)
		}
	}
}
