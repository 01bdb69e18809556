package referee

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
)

// Tier is a cache below another.
type Tier struct {
	// Policy is lru, fifo, lfu or lookahead. Capacity is C in blocks.
	Policy   string
	Capacity int
	Growth   []Growth
	// Inclusive tiers keep a copy of the blocks that pass through. Other tiers keep the victims of
	// the tier above.
	Inclusive bool
	// Placed are the blocks that are resident before the first step.
	Placed []int32
}

// RunPool replays streams that share a cache and the tiers below it, mostly one. A stream is a head, or
// heads whose entries share blocks. RunPool replays the rows step by step, and the rows of a step in the
// order of streams. hasRanks states that lists are best first (order=rank). It returns a StepCounts for
// every replayed step of each tier, with the warm-up, those of the cache first.
func RunPool(streams [][]*trace.Stream, hasRanks bool, c Config, tiers []Tier) ([][]StepCounts, error) {
	x, placed, err := newCell(streams, hasRanks, c)
	if err != nil {
		return nil, err
	}
	top := x.run(placed)
	all := [][]StepCounts{top}
	for _, t := range tiers {
		low := x.Config
		low.Policy, low.Capacity, low.Growth = t.Policy, t.Capacity, t.Growth
		if _, windowed := low.window(); windowed || !low.known() || low.bypasses() || t.Policy == "opt" {
			return nil, fmt.Errorf("referee: policy %q cannot run in a lower tier", t.Policy)
		}
		l := &lowerTier{cell: cell{Config: low, rows: x.rows, hasRanks: hasRanks, resident: map[int32]*entry{}, first: x.first, width: x.width, windows: x.windows}, exclusive: !t.Inclusive, arrived: map[int32]int{}}
		for _, b := range t.Placed {
			l.arrive(b, -1)
		}
		all = append(all, l.run(all[len(all)-1], len(x.rows)-len(top), t.Inclusive, top))
	}
	return all, nil
}

// lowerTier is a cache whose demand is the blocks that the tier above fetches, ahead or on demand.
type lowerTier struct {
	cell
	exclusive bool
	arrived   map[int32]int // order of arrival, the last tie-break of blocks from above
	arrival   int
}

func (x *lowerTier) arrive(b int32, t int) {
	x.arrival++
	x.resident[b], x.arrived[b] = &entry{lastUse: t, inserted: t}, x.arrival
}

func (x *lowerTier) run(above []StepCounts, firstRow int, inclusive bool, top []StepCounts) []StepCounts {
	var steps []StepCounts
	for i, a := range above {
		row := firstRow + i
		t := x.time(row)
		out := StepCounts{T: a.T, Step: a.Step, Stream: a.Stream}
		x.Capacity = x.At(a.Step)
		taken := slices.Sorted(slices.Values(slices.Concat(a.Missed, a.Ahead)))
		if inclusive {
			x.copies(row, t, taken, top[i], &out)
		} else {
			x.exchange(row, t, taken, a, &out)
		}
		out.Residents = x.residents(row)
		out = x.count(out, len(taken))
		if !inclusive {
			out.Overflow = 0 // demanded blocks do not stay
		}
		steps = append(steps, out)
	}
	return steps
}

// exchange is a step of an exclusive tier. Blocks that the buffer above dropped come back. Demanded
// blocks move up, and the victims from above are inserted, then what else left the buffer. Then the
// tier is cut to its capacity.
func (x *lowerTier) exchange(row, t int, demand []int32, above StepCounts, out *StepCounts) {
	for _, b := range above.Dropped {
		x.arrive(b, t-1)
		out.Born = append(out.Born, b)
	}
	x.classify(demand, out)
	for _, b := range out.Hit {
		delete(x.resident, b)
	}
	for _, b := range slices.Concat(above.Order, above.KeptOut, above.Expired) {
		x.arrive(b, t)
		out.Born = append(out.Born, b)
	}
	surplus := max(0, len(x.resident)-x.Capacity)
	for _, b := range x.byOrder(row, nil, nil)[:surplus] {
		delete(x.resident, b)
		out.Victims = append(out.Victims, b)
	}
	out.Order = slices.Clone(out.Victims)
}

// copies is a step of an inclusive tier: an ordinary cache of the demand from above.
func (x *lowerTier) copies(row, t int, demand []int32, top StepCounts, out *StepCounts) {
	for _, b := range top.Born {
		x.arrive(b, t-1)
		x.resident[b].offered = true
		out.Born = append(out.Born, b)
	}
	x.classify(demand, out)
	for _, b := range out.Missed {
		x.arrive(b, t)
	}
	for _, b := range demand {
		x.resident[b].lastUse, x.resident[b].offered = t, false
		x.resident[b].uses++
	}
	surplus := max(0, len(x.resident)-x.Capacity)
	for _, b := range x.byOrder(row, demand, top.Ahead)[:surplus] {
		delete(x.resident, b)
		if slices.Contains(demand, b) {
			out.KeptOut = append(out.KeptOut, b)
		} else {
			out.Victims = append(out.Victims, b)
			out.Order = append(out.Order, b)
		}
	}
}

// byOrder returns the order of eviction. Blocks that came from above at one step leave in order of
// arrival. Blocks that were only fetched ahead rank behind those of the list.
func (x *lowerTier) byOrder(row int, demand, ahead []int32) []int32 {
	var free []int32
	for b := range x.resident {
		if !slices.Contains(demand, b) {
			free = append(free, b)
		}
	}
	slices.SortFunc(free, func(a, b int32) int {
		if k := x.key(a, row) - x.key(b, row); k != 0 {
			return k
		}
		if k := x.resident[a].lastUse - x.resident[b].lastUse; k != 0 {
			return k
		}
		if x.exclusive {
			return x.arrived[a] - x.arrived[b]
		}
		return cmp.Or(x.offeredLast(a)-x.offeredLast(b), int(a-b))
	})
	// Members of demand in list order.
	ranked := slice.Filter(x.demand(row), func(b int32) bool { return slices.Contains(demand, b) })
	for _, b := range ahead {
		if slices.Contains(demand, b) && !slices.Contains(ranked, b) {
			ranked = append(ranked, b)
		}
	}
	return append(free, x.surplus(ranked)...)
}
