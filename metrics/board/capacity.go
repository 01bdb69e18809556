package board

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// overK returns a cell's capacity in multiples of K, nil if it is unknown. It is the capacity in
// entries divided by K, in the unit of the trace's lists. That unit is the token if rows count
// demanded entries. Otherwise it is the trace's block, taken to be the row's. A capacity that is a
// multiple of K needs no unit.
func (c *cell) overK() *float64 {
	kind, x := result.CapacitySize(c.capacity)
	k := float64(c.sample.TopK)
	tokens := c.sample.DemandEntries != nil || c.sample.BlockTokens == 1
	if !tokens {
		k *= float64(c.sample.BlockTokens)
	}
	switch known := c.total.entriesKnown && c.total.streams > 0; {
	case kind == result.TimesK && !(known && tokens):
		return Number(x)
	case known:
		return Number(c.total.entriesSum / float64(c.total.streams) / k)
	}
	return nil
}

// entries returns the capacity of a stream in entries, nil if it is unknown.
func (c *cell) entries() *float64 {
	if !c.total.entriesKnown || c.total.streams == 0 {
		return nil
	}
	return Number(c.total.entriesSum / float64(c.total.streams))
}

// sizedTwice names the capacities of a trace that are one size under several names, such as "4x"
// and "1024" if K is 256. They are separate cells, and both count.
func (g *grid) sizedTwice() []string {
	type size struct {
		trace   string
		entries float64
	}
	names := map[size][]string{}
	for _, c := range g.list {
		if kind, _ := result.CapacitySize(c.capacity); kind != result.OtherForm && c.total.entriesKnown && c.total.streams > 0 {
			s := size{c.trace, c.total.entriesSum / float64(c.total.streams)}
			names[s] = result.SortCapacities(append(names[s], c.capacity))
		}
	}
	var notes []string
	for s, capacities := range names {
		if len(capacities) > 1 {
			notes = append(notes, fmt.Sprintf("%s: %s are the same capacity, %g entries, and count %d times. Leave one out with --where capacity!=%s",
				s.trace, strings.Join(capacities, " and "), s.entries, len(capacities), capacities[len(capacities)-1]))
		}
	}
	slices.Sort(notes)
	return notes
}
