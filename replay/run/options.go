package run

import (
	"cmp"
	"fmt"
	"time"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// Detail selects the rows over which a cell's counts are pooled.
type Detail string

// Pooling of a cell's rows.
const (
	PerCell    Detail = "cell"    // one row per cell
	PerRequest Detail = "request" // one row per request
	PerLayer   Detail = "layer"   // one row per layer, requests pooled
	PerStream  Detail = "stream"  // one row per stream
)

// Options describe the replay of a trace. Every field except Policies may be zero.
type Options struct {
	Policies   []policies.Spec
	Capacities []setting.Capacity // for policies that have a capacity
	Warmup     setting.Warmup     // zero: auto
	TopK       int                // K in the unit of the trace's lists. 0: the trace's
	Candidates int                // M in that unit. 0: the trace's
	Sink       *int               // pinned first tokens. nil: the trace's, or 0
	Local      *int               // pinned last tokens. nil: the trace's, or 1
	EntryBytes *int               // bytes of an entry. nil: the trace's
	Shape      setting.Shape      // joining of recorded rows. Zero: none
	Clusters   *demand.Clusters   // units of unequal sizes. nil: blocks
	Pool       setting.Pool       // streams that share a cache. Empty: none
	Outliers   setting.Outliers   // blocks that stay on the GPU. Zero: none
	Prefetch   setting.Prefetch   // zero: none
	Tiers      []setting.Tier     // caches below the GPU's, fastest first
	Inclusive  bool               // tiers keep a copy of fetched blocks. false: they keep victims of the cache above
	Layers     []int32            // nil: all
	Allocation *allocate.Plan     // replaces capacities, or the N of window:N. nil: none
	Requests   []string           // nil: all
	// Reallocation divides the memory of Allocation again every N steps. Zero means never.
	Reallocation allocate.Reallocation
	Per          Detail // empty: cell
	Workers      int    // 0: one
	Seed         uint64

	// SkipUnable leaves out policies that cannot run on the trace, with a note. If it is false,
	// such a policy is an error.
	SkipUnable bool
	// Referee replays every cell with package referee too and stops at the first difference.
	Referee bool
	// Profile receives the steps of every cell, in the order of streams, cells, steps.
	Profile *Profile
	// Store keeps finished cells and returns them to later runs. Nil keeps none. With Referee or
	// Profile every cell is replayed.
	Store *Store
	// Fresh also replays cells that the store has.
	Fresh bool
	// Checkpoint is the interval at which the store saves the counts of an unfinished trace. Zero
	// means DefaultCheckpoint.
	Checkpoint time.Duration
	// Progress receives the number of replayed rows, once per cell, from any goroutine.
	Progress func(rows int)

	oneByOne bool // no sweeps. Tests compare runs with and without
	chunk    int  // replaces chunkIndices in tests. 0: none
}

// check rejects unknown or incomplete options, which rows cannot state.
func (o *Options) check() error {
	switch o.Per {
	case "", PerCell, PerRequest, PerLayer, PerStream:
	default:
		return fmt.Errorf("rows per %q: expected %s, %s, %s or %s", o.Per, PerCell, PerRequest, PerLayer, PerStream)
	}
	_, pool := setting.ParsePool(string(o.Pool))
	_, prefetch := setting.ParsePrefetch(o.Prefetch.String())
	_, outliers := setting.ParseOutliers(o.Outliers.String())
	return cmp.Or(o.Warmup.Check(), pool, prefetch, outliers)
}
