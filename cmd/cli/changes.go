package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/kvreplay/kvreplay/replay"
)

// changes counts the cells that a run replays although its folder has their setting, over
// all traces.
type changes struct {
	of      map[string]int // by policy, which takes other decisions now
	unnamed int            // kept without a fingerprint
}

func (c *changes) add(r *replay.Result) {
	if c.of == nil {
		c.of = map[string]int{}
	}
	for policy, cells := range r.Changed {
		c.of[policy] += cells
	}
	c.unnamed += r.Unnamed
}

// write prints a line for each policy that has changed.
func (c *changes) write(w io.Writer) {
	for _, policy := range slices.Sorted(maps.Keys(c.of)) {
		fmt.Fprintf(w, "kvreplay: %s changed since these cells were kept: %s replayed\n", policy, count(c.of[policy], "cell"))
	}
	if c.unnamed > 0 {
		fmt.Fprintf(w, "kvreplay: an earlier version kept these cells without policy fingerprints: %s replayed\n", count(c.unnamed, "cell"))
	}
}
