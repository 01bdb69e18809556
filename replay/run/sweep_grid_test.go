package run

import (
	"context"
	"reflect"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// A sweep over the cells that the store lacks gives the same rows as a fresh run. A run that
// continues an interrupted one gives these rows, too.
func TestSweepsResume(t *testing.T) {
	f, err := trace.Open(realTrace)
	fatal.If(t, err)
	defer f.Close()
	store, err := OpenStore(t.TempDir())
	fatal.If(t, err)
	grid, err := setting.ParseCapacities([]string{"sweep:16"})
	fatal.If(t, err)
	run := func(o Options) []result.Row {
		t.Helper()
		o.Policies = specs(t, "lru", "window:1", "window:2", "window:3", "window:9")
		r, err := Run(context.Background(), f, o)
		fatal.If(t, err)
		return r.Rows
	}
	run(Options{Capacities: grid[3:5], Store: store})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if _, err = Run(ctx, f, Options{Policies: specs(t, "lru"), Capacities: grid[:9], Store: store, Progress: func(int) { stop() }}); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	if got, want := run(Options{Capacities: grid, Store: store, Workers: 2}), run(Options{Capacities: grid, oneByOne: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("rows differ from those of a fresh run one by one")
	}
}
