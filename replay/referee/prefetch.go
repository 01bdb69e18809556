package referee

import (
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// Prefetch describes the prefetches before counted steps, into a buffer outside of the cache.
type Prefetch struct {
	// Predicted prefetches the blocks that were predicted for the step itself. Otherwise the ranks
	// K … M-1 of the previous step are prefetched.
	Predicted bool
	// Predictor names blocks instead, from the rows before. Its scores are checked elsewhere.
	Predictor Predictor
	// Size is the size of the buffer in blocks. 0 disables prefetching.
	Size int
	// Swap prefetches into the cache, up to Size blocks per step. A block takes free room, or the
	// place of the policy's next victim if that one has a worse rank.
	Swap bool
}

// Predictor names the blocks that the next row may demand, best first. It learns births, demands and
// ranks K … M-1 of all replayed rows.
type Predictor interface {
	Reset(blocks int)
	Step(births, demand, candidates []int32)
	Next(dst []int32) []int32
}

// Prefetched counts the prefetches of a step, in blocks.
type Prefetched struct{ Moved, Useful, Late, Useless int }

// stage prefetches blocks for the row that are neither pinned, resident nor in the buffer, best
// rank first, while there is room. It returns the blocks without room.
func (x *cell) stage(row int, out *StepCounts) (crowded []int32) {
	var next []int32
	for _, b := range x.named(row) {
		if x.pinned(b, x.rows[row].seqLen) || x.resident[b] != nil {
			continue
		}
		if len(next) == x.Prefetch.Size {
			crowded = append(crowded, b)
			continue
		}
		next = append(next, b)
		if !slices.Contains(x.buffer, b) {
			out.Prefetched.Moved++
			out.Ahead = append(out.Ahead, b)
		}
	}
	for _, b := range x.buffer {
		if !slices.Contains(next, b) {
			out.Prefetched.Useless++
			out.Dropped = append(out.Dropped, b)
		}
	}
	x.buffer = next
	return crowded
}

// named returns the distinct blocks to prefetch, best first.
func (x *cell) named(row int) []int32 {
	switch {
	case x.Prefetch.Predictor != nil:
		return x.Prefetch.Predictor.Next(nil)
	case x.Prefetch.Predicted:
		return slice.Add(nil, x.rows[row].predicted...)
	case row > x.first:
		return x.candidates(row - 1)
	}
	return nil
}

// candidates returns the distinct blocks of a row's ranks K … M-1, best first.
func (x *cell) candidates(row int) (blocks []int32) {
	demanded := map[int32]bool{}
	for _, e := range x.rows[row].list {
		if e.picked {
			demanded[e.block] = true
		}
	}
	for _, e := range x.rows[row].list {
		if !demanded[e.block] {
			blocks = slice.Add(blocks, e.block)
		}
	}
	return blocks
}

// teach tells the predictor, if there is one, what a row brings.
func (x *cell) teach(row int, births, demand []int32) {
	if x.Prefetch.Predictor == nil {
		return
	}
	var candidates []int32
	if x.hasRanks {
		candidates = x.candidates(row)
	}
	x.Prefetch.Predictor.Step(births, demand, candidates)
}

// serve removes the staged blocks from a step's misses.
func (x *cell) serve(missed, crowded []int32, out *StepCounts) (fetched []int32) {
	for _, b := range missed {
		if at := slices.Index(x.buffer, b); at >= 0 {
			x.buffer = slices.Delete(x.buffer, at, at+1)
			out.Prefetched.Useful++
			continue
		}
		if slices.Contains(crowded, b) {
			out.Prefetched.Late++
		}
		fetched = append(fetched, b)
	}
	if x.Prefetch.Predicted {
		out.Prefetched.Useless += len(x.buffer)
		x.buffer, out.Expired = nil, x.buffer
	}
	return fetched
}

// swap prefetches blocks for the row that are neither pinned nor resident into the cache, best rank
// first. It returns the blocks that it did not fetch.
func (x *cell) swap(row int, out *StepCounts) (late []int32) {
	if row == x.first {
		return nil
	}
	before, t := row-1, x.time(row)
	named := x.named(row)
	rank := func(b int32) int {
		if at := slices.Index(named, b); at >= 0 {
			return at
		}
		return len(named)
	}
	stay := x.demand(before) // with the fetched blocks: none that the step may evict
	for _, b := range named {
		if x.pinned(b, x.rows[before].seqLen) || x.resident[b] != nil || slices.Contains(out.Victims, b) {
			continue
		}
		if len(late) > 0 || out.Prefetched.Moved == x.Prefetch.Size {
			late = append(late, b)
			continue
		}
		if len(x.resident) >= x.Capacity {
			victim := x.order(before, stay)[0]
			if slices.Contains(stay, victim) || rank(victim) < rank(b) {
				late = append(late, b)
				continue
			}
			x.evict(victim, out)
		}
		x.resident[b] = &entry{lastUse: t - 1, inserted: t - 1, offered: true, swapped: true}
		stay = append(stay, b)
		out.Prefetched.Moved++
	}
	return late
}

func (x *cell) evict(b int32, out *StepCounts) {
	if x.resident[b].swapped {
		out.Prefetched.Useless++
	}
	delete(x.resident, b)
	out.Victims = append(out.Victims, b)
}
