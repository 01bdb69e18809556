package board

import "github.com/kvreplay/kvreplay/metrics/result"

// TraceInfo is a task of the board: a trace, how it was replayed, and how much of it.
type TraceInfo struct {
	Trace  string `json:"trace"`
	Digest string `json:"trace_digest"`
	Model  string `json:"model"`
	// Selector chose the lists; SelectorRecall is its recall of the exact Top-K (Row).
	Selector       string   `json:"selector"`
	SelectorRecall *float64 `json:"selector_recall"`
	// RequestCount is the number of requests; null where rows are pooled over them.
	RequestCount *int `json:"request_count"`
	// Streams, Steps (stream-steps) and Demand (blocks) are the work of every cell.
	Streams int64 `json:"streams"`
	Steps   int64 `json:"steps"`
	Demand  int64 `json:"demand"`
	// The settings are those of Row.
	TopK        int    `json:"topk"`
	Candidates  int    `json:"candidates"`
	Warmup      string `json:"warmup"`
	Sink        int    `json:"sink"`
	Local       int    `json:"local"`
	BlockTokens int    `json:"block_tokens"`
	EntryBytes  *int   `json:"entry_bytes"`
	StepTokens  int    `json:"step_tokens"`
	SharedHeads int    `json:"shared_heads"`
	Pool        string `json:"pool"`
	Prefetch    string `json:"prefetch"`
	Outliers    string `json:"outliers"`
	Clusters    string `json:"clusters"`
	Tiers       string `json:"tiers"`
	Layers      string `json:"layers"`
	Requests    string `json:"requests"`
	// Labels are the conditions that limit all figures of the trace (ROWS.md).
	Labels result.Labels `json:"labels"`
	Engine string        `json:"engine"`
	Seed   uint64        `json:"seed"`
}

// traces lists the traces by name.
func (g *grid) traces() []TraceInfo {
	var infos []TraceInfo
	for _, c := range g.list {
		if len(infos) == 0 || infos[len(infos)-1].Trace != c.trace {
			infos = append(infos, traceInfo(c))
		}
		last := &infos[len(infos)-1]
		if last.RequestCount == nil && c.requests != nil {
			n := len(c.requests)
			last.RequestCount = &n
		}
		last.Labels = last.Labels.With(c.sample.TraceLabels()...)
	}
	return infos
}

func traceInfo(c *cell) TraceInfo {
	r := c.sample
	return TraceInfo{
		Trace: c.trace, Digest: r.TraceDigest, Model: r.Model, Selector: r.Selector, SelectorRecall: r.SelectorRecall,
		Streams: c.total.streams, Steps: c.total.steps, Demand: c.total.demand,
		TopK: r.TopK, Candidates: r.Candidates, Warmup: r.Warmup, Sink: r.Sink, Local: r.Local,
		BlockTokens: r.BlockTokens, EntryBytes: r.EntryBytes, StepTokens: r.StepTokens, SharedHeads: r.SharedHeads, Pool: r.Pool,
		Prefetch: r.Prefetch, Outliers: r.Outliers, Clusters: r.Clusters, Tiers: r.Tiers, Layers: r.Layers, Requests: r.Requests,
		Engine: r.Engine, Seed: r.Seed,
	}
}
