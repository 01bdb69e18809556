package run

import (
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/policies/decimal"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/setting"
)

func (p *plan) checkReallocation() error {
	r := p.opt.Reallocation
	switch {
	case r.Every == 0:
		return nil
	case p.opt.Allocation == nil:
		return fmt.Errorf("reallocation every %d steps: expected an initial plan. Name one with --allocation", r.Every)
	case p.opt.Allocation.Family != allocate.Capacities:
		return fmt.Errorf("reallocation every %d steps: the plan sets windows, expected a plan of capacities", r.Every)
	}
	return nil
}

// observed holds the misses that LRU caches of several sizes would have had on a stream, in each
// interval of decode steps.
type observed struct {
	key    allocate.Key
	misses map[int][]int64 // by interval, then size. Intervals without rows are absent
	last   int32           // last decode step
}

// budgets returns the possible capacities of a stream, in entries. The first is the plan's floor.
// The others are the multiples of K of `--capacity sweep` between the floor and memory.
func (p *plan) budgets(memory int64) (sizes []int) {
	unit := p.pins.BlockTokens
	sizes = append(sizes, max(unit, p.opt.Allocation.Floor/unit*unit))
	k := p.topk * p.meta.BlockTokens
	for _, text := range setting.SweepGrid(setting.SweepPoints) {
		multiple, err := decimal.Parse(strings.TrimSuffix(text, "x"))
		if err != nil {
			panic(err) // cannot happen: the grid is fixed
		}
		if size := int(multiple.Times(k)) / unit * unit; size > sizes[len(sizes)-1] && int64(size) <= memory {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// reallocate returns the budgets of each stream of a request from the first change on, in blocks.
// initial holds the plan's budgets in entries. Streams share the memory equally that would avoid
// no observed miss, so the request's total stays the same.
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

// curvesOf returns the curves of an interval. seen is false if it has no row.
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

// spread adds the rest of memory to the sizes, in equal numbers of blocks. If the rest does not
// divide evenly, the first sizes get one block more.
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
