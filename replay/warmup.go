package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/trace"
)

// Warmup is how a cell's cache is filled before step 0 (DESIGN S8). Its text form
// parses back.
type Warmup struct {
	Kind    WarmupKind
	Windows int // prompt windows used; 0 where the kind uses none
}

// WarmupKind is a way to fill the cache.
type WarmupKind string

// The ways to fill the cache.
const (
	// WarmupAuto is lru with all the windows that a trace has, cold where it has none.
	WarmupAuto WarmupKind = "auto"
	// WarmupRun runs the cell's own policy over the last windows from an empty cache,
	// uncounted (ESS, LRU-Warmup).
	WarmupRun WarmupKind = "lru"
	// WarmupCold begins empty.
	WarmupCold WarmupKind = "cold"
	// WarmupImportance places the blocks with the largest summed score of the last
	// windows (KVDrive), per stream.
	WarmupImportance WarmupKind = "importance"
	// WarmupStaging places the lowest blocks behind the sinks.
	WarmupStaging WarmupKind = "staging"
)

// ParseWarmup reads "auto", "lru:32", "cold", "importance:32" or "staging".
func ParseWarmup(text string) (Warmup, error) {
	kind, count, has := strings.Cut(text, ":")
	w := Warmup{Kind: WarmupKind(kind)}
	switch w.Kind {
	case WarmupAuto, WarmupCold, WarmupStaging:
		if !has {
			return w, nil
		}
	case WarmupRun, WarmupImportance:
		n, err := strconv.Atoi(count)
		if err == nil && n >= 1 {
			w.Windows = n
			return w, nil
		}
	}
	return w, fmt.Errorf("warm-up %q: expected auto, lru:W, importance:W (W ≥ 1 prompt windows), staging or cold", text)
}

// String is the text form.
func (w Warmup) String() string {
	if w.Windows == 0 {
		return string(w.Kind)
	}
	return fmt.Sprintf("%s:%d", w.Kind, w.Windows)
}

// resolve settles auto against the streams of a trace and reports a warm-up that asks
// for more windows than there are.
func (w Warmup) resolve(streams []trace.StreamInfo) (Warmup, error) {
	least, at := streams[0].Windows, streams[0]
	for _, s := range streams {
		if s.Windows < least {
			least, at = s.Windows, s
		}
	}
	if w.Kind == WarmupAuto {
		if least == 0 {
			return Warmup{Kind: WarmupCold}, nil
		}
		return Warmup{Kind: WarmupRun, Windows: least}, nil
	}
	if w.Windows > least {
		return w, fmt.Errorf("warm-up %v asks for %d windows, %v has %d recorded (steps below 0); choose at most that many, or cold", w, w.Windows, at.Key, least)
	}
	return w, nil
}

// replayed is the number of window rows that a cell runs over.
func (w Warmup) replayed() int {
	if w.Kind == WarmupRun {
		return w.Windows
	}
	return 0
}

// placed returns the blocks resident before step 0, ascending: nil for lru and cold.
func (w Warmup) placed(d *Delta, p Pins, capacity int) []int32 {
	free, local := p.firstFree(), p.firstLocal(int(d.stream.PromptLen))
	switch w.Kind {
	case WarmupStaging:
		var placed []int32
		for b := free; b < local && len(placed) < capacity; b++ {
			if !d.isKept(int32(b)) {
				placed = append(placed, int32(b))
			}
		}
		return placed
	case WarmupImportance:
		return mostImportant(d, w.Windows, free, local, capacity)
	}
	return nil
}

// mostImportant is the top capacity blocks of [free, local) by summed score over the
// listed ranks of the last windows, ties to the lowest index.
func mostImportant(d *Delta, windows, free, local, capacity int) []int32 {
	sum := map[int32]float64{}
	for i := -windows; i < 0; i++ { // rows before row 0 of the delta, which replays no window here
		list, scores := d.scored(i)
		for j, x := range list {
			if int(x) >= free && int(x) < local && !d.isKept(x) {
				sum[x] += float64(scores[j])
			}
		}
	}
	blocks := make([]int32, 0, len(sum))
	for x := range sum {
		blocks = append(blocks, x)
	}
	slices.SortFunc(blocks, func(a, b int32) int {
		if sum[a] != sum[b] {
			if sum[a] > sum[b] {
				return -1
			}
			return 1
		}
		return int(a - b)
	})
	blocks = blocks[:min(capacity, len(blocks))]
	slices.Sort(blocks)
	return blocks
}
