package referee

import (
	"cmp"
	"math"
	"slices"
)

// never is the next demand of a block that no counted step needs.
const never = math.MaxInt

// leaving returns the blocks that leave at the end of the row's step.
func (x *cell) leaving(row int, demand []int32) []int32 {
	if n, windowed := x.window(); windowed {
		return x.outsideWindow(x.time(row), n*x.width)
	}
	excess, surplus := x.residentWeight()-x.Capacity, 0
	order := x.order(row, demand)
	for excess > 0 {
		excess -= x.weigh(order[surplus])
		surplus++
	}
	return order[:surplus]
}

// outsideWindow returns the residents last used before the n steps that end with t, in the order of
// S12. A tier below takes them in this order.
func (x *cell) outsideWindow(t, n int) []int32 {
	var old []int32
	for b, e := range x.resident {
		if e.lastUse < t-n+1 {
			old = append(old, b)
		}
	}
	slices.SortFunc(old, x.byUse)
	return old
}

// byUse orders residents by their last use. Among those of one step, demanded blocks come before
// blocks that were inserted without demand, then by index (S12).
func (x *cell) byUse(a, b int32) int {
	return cmp.Or(
		cmp.Compare(x.resident[a].lastUse, x.resident[b].lastUse),
		cmp.Compare(x.offeredLast(a), x.offeredLast(b)),
		cmp.Compare(a, b),
	)
}

// order returns all residents, first victim first: those outside D_t by the policy's order, then
// D_t by S5. A bypassing policy orders both together.
func (x *cell) order(row int, demand []int32) []int32 {
	var free []int32
	demanded := setOf(demand)
	key := map[int32]int{}
	for b := range x.resident {
		if x.bypasses() || !demanded[b] {
			free = append(free, b)
			key[b] = x.key(b, row)
		}
	}
	slices.SortFunc(free, func(a, b int32) int {
		return cmp.Or(cmp.Compare(key[a], key[b]), x.byUse(a, b))
	})
	if x.bypasses() {
		return free
	}
	return append(free, x.surplus(demand)...)
}

// offeredLast returns 1 for blocks that were inserted without demand. Among equal last uses, the
// blocks that left the demand are evicted first.
func (x *cell) offeredLast(b int32) int {
	if x.resident[b].offered {
		return 1
	}
	return 0
}

// surplus orders D_t for an overflow: worst rank first, or without ranks lowest index first (S5).
func (x *cell) surplus(demand []int32) []int32 {
	d := slices.Clone(demand)
	if x.hasRanks {
		slices.Reverse(d)
	} else {
		slices.Sort(d)
	}
	return d
}

// key returns the policy's key of eviction at the row's step. The lowest key is evicted first.
func (x *cell) key(b int32, row int) int {
	switch x.Policy {
	case "lru":
		return x.resident[b].lastUse
	case "fifo":
		return x.resident[b].inserted
	case "lfu":
		return x.resident[b].uses
	case "lookahead":
		at := x.latest(b, row)
		if rank := x.rank(b, at); rank < math.MaxInt32 {
			return -rank*x.width - (row - at)
		}
		return -math.MaxInt
	case "opt", "opt-bypass":
		return -x.nextDemand(b, row)
	}
	panic("referee: no order for " + x.Policy)
}

// latest returns the last row of the stream of b, up to the given one. In a pool the given row may
// be of another stream. Among blocks of one rank, the one with the older list is evicted first.
func (x *cell) latest(b int32, row int) int {
	for at := row; at > row-x.width; at-- {
		if at >= x.first && at%x.width == int(b/x.stride) {
			return at
		}
	}
	return row // its stream has not begun
}

// rank returns the place of b among the row's M candidates, or a value above all ranks.
func (x *cell) rank(b int32, row int) int {
	before := map[int32]bool{}
	for _, e := range x.rows[row].list {
		if e.block == b {
			return len(before)
		}
		before[e.block] = true
	}
	return math.MaxInt32 // not among them
}

// nextDemand returns the row of the first demand of b after row. It is never if no row demands b,
// or if a window is the first to do so. The fetch of a window is not counted (S9).
func (x *cell) nextDemand(b int32, row int) int {
	for _, next := range x.demands[b] {
		if next <= row {
			continue
		}
		if x.time(next) < 0 {
			return never
		}
		return next
	}
	return never
}
