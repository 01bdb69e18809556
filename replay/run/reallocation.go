package run

import (
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/policies/decimal"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// checkReallocation checks what budgets that change need.
func (p *plan) checkReallocation() error {
	r := p.opt.Reallocation
	switch {
	case r.Every == 0:
		return nil
	case p.opt.Allocation == nil:
		return fmt.Errorf("reallocation every %d steps: there is no plan to begin with (--allocation)", r.Every)
	case p.opt.Allocation.Family != allocate.Capacities:
		return fmt.Errorf("reallocation every %d steps: the plan allocates windows, which take what they take; it goes with plans of capacities", r.Every)
	}
	return nil
}

// observed is what is seen of a stream before its budgets are known: for every interval
// of decode steps, by the size of an LRU cache, what it would have missed.
type observed struct {
	key    allocate.Key
	misses map[int][]int64 // by interval, then size; intervals without a row are missing
	last   int32           // decode step
}

// budgets are the capacities in entries that are chosen among: the plan's floor, and
// above it the multiples of K that `sweep` stands for, as far as memory reaches.
func (p *plan) budgets(memory int64) (sizes []int) {
	unit := p.pins.BlockTokens
	sizes = append(sizes, max(unit, p.opt.Allocation.Floor/unit*unit))
	k := p.topk * p.meta.BlockTokens
	for _, text := range setting.SweepGrid(setting.SweepPoints) {
		multiple, err := decimal.Parse(strings.TrimSuffix(text, "x"))
		if err != nil {
			panic(err) // the grid's own
		}
		if size := int(multiple.Times(k)) / unit * unit; size > sizes[len(sizes)-1] && int64(size) <= memory {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// reallocate works out the budgets of all streams of a request from the first change on: of
// each stream, in blocks. initial are the plan's, in entries. What no observed miss asks
// for is shared equally, so that the memory of the request stays what it is.
func reallocate(r allocate.Reallocation, streams []observed, initial, sizes []int, unit int) ([][]cache.CapacityAt, error) {
	memory, last := int64(0), int32(0)
	for i, s := range streams {
		memory += int64(initial[i])
		last = max(last, s.last)
	}
	later := make([][]cache.CapacityAt, len(streams))
	for interval := 0; (interval+1)*r.Every <= int(last); interval++ {
		curves, seen := curvesOf(streams, interval, sizes)
		if !seen {
			continue
		}
		result, err := r.Method.Allocate(&allocate.Problem{Family: allocate.Capacities, Unit: unit, Curves: curves}, memory)
		if err != nil {
			return nil, fmt.Errorf("reallocation at step %d: %w", (interval+1)*r.Every, err)
		}
		for i, entries := range spread(result.Sizes, memory, unit) {
			later[i] = append(later[i], cache.CapacityAt{Step: int32((interval + 1) * r.Every), Capacity: entries / unit})
		}
	}
	return later, nil
}

// curvesOf are the curves of an interval; not seen where it has no row.
func curvesOf(streams []observed, interval int, sizes []int) (curves []allocate.Curve, seen bool) {
	for _, s := range streams {
		misses := s.misses[interval]
		seen = seen || misses != nil
		c := allocate.Curve{Key: s.key}
		for j, size := range sizes {
			p := allocate.Point{Size: size, Cost: int64(size)}
			if misses != nil {
				p.Misses, p.Moved = misses[j], misses[j]
			}
			c.Points = append(c.Points, p)
		}
		curves = append(curves, c)
	}
	return curves, seen
}

// spread shares what the sizes leave of the memory, equally in blocks, what is left of
// that with the first streams.
func spread(sizes []int, memory int64, unit int) []int {
	for _, size := range sizes {
		memory -= int64(size)
	}
	blocks := int(memory) / unit
	for i := range sizes {
		sizes[i] += (blocks / len(sizes)) * unit
		if i < blocks%len(sizes) {
			sizes[i] += unit
		}
	}
	return sizes
}
