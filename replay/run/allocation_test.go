package run

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// planOf computes a plan from the rows of a run per stream, and reads it back from its file. It also
// returns the misses that the plan predicts.
func planOf(t *testing.T, o Options, memory string) (*allocate.Plan, int64) {
	t.Helper()
	o.Per = PerStream
	method, err := allocate.ParseMethod("2d-greedy")
	fatal.If(t, err)
	reports, err := allocate.Run(mustRun(t, manyStreams(t), o), allocate.Options{Policy: o.Policies[0].Entry.Name, Methods: []allocate.Spec{method}, Memory: memory})
	fatal.If(t, err)
	path := filepath.Join(t.TempDir(), "plan.yaml")
	fatal.If(t, reports[0].Plan.Write(path))
	plan, err := allocate.Read(t.Context(), path)
	fatal.If(t, err)
	return plan, reports[0].Profile.Plan.Misses
}

// LRU under a plan misses as much as the plan predicts. The referee agrees, and the rows do not
// depend on the number of workers.
func TestAllocatedCapacities(t *testing.T) {
	f := manyStreams(t)
	sizes, err := setting.ParseCapacities([]string{"sweep:8"})
	fatal.If(t, err)
	plan, predicted := planOf(t, Options{Policies: specs(t, "lru"), Capacities: sizes}, "2x")
	for workers := 1; workers <= 3; workers++ {
		rows := mustRun(t, f, Options{Policies: specs(t, "lru", "opt"), Allocation: plan, Referee: workers == 1, Workers: workers})
		if rows[0].Misses != predicted || *rows[0].Capacity != "plan:2d-greedy@2x" || rows[0].Allocation != plan.Digest() {
			t.Errorf("%d misses at %s under plan %s, expected %d", rows[0].Misses, *rows[0].Capacity, rows[0].Allocation, predicted)
		}
		if rows[1].Misses > rows[0].Misses {
			t.Errorf("opt misses %d, lru %d", rows[1].Misses, rows[0].Misses)
		}
	}
	for _, o := range []Options{
		{Policies: specs(t, "lru"), Allocation: plan, TopK: 8},
		{Policies: specs(t, "lru"), Allocation: plan, Shape: setting.Shape{ShareHeads: true}},
		{Policies: specs(t, "lru"), Allocation: plan, Capacities: capacities(t, "2x")},
	} {
		if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), "plan") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A plan of windows gives each layer and head its own N.
func TestAllocatedWindows(t *testing.T) {
	f := manyStreams(t)
	plan, predicted := planOf(t, Options{Policies: specs(t, "window:1", "window:2", "window:3", "window:4")}, "2x")
	rows := mustRun(t, f, Options{Policies: specs(t, "window:1"), Allocation: plan, Referee: true})
	if rows[0].Misses != predicted || rows[0].Policy != "window:plan:2d-greedy@2x" || rows[0].Capacity != nil {
		t.Errorf("%s misses %d, expected %d", rows[0].Policy, rows[0].Misses, predicted)
	}
	if _, err := Run(context.Background(), f, Options{Policies: specs(t, "lru"), Allocation: plan}); err == nil || !strings.Contains(err.Error(), "sets windows") {
		t.Error(err)
	}
}
