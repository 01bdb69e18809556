package replay

import (
	"cmp"
	"slices"
)

// placeBlocks returns the blocks resident before step 0, ascending: nil for lru and cold. In
// a pool, staging places position by position, of each the first streams first, and
// importance ranks the blocks of all its streams together. request is the importance of
// each position over a whole request (ScopeRequest), nil where every stream's own counts.
func placeBlocks(w Warmup, d *Delta, p Pins, capacity int, request map[int32]float64) []int32 {
	free, local := p.firstFree(), p.firstLocal(int(d.stream.PromptLen))
	switch w.Kind {
	case WarmupStaging:
		return lowest(d.members(), free, local, capacity)
	case WarmupImportance:
		return mostImportant(d.members(), w.Windows, free, local, capacity, request)
	}
	return nil
}

// shown is a stream of a delta, whose block b is block base + b there.
type shown struct {
	*Delta
	base int32
}

// members are the streams that d is of.
func (d *Delta) members() (all []shown) {
	if d.pool == nil {
		return []shown{{d, 0}}
	}
	for s, m := range d.pool.members {
		all = append(all, shown{&m.delta, d.pool.base(s)})
	}
	return all
}

// lowest are the capacity lowest blocks of [free, local).
func lowest(streams []shown, free, local, capacity int) (placed []int32) {
	for b := free; b < local && len(placed) < capacity; b++ {
		for _, s := range streams {
			if len(placed) < capacity && !s.isKept(int32(b)) {
				placed = append(placed, s.base+int32(b))
			}
		}
	}
	slices.Sort(placed)
	return placed
}

// mostImportant is the top capacity blocks of [free, local) by importance, ties to the
// lowest position, then to the first stream.
func mostImportant(streams []shown, windows, free, local, capacity int, request map[int32]float64) []int32 {
	type block struct {
		importance float64
		position   int32
		id         int32
	}
	var blocks []block
	for _, s := range streams {
		sums := request
		if sums == nil {
			sums = map[int32]float64{}
			s.addImportance(sums, windows)
		}
		for x, sum := range sums {
			if int(x) >= free && int(x) < local && !s.isKept(x) {
				blocks = append(blocks, block{sum, x, s.base + x})
			}
		}
	}
	slices.SortFunc(blocks, func(a, b block) int {
		return cmp.Or(-cmp.Compare(a.importance, b.importance), cmp.Compare(a.position, b.position), cmp.Compare(a.id, b.id))
	})
	blocks = blocks[:min(capacity, len(blocks))]
	placed := make([]int32, len(blocks))
	for i, b := range blocks {
		placed[i] = b.id
	}
	slices.Sort(placed)
	return placed
}

// addImportance adds the scores of the listed ranks of the last windows, oldest first. The
// delta replays none of them.
func (d *Delta) addImportance(sums map[int32]float64, windows int) {
	for i := -windows; i < 0; i++ {
		list, scores := d.scored(i)
		for j, x := range list {
			sums[x] += float64(scores[j])
		}
	}
}

// placed are the blocks of a cache of so many that are resident before step 0.
func (w *worker) placed(capacity int) []int32 {
	return placeBlocks(w.plan.warmup, &w.delta, w.plan.pins, capacity, w.ahead.importance)
}
