package run

import (
	"fmt"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/window"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// BenchmarkSweep counts all cells of a curve on a finished delta, in one pass and one by one. The
// curves are 64 capacities of LRU, and windows of 1 to 16 steps. Speeds are in accesses of one cell.
func BenchmarkSweep(b *testing.B) {
	grid, err := setting.ParseCapacities([]string{"sweep"})
	fatal.If(b, err)
	for _, w := range workloads(b) {
		var d demand.Delta
		w.build(b, &d, 0)
		var sizes, windows []int32
		for _, c := range grid {
			n, err := c.Blocks(setting.Sizing{TopK: w.plan.topk, BlockTokens: 1})
			fatal.If(b, err)
			sizes = append(sizes, int32(n))
		}
		for n := range int32(16) {
			windows = append(windows, n+1)
		}
		sweepAndSingles(b, w.name, "lru", &d, sizes, func(size int32) (policies.Policy, int) { return new(lru.Policy), int(size) })
		sweepAndSingles(b, w.name, "window", &d, windows, func(size int32) (policies.Policy, int) {
			return &window.Policy{Steps: int(size)}, policies.Unbounded
		})
	}
}

func sweepAndSingles(b *testing.B, trace, name string, d *demand.Delta, sizes []int32, policy func(size int32) (policies.Policy, int)) {
	first, _ := policy(sizes[0])
	all := cache.NewSweep(first)
	b.Run(fmt.Sprintf("trace=%s/policy=%s/cells=%d/by=sweep", trace, name, len(sizes)), func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := all.Run(d, sizes, cache.Start{Ranks: true, Unit: 1}); err != nil {
				b.Fatal(err)
			}
		}
		perAccess(b, accesses(d))
	})
	b.Run(fmt.Sprintf("trace=%s/policy=%s/cells=%d/by=one", trace, name, len(sizes)), func(b *testing.B) {
		cells := make([]*cache.Cell, len(sizes))
		starts := make([]cache.Start, len(sizes))
		for i, size := range sizes {
			p, capacity := policy(size)
			cells[i], starts[i] = cache.NewCell(p), cache.Start{Capacity: capacity, Ranks: true, Unit: 1}
		}
		for range b.N {
			for i, c := range cells {
				if _, err := c.Run(d, starts[i], nil); err != nil {
					b.Fatal(err)
				}
			}
		}
		perAccess(b, accesses(d))
	})
}

// BenchmarkCurve measures a run from a Parquet file to the rows of a curve.
func BenchmarkCurve(b *testing.B) {
	f := syntheticFile(b, 8, benchM)
	grid, err := setting.ParseCapacities([]string{"sweep"})
	fatal.If(b, err)
	for _, single := range []bool{false, true} {
		b.Run(fmt.Sprintf("cells=%d/by=%s", len(grid), map[bool]string{false: "sweep", true: "one"}[single]), func(b *testing.B) {
			o := Options{Policies: specs(b, "lru"), Capacities: grid, oneByOne: single}
			perRun(b, f, o)
		})
	}
}
