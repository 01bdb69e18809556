package replay

import (
	"context"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// drawShape draws streams that share a cache and how their rows are joined.
func drawShape(r *rand.Rand) ([]trace.Stream, *plan) {
	o := replaytest.Medium(r)
	o.BlockTokens, o.Predicted = 1+r.IntN(2), []float64{0, 0.8}[r.IntN(2)]
	l := layout{factor: 1 + r.IntN(5), heads: 1 + r.IntN(3), mtp: 1 + r.IntN(4)}
	if l.heads > 1 {
		o.Gap = 0 // the heads of a layer are recorded at the same steps
	}
	s, p := draw(r, o)
	streams := []trace.Stream{*s}
	for len(streams) < l.heads {
		streams = append(streams, *replaytest.Stream(r, o))
	}
	p.layout = l
	p.pins.BlockTokens *= l.factor
	return streams, p
}

// onShapes draws streams in shapes of their own from so many seeds, and calls run with
// every policy that can serve them. What fails is reported with its seed.
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
		for _, name := range names {
			spec, _ := all.Table().Parse(name)
			if p.unable(spec, policies.NeedsOf(spec.Make())) == "" {
				run(r, p, streams, name)
			}
		}
	}
}

// Lists of entries, joined to blocks, over heads and over positions, are replayed as
// the referee replays them, which joins them in its own way.
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

// A run joins what its options say, whatever its workers; the referee sees every step,
// and a policy that looks at entries runs.
func TestRunOfShapes(t *testing.T) {
	f := manyStreams(t)
	for n, shape := range []Shape{{BlockTokens: 8}, {ShareHeads: true}, {StepTokens: 3}, {BlockTokens: 4, ShareHeads: true, StepTokens: 2}} {
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
	o := Options{Policies: specs(t, "block-lfu", "block-lfu:admit=1"), Capacities: capacities(t, "2x"), Shape: Shape{BlockTokens: 16, ShareHeads: true}}
	mustRun(t, f, o)
}

// Shapes that a trace cannot be given.
func TestShapeErrors(t *testing.T) {
	many := manyStreams(t)
	for want, o := range map[string]Options{
		"blocks of -1 tokens":     {Shape: Shape{BlockTokens: -1}},
		"-2 positions a step":     {Shape: Shape{StepTokens: -2}},
		"--block-tokens makes":    {Policies: specs(t, "block-lfu")},
		"needs predicted_indices": {Prefetch: Prefetch{Source: PrefetchPredicted, Staging: capacities(t, "8")[0]}},
		"candidates beyond K":     {Candidates: 24, Prefetch: Prefetch{Source: PrefetchCandidates, Staging: capacities(t, "8")[0]}},
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
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Shape: Shape{ShareHeads: true}}
	if _, err := Run(context.Background(), shared, o); err == nil || !strings.Contains(err.Error(), "only stream of its layer") {
		t.Errorf("a trace without heads: %v", err)
	}
}
