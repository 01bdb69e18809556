package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// resolveWarmup settles auto against the streams of a trace and reports a warm-up that asks
// for more windows than there are.
func resolveWarmup(w Warmup, streams []trace.StreamInfo) (Warmup, error) {
	at, _ := windowRange(streams)
	least := at.Windows
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

// windowRange is the first of the streams with the fewest windows, and the most that one has.
func windowRange(streams []trace.StreamInfo) (fewest trace.StreamInfo, most int) {
	byWindows := func(a, b trace.StreamInfo) int { return cmp.Compare(a.Windows, b.Windows) }
	return slices.MinFunc(streams, byWindows), slices.MaxFunc(streams, byWindows).Windows
}
