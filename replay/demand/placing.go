package demand

import (
	"cmp"
	"slices"

	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// Place returns the blocks that warm-up w makes resident before step 0, ascending. It returns nil
// for lru and cold. In a pool, staging places the blocks of all streams position by position.
// Importance ranks the blocks of all streams together. request is the importance of each position
// over a whole request (ScopeRequest). It is nil if the importance comes from each stream alone.
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

// lowest returns the lowest blocks of [free, local) that fit the capacity.
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

// mostImportant returns the most important blocks of [free, local) that fit the capacity. Ties go
// to the lowest position, then to the first stream.
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

// AddImportance adds to sums the scores of each position in the last prompt windows of a stream.
func AddImportance(sums map[int32]float64, s *trace.Stream, o *Options, windows int) {
	d := Delta{stream: s, rows: &recorded{s, o.K, o.M}}
	if o.Joined != nil {
		d.rows = o.Joined
	}
	d.addImportance(sums, windows)
}

// addImportance adds the scores of the lists of the last windows, oldest first. It uses only the
// stream and the rows of d, so d need not be built.
func (d *Delta) addImportance(sums map[int32]float64, windows int) {
	for row := d.stream.Windows - windows; row < d.stream.Windows; row++ {
		list, scores := d.scored(row)
		for j, x := range list {
			sums[x] += float64(scores[j])
		}
	}
}
