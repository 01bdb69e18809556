package demand

import (
	"cmp"
	"slices"

	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// Place returns the blocks resident before step 0, ascending: nil for lru and cold. In
// a pool, staging places position by position, at each position the first streams first, and
// importance ranks the blocks of all its streams together. request is the importance of
// each position over a whole request (ScopeRequest), nil if every stream's own counts.
func Place(w setting.Warmup, v Recorded, capacity int, request map[int32]float64) []int32 {
	streams := v.deltas()
	free, local := streams[0].pins.unpinned(int(streams[0].stream.PromptLen))
	switch w.Kind {
	case setting.WarmupStaging:
		return lowest(streams, free, local, capacity)
	case setting.WarmupImportance:
		return mostImportant(streams, w.Windows, free, local, capacity, request)
	}
	return nil
}

// lowest are the capacity lowest blocks of [free, local).
func lowest(streams []*Delta, free, local, capacity int) (placed []int32) {
	for b := free; b < local && len(placed) < capacity; b++ {
		for _, d := range streams {
			if len(placed) < capacity && !d.isKept(int32(b)) {
				placed = append(placed, d.base+int32(b))
			}
		}
	}
	slices.Sort(placed)
	return placed
}

// mostImportant is the top capacity blocks of [free, local) by importance, ties to the
// lowest position, then to the first stream.
func mostImportant(streams []*Delta, windows, free, local, capacity int, request map[int32]float64) []int32 {
	type block struct {
		importance float64
		position   int32
		id         int32
	}
	var blocks []block
	for _, d := range streams {
		sums := request
		if sums == nil {
			sums = map[int32]float64{}
			d.addImportance(sums, windows)
		}
		for x, sum := range sums {
			if int(x) >= free && int(x) < local && !d.isKept(x) {
				blocks = append(blocks, block{sum, x, d.base + x})
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

// AddImportance adds the scores that the last windows of a stream give each position.
func AddImportance(sums map[int32]float64, s *trace.Stream, o *Options, windows int) {
	d := Delta{stream: s, rows: &recorded{s, o.K, o.M}}
	if o.Joined != nil {
		d.rows = o.Joined
	}
	d.addImportance(sums, windows)
}

// addImportance adds the scores of the listed ranks of the last windows, oldest first. It
// reads nothing of the delta but its rows.
func (d *Delta) addImportance(sums map[int32]float64, windows int) {
	for row := d.stream.Windows - windows; row < d.stream.Windows; row++ {
		list, scores := d.scored(row)
		for j, x := range list {
			sums[x] += float64(scores[j])
		}
	}
}
