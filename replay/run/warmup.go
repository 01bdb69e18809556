package run

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// resolveWarmup resolves auto against the streams of a trace and reports a warm-up that asks
// for more windows than there are.
func resolveWarmup(w setting.Warmup, streams []trace.StreamInfo) (setting.Warmup, error) {
	at, _ := windowRange(streams)
	least := at.Windows
	if w.Kind == setting.WarmupAuto {
		if least == 0 {
			return setting.Warmup{Kind: setting.WarmupCold}, nil
		}
		return setting.Warmup{Kind: setting.WarmupRun, Windows: least}, nil
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
