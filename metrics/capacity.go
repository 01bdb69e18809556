package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// peakPrefix starts the capacity text of LRU and OPT rows that were given the peak
// size of a policy without capacity: "peak:window:2".
const peakPrefix = "peak:"

// Forms of a capacity, in the order in which boards show them.
const (
	timesK = iota
	ofContext
	inEntries
	inBytes
	otherForm
)

// capacityUnits are how the forms are written.
var capacityUnits = []struct {
	suffix string
	kind   int
	scale  float64
}{
	{"ctx", ofContext, 1}, {"x", timesK, 1},
	{"TiB", inBytes, 1 << 40}, {"GiB", inBytes, 1 << 30}, {"MiB", inBytes, 1 << 20}, {"KiB", inBytes, 1 << 10},
	{"TB", inBytes, 1e12}, {"GB", inBytes, 1e9}, {"MB", inBytes, 1e6}, {"KB", inBytes, 1e3}, {"kB", inBytes, 1e3}, {"B", inBytes, 1},
	{"", inEntries, 1},
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
	return otherForm, 0
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
// entries ÷ K, which counts what the trace lists. Rows count demanded entries where that are
// tokens; else K counts the trace's blocks, which are taken to be the row's, unless the
// capacity itself is one of K.
func (c *cell) overK() *float64 {
	kind, x := capacitySize(c.capacity)
	k := float64(c.sample.TopK)
	tokens := c.sample.DemandEntries != nil || c.sample.BlockTokens == 1
	if !tokens {
		k *= float64(c.sample.BlockTokens)
	}
	switch known := c.total.entriesKnown && c.total.streams > 0; {
	case kind == timesK && !(known && tokens):
		return number(x)
	case known:
		return number(c.total.entriesSum / float64(c.total.streams) / k)
	}
	return nil
}

// sizedTwice names the capacities of a trace that are one size under several names: "4x"
// and "1024" where K is 256. They are cells of their own, and both count.
func (g *grid) sizedTwice() []string {
	type size struct {
		trace   string
		entries float64
	}
	names := map[size][]string{}
	for _, c := range g.list {
		if kind, _ := capacitySize(c.capacity); kind != otherForm && c.total.entriesKnown && c.total.streams > 0 {
			s := size{c.trace, c.total.entriesSum / float64(c.total.streams)}
			names[s] = sortCapacities(append(names[s], c.capacity))
		}
	}
	var notes []string
	for s, capacities := range names {
		if len(capacities) > 1 {
			notes = append(notes, fmt.Sprintf("%s: %s are one capacity, of %g entries a stream, and it counts %d times; drop one with --where capacity!=%s",
				s.trace, strings.Join(capacities, " and "), s.entries, len(capacities), capacities[len(capacities)-1]))
		}
	}
	slices.Sort(notes)
	return notes
}
