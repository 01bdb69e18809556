package pipeline

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// chromeEvent is an entry of the Trace Event Format, which Perfetto and chrome://tracing
// read; times are microseconds, to the picosecond: processors differ in digits beyond.
type chromeEvent struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	Start float64        `json:"ts"`
	Dur   float64        `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

func microseconds(s float64) float64 { return math.Round(s*1e12) / 1e6 }

// WriteChrome writes the events as JSON in the Trace Event Format, a row a resource.
func (t *Timeline) WriteChrome(w io.Writer, title string) error {
	events := []chromeEvent{{Name: "process_name", Phase: "M", PID: 1, Args: map[string]any{"name": title}}}
	for r := range resources {
		events = append(events, chromeEvent{Name: "thread_name", Phase: "M", PID: 1, TID: int(r) + 1, Args: map[string]any{"name": r.String()}},
			chromeEvent{Name: "thread_sort_index", Phase: "M", PID: 1, TID: int(r) + 1, Args: map[string]any{"sort_index": int(r)}})
	}
	for i := range t.Events {
		e := &t.Events[i]
		if e.End == e.Start {
			continue
		}
		events = append(events, chromeEvent{Name: e.Kind.String(), Cat: e.Kind.Cause().String(), Phase: "X", Start: microseconds(e.Start), Dur: microseconds(e.End - e.Start),
			PID: 1, TID: int(e.Kind.Resource()) + 1, Args: map[string]any{"layer": e.Layer, "part": e.Part}})
	}
	err := json.NewEncoder(w).Encode(map[string]any{"traceEvents": events, "displayTimeUnit": "ms"})
	if err != nil {
		return fmt.Errorf("write timeline: %w", err)
	}
	return nil
}
