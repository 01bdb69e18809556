package replay

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/policies"
)

// settleOutliers checks the outliers against the trace.
func (p *plan) settleOutliers() error {
	selector, _, _ := strings.Cut(p.meta.Selector, ":")
	if p.opt.Outliers.Source == OutliersUnlisted && selector != "shadowkv" {
		p.warn = append(p.warn, fmt.Sprintf("outliers %v: only shadowkv is known to keep blocks that no list names, the trace's selector is %q", p.opt.Outliers, p.meta.Selector))
	}
	if p.opt.Outliers.Source != OutliersWindows {
		return nil
	}
	if selector == "shadowkv" {
		return fmt.Errorf("outliers %v: the trace was selected by ShadowKV, whose lists leave its own outliers out (unlisted:N counts their memory)", p.opt.Outliers)
	}
	for i := range p.streams {
		if s := p.selected(i); s.Windows == 0 {
			return fmt.Errorf("outliers %v need prompt windows (steps below 0), %v has none", p.opt.Outliers, s.Key)
		}
	}
	return nil
}

// keepOutliers chooses the blocks that are pinned for good; lists that break a rule are
// refused later.
func (d *Delta) keepOutliers(o Outliers, free, local int) {
	d.kept, d.unlisted = d.kept[:0], 0
	if o.Source == OutliersUnlisted {
		d.unlisted = o.Count
	}
	if o.Source != OutliersWindows {
		return
	}
	demanded := make([]int32, d.Blocks) // windows that demand each block
	for row := range d.stream.Windows {
		list, local := d.stream.List(row), min(local, d.pins.firstLocal(d.stream.SeqLen(row)), d.Blocks)
		for _, x := range list[:d.prefix(row, list)] {
			if int(x) >= free && int(x) < local {
				demanded[x]++
			}
		}
	}
	var blocks []int32
	for x, n := range demanded {
		if n > 0 {
			blocks = append(blocks, int32(x))
		}
	}
	slices.SortStableFunc(blocks, func(a, b int32) int { return int(demanded[b] - demanded[a]) })
	d.kept = policies.Fill(d.kept, d.Blocks>>6+1, 0)
	mark(d.kept, blocks[:min(o.Count, len(blocks))])
}

// isKept reports whether x is an outlier.
func (d *Delta) isKept(x int32) bool {
	return len(d.kept) > 0 && d.kept[x>>6]>>(x&63)&1 == 1
}

// unpinKept clears the outliers of a set and returns how many it cleared.
func (d *Delta) unpinKept(set []uint64) (cleared int) {
	for w, kept := range d.kept {
		cleared += bits.OnesCount64(set[w] & kept)
		set[w] &^= kept
	}
	return cleared
}

// pinnedBlocks is how many blocks are pinned at row i: those of sinks, local window and
// outliers, the last one perhaps not yet full. A tier below has none.
func (d *Delta) pinnedBlocks(i int) int {
	if d.lower {
		return 0
	}
	if d.pool != nil {
		d, i = d.pool.at(i)
	}
	seqLen := d.stream.SeqLen(d.first + i)
	all, local := d.pins.blocks(seqLen), d.pins.firstLocal(seqLen)
	pinned := all - max(0, local-min(d.pins.firstFree(), all)) + d.unlisted // all but those between sinks and local window
	for w, kept := range d.kept {
		for ; kept != 0 && w<<6|bits.TrailingZeros64(kept) < local; kept &= kept - 1 { // in a prompt window it may be local still
			pinned++
		}
	}
	return pinned
}
