package run

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// drawShape draws streams that share a cache, and a layout.
func drawShape(r *rand.Rand) ([]trace.Stream, *plan) {
	o := replaytest.Medium(r)
	o.BlockTokens, o.Predicted = 1+r.IntN(2), []float64{0, 0.8}[r.IntN(2)]
	l := demand.Layout{Factor: 1 + r.IntN(5), Heads: 1 + r.IntN(3), Positions: 1 + r.IntN(4)}
	if l.Heads > 1 {
		o.Gap = 0 // all heads of a layer have the same steps
	}
	s, p := draw(r, o)
	streams := []trace.Stream{*s}
	for len(streams) < l.Heads {
		streams = append(streams, *replaytest.Stream(r, o))
	}
	p.layout = l
	p.pins.BlockTokens *= l.Factor
	return streams, p
}

// onShapes draws streams and a layout for each seed below seeds. It calls run with every policy that
// can replay them. If the test fails, onShapes logs the seed.
func onShapes(t *testing.T, seeds, salt uint64, run func(r *rand.Rand, p *plan, streams []trace.Stream, name string)) {
	t.Helper()
	var seed uint64
	var p *plan
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: layout %+v", seed, p.layout)
		}
	}()
	for seed = range seeds {
		r := rand.New(rand.NewPCG(seed, salt))
		var streams []trace.Stream
		if streams, p = drawShape(r); streams[0].Rows == streams[0].Windows {
			continue
		}
		for _, name := range exactNames {
			spec, _ := all.Table().Parse(name)
			if p.whyUnfit(spec, policies.NeedsOf(spec.Make())) == "" {
				run(r, p, streams, name)
			}
		}
	}
}

// The engine and the referee agree on lists that are joined to blocks, over heads and over
// positions. The two join them with different code.
func TestShapesAgreeWithReferee(t *testing.T) {
	var b bench
	cells := 0
	onShapes(t, draws(500), 71, func(r *rand.Rand, p *plan, streams []trace.Stream, name string) {
		b.runShared(t, p, streams, name, 1+r.IntN(2*p.topk))
		cells++
	})
	if cells < int(draws(2000)) {
		t.Errorf("%d cells, expected thousands", cells)
	}
}

// Rows of a run with a shape do not depend on the number of workers, and agree with the referee. A
// policy that needs the demanded entries of blocks runs.
func TestRunOfShapes(t *testing.T) {
	f := manyStreams(t)
	for n, shape := range []setting.Shape{{BlockTokens: 8}, {ShareHeads: true}, {StepTokens: 3}, {BlockTokens: 4, ShareHeads: true, StepTokens: 2}} {
		o := everyCell(t, []Detail{PerCell, PerStream}[n%2], 1)
		o.Shape = shape
		want := mustRun(t, f, o)
		o.Workers = 3
		if got := mustRun(t, f, o); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v: three workers give other rows", shape)
		}
		o.Referee = true
		mustRun(t, f, o)
		for i := range want {
			if shape.ShareHeads && (want[i].SharedHeads != 2 || want[i].Head != nil) {
				t.Fatalf("%+v: a row of %d heads, head %v", shape, want[i].SharedHeads, want[i].Head)
			}
			if want[i].Policy != "none" && *want[i].MissedEntries > 0 && *want[i].ReadAmplification < 1 {
				t.Fatalf("%+v: %s reads less than it misses", shape, want[i].Policy)
			}
		}
	}
	o := Options{Policies: specs(t, "block-lfu", "block-lfu:admit=1"), Capacities: capacities(t, "2x"), Shape: setting.Shape{BlockTokens: 16, ShareHeads: true}}
	mustRun(t, f, o)
}

// The example is worked out by hand. A trace of blocks of 4 tokens is replayed in blocks of 8. The
// first three of each list are in blocks 2 0, then 2 0 4, then 0 2 4. The steps decode tokens 79, 80
// and 81: block 9 is pinned at the first step and born at the second. The capacity of 2 × 3 blocks
// of 4 tokens is 3 blocks of 8. The first step fetches 2 and 0. The second fetches 4 and evicts 9.
//
// The trace does not record which entries of a block are demanded. Rows therefore state no entries,
// and a policy that needs them cannot run.
func TestBlocksOfBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blocks.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 3, Candidates: 4, BlockTokens: 4})
	fatal.If(t, err)
	var s trace.Stream
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: 79})
	for step, list := range [][]int32{{4, 5, 0, 19}, {5, 1, 8, 9}, {0, 4, 9, 2}} {
		s.Append(trace.Row{Step: int32(step), Indices: list})
	}
	fatal.If(t, w.Write(&s))
	f, bytes := reopen(t, w, path), 10
	o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Shape: setting.Shape{BlockTokens: 8}, EntryBytes: &bytes, Referee: true}
	r := mustRun(t, f, o)[0]
	if *r.CapacityEntries != 24 || r.Demand != 2+3+3 || r.Misses != 2+1 || r.Births != 1 || r.Evictions != 1 || r.MovedEntries != 3*8 || *r.HostToDeviceBytes != 3*8*10 {
		t.Errorf("%+v", r)
	}
	if r.DemandEntries != nil || r.MissedEntries != nil || r.ReadAmplification != nil {
		t.Errorf("entries of listed blocks: %d demanded, %d missed, amplification %v", *r.DemandEntries, *r.MissedEntries, *r.ReadAmplification)
	}
	o.Policies = specs(t, "block-lfu")
	if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), "the trace lists whole blocks") {
		t.Errorf("block-lfu on blocks of blocks: %v", err)
	}
}

// Invalid shapes, and options that need another shape, are errors.
func TestShapeErrors(t *testing.T) {
	many := manyStreams(t)
	for want, o := range map[string]Options{
		"blocks of -1 tokens":     {Shape: setting.Shape{BlockTokens: -1}},
		"-2 positions a step":     {Shape: setting.Shape{StepTokens: -2}},
		"set --block-tokens":      {Policies: specs(t, "block-lfu")},
		"needs predicted_indices": {Prefetch: setting.Prefetch{Source: setting.PrefetchPredicted, Staging: capacities(t, "8")[0]}},
		"candidates behind K":     {Candidates: 24, Prefetch: setting.Prefetch{Source: setting.PrefetchCandidates, Staging: capacities(t, "8")[0]}},
	} {
		if o.Policies == nil {
			o.Policies = specs(t, "lru")
		}
		o.Capacities = capacities(t, "2x")
		if _, err := Run(context.Background(), many, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected an error with %q, got %v", want, err)
		}
	}
	shared, err := trace.Open(realTrace)
	fatal.If(t, err)
	defer shared.Close()
	o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Shape: setting.Shape{ShareHeads: true}}
	if _, err := Run(context.Background(), shared, o); err == nil || !strings.Contains(err.Error(), "only stream of its layer") {
		t.Errorf("a trace without heads: %v", err)
	}
}
