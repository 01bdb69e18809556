package run

import (
	"context"
	"fmt"
	"testing"

	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// BenchmarkMechanisms measures one LRU cell from a file, plain and with each mechanism. All speeds
// are in demanded blocks of the plain run per second.
func BenchmarkMechanisms(b *testing.B) {
	f, windowed := syntheticFile(b, 4, benchM), windowedFile(b, 4, benchM, 32)
	clusters := mustClusters(b, clusterFile(b, f))
	for _, m := range []struct {
		name   string
		change func(*Options)
	}{
		{"plain", func(*Options) {}},
		{"blocks", func(o *Options) { // the demand fits the capacity: this does not measure overflow
			o.Shape.BlockTokens, o.Capacities = 8, capacities(b, "8x")
		}},
		{"overflow", func(o *Options) { o.Capacities = capacities(b, "0.5x") }},
		{"multi-token", func(o *Options) { o.Shape.StepTokens = 2 }},
		{"prefetch", func(o *Options) {
			o.Prefetch = setting.Prefetch{Source: setting.PrefetchCandidates, Staging: capacities(b, "0.1x")[0]}
		}},
		{"swap", func(o *Options) {
			o.Prefetch = setting.Prefetch{Source: setting.PrefetchCandidates, Staging: capacities(b, "0.1x")[0], Swap: true}
		}},
		{"clusters", func(o *Options) { o.Clusters, o.Capacities = clusters, capacities(b, "8x") }},
		{"outliers", func(o *Options) { o.Outliers = setting.Outliers{Source: setting.OutliersWindows, Count: 48} }},
		{"tiers", func(o *Options) { o.Tiers = tiers(b, "dram=lru@4x") }},
		{"inclusive-tiers", func(o *Options) { o.Tiers, o.Inclusive = tiers(b, "dram=lru@4x"), true }},
		{"pool", func(o *Options) { o.Pool = setting.PoolRequest }},
		{"pool-lookahead", func(o *Options) { o.Pool, o.Policies = setting.PoolRequest, specs(b, "lookahead") }},
		{"pool-lookahead-1x", func(o *Options) {
			o.Pool, o.Policies, o.Capacities = setting.PoolRequest, specs(b, "lookahead"), capacities(b, "1x")
		}},
		{"pool-1x", func(o *Options) { o.Pool, o.Capacities = setting.PoolRequest, capacities(b, "1x") }},
		{"pool-0.9x", func(o *Options) { o.Pool, o.Capacities = setting.PoolRequest, capacities(b, "0.9x") }},
		{"pool-lfu", func(o *Options) { o.Pool, o.Policies = setting.PoolRequest, specs(b, "lfu") }},
		{"pool-opt", func(o *Options) { o.Pool, o.Policies = setting.PoolRequest, specs(b, "opt") }},
		{"lookahead", func(o *Options) { o.Policies = specs(b, "lookahead") }},
		{"reallocating", func(o *Options) {
			p := &allocate.Plan{Method: "uniform", Family: allocate.Capacities, Memory: "2x", Floor: benchK, Units: allocate.Units{TopK: benchK, BlockTokens: 1, StepTokens: 1, SharedHeads: 1}}
			for layer := range int32(4) {
				p.Streams = append(p.Streams, allocate.Share{Key: allocate.Key{Layer: layer, Head: trace.NoHead}, Size: 2 * benchK})
			}
			o.Capacities, o.Allocation, o.Reallocation = nil, p, reallocation(b, fmt.Sprint(benchRows/8))
		}},
		{"growing", func(o *Options) { o.Capacities = capacities(b, fmt.Sprintf("1.5x+2x@%d", benchRows/2)) }},
	} {
		b.Run("mechanism="+m.name, func(b *testing.B) {
			o, f := Options{Policies: specs(b, "lru"), Capacities: capacities(b, "2x")}, f
			if m.change(&o); o.Outliers.Source != setting.OutliersNone {
				f = windowed
			}
			for range b.N {
				if _, err := Run(context.Background(), f, o); err != nil {
					b.Fatal(err)
				}
			}
			perAccess(b, 4*benchRows*benchK)
		})
	}
}
