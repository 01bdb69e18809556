package board

import "github.com/kvreplay/kvreplay/metrics/result"

// TraceInfo is a task of the board: a trace, its replay settings, and its amount of work. Plans may
// differ from capacity to capacity, so it states none.
type TraceInfo struct {
	result.Setting `moves:"allocation< reallocation<"`

	// RequestCount is the number of requests, null if rows are pooled over them.
	RequestCount *int `json:"request_count" before:"topk"`
	// Streams, Steps (stream-steps) and Demand (blocks) are the work of every cell.
	Streams int64 `json:"streams" before:"topk"`
	Steps   int64 `json:"steps" before:"topk"`
	Demand  int64 `json:"demand" before:"topk"`
	// Labels are the conditions that limit all figures of the trace (ROWS.md).
	Labels result.Labels `json:"labels" before:"engine"`
}

// MarshalJSON writes the fields in their order.
func (t TraceInfo) MarshalJSON() ([]byte, error) { return result.MarshalSetting(t) }

func (g *grid) traces() []TraceInfo {
	var infos []TraceInfo
	for _, c := range g.list {
		if len(infos) == 0 || infos[len(infos)-1].Trace != c.trace {
			infos = append(infos, TraceInfo{Setting: c.sample.Setting,
				Streams: c.total.streams, Steps: c.total.steps, Demand: c.total.demand})
		}
		last := &infos[len(infos)-1]
		if last.RequestCount == nil && c.requests != nil {
			last.RequestCount = new(len(c.requests))
		}
		last.Labels = last.Labels.With(c.sample.TraceLabels()...)
	}
	return infos
}
