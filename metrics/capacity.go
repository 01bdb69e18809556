package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// peakPrefix starts the capacity text of LRU and OPT rows that were given the peak
// size of a policy without capacity: "peak:window:2".
const peakPrefix = "peak:"

// capacityUnits are the forms of a capacity, in the order in which boards show them:
// multiples of K, shares of the context, entries, bytes.
var capacityUnits = []struct {
	suffix string
	kind   int
	scale  float64
}{
	{"ctx", 1, 1}, {"x", 0, 1},
	{"TiB", 3, 1 << 40}, {"GiB", 3, 1 << 30}, {"MiB", 3, 1 << 20}, {"KiB", 3, 1 << 10},
	{"TB", 3, 1e12}, {"GB", 3, 1e9}, {"MB", 3, 1e6}, {"KB", 3, 1e3}, {"kB", 3, 1e3}, {"B", 3, 1},
	{"", 2, 1},
}

// capacitySize reads a capacity's kind and size for ordering; texts of no known form
// come last.
func capacitySize(text string) (kind int, size float64) {
	for _, u := range capacityUnits {
		if digits, ok := strings.CutSuffix(text, u.suffix); ok {
			if x, err := strconv.ParseFloat(digits, 64); err == nil {
				return u.kind, x * u.scale
			}
		}
	}
	return 4, 0
}

func compareCapacity(a, b string) int {
	ka, xa := capacitySize(a)
	kb, xb := capacitySize(b)
	return cmp.Or(cmp.Compare(ka, kb), cmp.Compare(xa, xb), strings.Compare(a, b))
}

// sortCapacities sorts by size within a form and drops repeats.
func sortCapacities(texts []string) []string {
	slices.SortFunc(texts, compareCapacity)
	return slices.Compact(texts)
}

// overK is a cell's capacity in multiples of K, nil where it is not known: capacity in
// entries (tokens) ÷ (K blocks × tokens of a block).
func (c *cell) overK() *float64 {
	if c.total.entriesKnown && c.total.streams > 0 {
		perStream := c.total.entriesSum / float64(c.total.streams)
		return number(perStream / float64(c.sample.TopK*c.sample.BlockTokens))
	}
	if kind, x := capacitySize(c.capacity); kind == 0 {
		return number(x)
	}
	return nil
}
