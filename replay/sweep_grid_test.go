package replay

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/decimal"
	"github.com/kvreplay/kvreplay/trace"
)

func textsOf(list []Capacity) (texts []string) {
	for _, c := range list {
		texts = append(texts, c.String())
	}
	return texts
}

func TestParseCapacities(t *testing.T) {
	for text, want := range map[string]string{
		"sweep:4":          "1x 2x 4x 8x",
		"sweep:8":          "1x 1.5x 2x 3x 4x 6x 8x 12x",
		"sweep:10":         "1x 1.4x 1.8x 2.4x 3.2x 4x 5.6x 7.2x 9.6x 12.8x",
		"2x, sweep:4 ,16x": "2x 1x 4x 8x 16x",
		"peak:window:2":    "peak:window:2",

		"1.25x,4x,4.0x,4.00x,1024":          "1.25x 4x 1024",
		"1MiB,1024KiB,1x+2x@64,1.0x+2x@064": "1MiB 1x+2x@64",
	} {
		got, err := ParseCapacities(strings.Split(text, ","))
		if err != nil || strings.Join(textsOf(got), " ") != want {
			t.Errorf("%s: %v, %v, want %s", text, textsOf(got), err, want)
		}
	}
	for _, text := range []string{"sweep:0", "sweep:", "sweep:-1", "sweep:1025", "sweep:x", "sweeps"} {
		if got, err := ParseCapacities([]string{text}); err == nil {
			t.Errorf("%s: %v, want an error", text, textsOf(got))
		}
	}
}

// The texts of every grid parse back, ascend, and keep what tables show among them.
func TestSweepGrid(t *testing.T) {
	for _, n := range []int{1, 7, SweepPoints, 100, maxSweepPoints} {
		var last decimal.Number
		for _, text := range sweepGrid(n) {
			c, err := ParseCapacity(text)
			if err != nil || c.value.Compare(last) <= 0 || c.value.Compare(decimal.Int(1)) < 0 || c.value.Compare(decimal.Int(16)) >= 0 {
				t.Fatalf("grid of %d: %s after %v: %v", n, text, last, err)
			}
			last = c.value
		}
	}
	texts := sweepGrid(SweepPoints)
	for _, want := range []string{"1x", "1.0625x", "1.5x", "2x", "3x", "4x", "8x", "15.5x"} {
		if !slices.Contains(texts, want) {
			t.Errorf("sweep has no %s: %v", want, texts)
		}
	}
}

// A sweep over what the store lacks gives the rows that a fresh run gives, and a run
// that was stopped on the way goes on to them.
func TestSweepsResume(t *testing.T) {
	f, err := trace.Open(realTrace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	store, err := OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	grid, err := ParseCapacities([]string{"sweep:16"})
	if err != nil {
		t.Fatal(err)
	}
	run := func(o Options) []result.Row {
		t.Helper()
		o.Policies = specs(t, "lru", "window:1", "window:2", "window:3", "window:9")
		r, err := Run(context.Background(), f, o)
		if err != nil {
			t.Fatal(err)
		}
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
