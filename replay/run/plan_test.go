package run

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// Plan refuses rows per request or stream if a request id is empty. Pooled rows need no ids.
func TestEmptyRequestID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "unnamed.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 1, BlockTokens: 1})
	fatal.If(t, err)
	var s trace.Stream
	s.Reset(trace.StreamInfo{Key: trace.Key{Head: trace.NoHead}, PromptLen: 9})
	for step := range int32(3) {
		s.Append(trace.Row{Step: step, Indices: []int32{step}})
	}
	fatal.If(t, w.Write(&s))
	f := reopen(t, w, path)
	for per, ok := range map[Detail]bool{PerCell: true, PerLayer: true, PerRequest: false, PerStream: false} {
		o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2"), Per: per}
		if ok {
			mustRun(t, f, o)
			continue
		}
		if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), "a request id is empty, so rows per "+string(per)+" cannot state") {
			t.Errorf("per %s: %v", per, err)
		}
	}
}
