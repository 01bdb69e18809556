package referee

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
)

// StepCounts holds the counts of one step. Counted steps have T ≥ 0, and result rows sum those.
type StepCounts struct {
	T    int32 // recorded steps without gaps: windows are negative, the first counted step is 0
	Step int32 // step number of the trace

	Stream int // stream of the row in a pool

	Demand    int // |D_t|
	Hits      int // |D_t ∩ R|
	Misses    int // |D_t \ R|
	Births    int // blocks that left the local window
	Evictions int // blocks of Victims
	Overflow  int // max(0, |D_t| - C), 0 for policies without capacity
	Resident  int // blocks of the stream resident after the step, without pinned ones

	Pinned int // blocks of sinks, local window and outliers

	DemandEntries, MissedEntries int // entries of D_t, and of its missed blocks

	Prefetched Prefetched

	// Ahead lists the blocks that the step fetched into the buffer. Dropped ones left it before the demand,
	// and Expired ones after it. All ascend.
	Ahead, Dropped, Expired []int32

	// Order is Victims in the order of eviction.
	Order []int32

	// The blocks behind the counts, ascending. Victims are the blocks outside D_t that the step
	// evicted. KeptOut are the members of D_t, hit or missed, that are not resident after it.
	// Residents are all resident blocks.
	Born, Hit, Missed, Victims, KeptOut, Residents []int32
}

// entry holds the properties of a resident block for eviction orders.
type entry struct {
	lastUse  int // T of its last demand, or of its birth or placement if there was none
	inserted int // T of its fetch, birth or placement
	uses     int // steps that demanded it since then, including the one that fetched it

	offered bool // not demanded since it was inserted: ordered after demanded blocks of equal last use (S3)
	swapped bool // prefetched and not demanded since
}

// cell is one run: a configuration, a stream, and the cache.
type cell struct {
	Config
	rows     []row
	hasRanks bool
	resident map[int32]*entry
	buffer   []int32         // prefetched blocks
	first    int             // first replayed row
	width    int             // streams that share the cache
	windows  int             // rows with step < 0 of all streams
	demands  map[int32][]int // rows that demand a block, ascending
}

// newCell returns a cell of the streams that share a cache, and the blocks that its warm-up places.
func newCell(streams [][]*trace.Stream, hasRanks bool, c Config) (*cell, []int32, error) {
	s := streams[0][0]
	var all []*trace.Stream
	for _, heads := range streams {
		if err := c.validate(heads[0], hasRanks); err != nil {
			return nil, nil, err
		}
		all = append(all, heads...)
	}
	if err := sameSteps(all); err != nil {
		return nil, nil, err
	}
	first, err := c.firstRow(s)
	if err != nil {
		return nil, nil, err
	}
	if c.Clusters != nil {
		c.all = c.units(s.MaxSeqLen())
	}
	x := &cell{Config: c, hasRanks: hasRanks, resident: map[int32]*entry{}, width: len(streams), demands: map[int32][]int{}}
	x.stride = int32((s.MaxSeqLen() + c.BlockTokens - 1) / c.BlockTokens)
	if c.all != nil {
		x.stride = int32(len(c.all))
	}
	x.rows = x.interleave(streams)
	x.first, x.windows = first*x.width, windows(s)*x.width
	x.kept = x.outliers(c.Outliers, int(s.PromptLen))
	placed, err := x.placed(s)
	return x, placed, err
}

// run replays all rows. The placed blocks are resident at first.
func (x *cell) run(placed []int32) []StepCounts {
	for row := range x.rows {
		for _, b := range x.demand(row) {
			x.demands[b] = append(x.demands[b], row)
		}
	}
	if x.Prefetch.Predictor != nil {
		x.Prefetch.Predictor.Reset(int(x.stride))
	}
	for _, b := range placed {
		x.resident[b] = &entry{lastUse: -1, inserted: -1, uses: 0}
	}
	var steps []StepCounts
	for row := x.first; row < len(x.rows); row++ {
		steps = append(steps, x.step(row, row < x.first+x.width))
	}
	return steps
}

// time returns T of a row. Rows count from the first step ≥ 0.
func (x *cell) time(row int) int { return row - x.windows }

// windows returns the number of rows with step < 0.
func windows(s *trace.Stream) int {
	return slice.Count(s.Steps, func(step int32) bool { return step < 0 })
}

// firstRow returns the row of the cell's first step (S8).
func (c Config) firstRow(s *trace.Stream) (int, error) {
	if c.Warmup.Kind != WarmRun {
		return windows(s), nil
	}
	if c.Warmup.Windows < 0 || c.Warmup.Windows > windows(s) {
		return 0, fmt.Errorf("referee: warm-up over %d windows, the stream has %d", c.Warmup.Windows, windows(s))
	}
	return windows(s) - c.Warmup.Windows, nil
}

// step replays one row: births, classification, fetch, eviction (S3, S4).
func (x *cell) step(row int, first bool) StepCounts {
	t := x.time(row)
	out := StepCounts{T: int32(t), Step: x.rows[row].step, Stream: row % x.width}
	x.Capacity = x.At(out.Step)

	var crowded []int32
	prefetches := x.Prefetch.Size > 0 && t >= 0
	if prefetches && x.Prefetch.Swap {
		crowded = x.swap(row, &out)
	}
	for _, b := range x.births(row, first) {
		x.resident[b] = &entry{lastUse: t - 1, inserted: t - 1, uses: 0, offered: true}
		out.Born = append(out.Born, b)
	}
	if prefetches && !x.Prefetch.Swap {
		crowded = x.stage(row, &out)
	}
	demand := x.demand(row)
	x.teach(row, out.Born, demand)
	x.classify(demand, &out)
	for _, b := range out.Missed {
		x.resident[b] = &entry{inserted: t}
	}
	for _, b := range demand {
		e := x.resident[b]
		if e.swapped {
			out.Prefetched.Useful++
		}
		e.lastUse, e.offered, e.swapped = t, false, false
		e.uses++
	}

	if prefetches {
		fetched := x.serve(out.Missed, crowded, &out)
		hit := slice.Filter(out.Missed, func(b int32) bool { return !slices.Contains(fetched, b) })
		out.Hit, out.Missed = append(out.Hit, hit...), fetched
	}
	demanded := setOf(demand)
	for _, b := range x.leaving(row, demand) {
		if demanded[b] {
			delete(x.resident, b)
			out.KeptOut = append(out.KeptOut, b)
		} else {
			x.evict(b, &out)
		}
	}
	out.Order = slices.Clone(out.Victims)
	out.Residents = x.residents(row)
	out.Pinned = x.pinnedBlocks(row)
	out.DemandEntries, out.MissedEntries = x.entriesOf(row, demand), x.entriesOf(row, out.Missed)
	return x.count(out, len(demand))
}

// classify divides the demand of a whole step by the residents at its start.
func (x *cell) classify(demand []int32, out *StepCounts) {
	for _, b := range demand {
		if x.resident[b] != nil {
			out.Hit = append(out.Hit, b)
		} else {
			out.Missed = append(out.Missed, b)
		}
	}
}

func (x *cell) residents(row int) (blocks []int32) {
	for b := range x.resident {
		if int(b/x.stride) == row%x.width {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// count sorts a step's blocks and sets their numbers.
func (x *cell) count(out StepCounts, demand int) StepCounts {
	for _, blocks := range [][]int32{out.Born, out.Hit, out.Missed, out.Victims, out.KeptOut, out.Residents, out.Ahead, out.Dropped, out.Expired} {
		slices.Sort(blocks)
	}
	out.Demand, out.Hits, out.Misses = demand, len(out.Hit), len(out.Missed)
	out.Births, out.Evictions, out.Resident = len(out.Born), len(out.Victims), len(out.Residents)
	out.Overflow = max(0, demand-x.capacity())
	if x.all != nil {
		out.Overflow, out.Resident = len(out.KeptOut), x.residentWeight()
	}
	return out
}
