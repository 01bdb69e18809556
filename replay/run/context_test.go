package run

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// A run refuses a small file that states a context too long for memory. The error names a command
// that makes larger blocks.
func TestLongestContext(t *testing.T) {
	spec, err := all.Table().Parse("lru")
	fatal.If(t, err)
	double, err := setting.ParseCapacity("2x")
	fatal.If(t, err)
	for blockTokens, want := range map[int]string{1: "a context of 2147483646 tokens has 2147483646 blocks", 1 << 16: ""} {
		path := filepath.Join(t.TempDir(), "long.parquet")
		w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 1, BlockTokens: blockTokens})
		fatal.If(t, err)
		s := new(trace.Stream)
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: math.MaxInt32 - 3})
		for step := range int32(2) {
			s.Append(trace.Row{Step: step, Indices: []int32{step}})
		}
		fatal.If(t, errors.Join(w.Write(s), w.Close()))
		f, err := trace.Open(path)
		fatal.If(t, err)
		_, err = Run(t.Context(), f, Options{Policies: []policies.Spec{spec}, Capacities: []setting.Capacity{double}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "derive --block-tokens")) {
			t.Errorf("blocks of %d tokens: %v, expected %q", blockTokens, err, want)
		}
		fatal.If(t, f.Close())
	}
}

// A worker holds all streams of a pool at once, so the limit applies to the sum of their contexts.
func TestLongestPool(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 1, BlockTokens: 1})
	fatal.If(t, err)
	for layer := range int32(3) {
		s := new(trace.Stream)
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Layer: layer, Head: trace.NoHead}, PromptLen: demand.MostBlocks/2 - 1})
		s.Append(trace.Row{Indices: []int32{7}})
		fatal.If(t, w.Write(s))
	}
	fatal.If(t, w.Close())
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	want := "the 3 streams of request \"r\" layer 0 have 201326592 blocks, expected at most 134217728"
	if _, err := Plan(f, Options{Pool: setting.PoolRequest}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, expected %q", err, want)
	}
	for _, o := range []Options{{Pool: setting.PoolRequest, Layers: []int32{0, 2}}, {Pool: setting.PoolRequest, Shape: setting.Shape{BlockTokens: 2}}, {}} {
		o.Policies, o.Capacities = specs(t, "lru"), capacities(t, "2x")
		if _, err := Plan(f, o); err != nil {
			t.Error(err)
		}
	}
}
