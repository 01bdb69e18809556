package board

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// noTimer has no times.
type noTimer struct{ Timer }

func (noTimer) TPOT(*result.Row) (float64, error) { return 0, errors.New("no shape") }

// Traces without times are named once each, and many of them cost no more.
func TestRefusedTimes(t *testing.T) {
	const traces = 5000
	k := &clock{timer: noTimer{}, times: map[*cell]float64{}, refused: map[string][]string{}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range 2 * traces {
		k.time(&cell{trace: fmt.Sprintf("t%04d", i%traces), sample: &result.Row{}})
	}
	runtime.ReadMemStats(&after)
	if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 100 {
		t.Errorf("%d MiB for %d cells", made, 2*traces)
	}
	notes := k.notes()
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "no modelled TPOT: t0000, t0001, t0002, ") || !strings.HasSuffix(notes[0], ", t4999: no shape") || strings.Count(notes[0], "t0042") != 1 {
		t.Errorf("%.200q", notes)
	}
}
