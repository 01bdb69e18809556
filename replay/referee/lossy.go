package referee

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
)

// LossyCounts holds the counts of one counted step. All lists of blocks are ascending.
type LossyCounts struct {
	T, Step       int32
	Born          []int32 // left the local window
	Lost          []int32 // demanded but dropped earlier
	Dropped       []int32 // at the end of the step
	Held          []int32 // after the step, without pinned blocks
	Kept, Covered float64 // attention mass of the listed blocks that are held, and of all listed blocks
}

// lossyCell is one stream of a lossy cell: the held blocks and the state of the method.
type lossyCell struct {
	*LossyConfig
	stream *trace.Stream
	budget int
	held   map[int32]bool
	given  map[int32]float64 // h2o: attention so far
}

// RunLossy replays the stream streams[at] and returns a LossyCounts for each of its counted steps.
// streams holds the streams of its request by layer and head.
func RunLossy(streams []*trace.Stream, at int, c LossyConfig) (steps []LossyCounts, err error) {
	if err := c.parse(); err != nil {
		return nil, err
	}
	budget := c.Capacities[at]
	switch c.method {
	case "streamingllm", "h2o", "snapkv":
	case "pyramidkv":
		budget = c.pyramid(streams)[at]
	case "adakv":
		budget = c.ada(streams)[at]
	case "duoattention":
		budget = c.duo(streams)[at]
	default:
		return nil, fmt.Errorf("referee: unknown lossy policy %q", c.Policy)
	}
	x := &lossyCell{LossyConfig: &c, stream: streams[at], budget: budget, held: map[int32]bool{}, given: map[int32]float64{}}
	x.compress()
	for row := range x.stream.Steps {
		if x.stream.Steps[row] >= 0 {
			steps = append(steps, x.step(row))
		}
	}
	return steps, nil
}

// compress holds the whole prompt, observes the windows, and drops the blocks that exceed the
// budget.
func (x *lossyCell) compress() {
	s := x.stream
	for row := windows(s) - x.Windows; row < windows(s); row++ {
		x.attend(row, true)
	}
	if len(s.PromptMass) > 0 {
		for b, m := range s.PromptMass {
			x.given[int32(b)] = float64(m)
		}
	}
	for _, b := range x.open(before(s)) {
		x.held[b] = true
	}
	x.drop()
}

// attend adds the attention of a row's list to the state of h2o. In a window all blocks are held.
// It returns the masses.
func (x *lossyCell) attend(row int, window bool) (kept, covered float64) {
	list := x.stream.List(row)
	list = list[:min(len(list), x.Candidates)]
	given := x.Attention(x.stream, row)
	rank := 0
	for i, b := range list {
		there := window || x.held[b] || x.pinned(b, x.stream.SeqLen(row))
		if x.Masses {
			covered += float64(given[i])
		}
		if !there {
			continue
		}
		if x.Masses {
			kept += float64(given[i])
		}
		rank++
		if x.method != "h2o" {
			continue
		}
		if x.word("scores") == "ranks" {
			x.given[b] += 1 / float64(rank)
		} else {
			x.given[b] += float64(given[i])
		}
	}
	return min(kept, 1), min(covered, 1)
}

func (x *lossyCell) step(row int) LossyCounts {
	s := x.stream
	seqLen := s.SeqLen(row)
	last := seqLen - 1
	if row > windows(s) {
		last = s.SeqLen(row - 1)
	}
	out := LossyCounts{T: int32(row - windows(s)), Step: s.Steps[row]}
	was := setOf(x.open(last))
	for _, b := range x.open(seqLen) {
		if !was[b] {
			out.Born = append(out.Born, b)
			x.held[b] = true
		}
	}
	list := s.List(row)
	out.Lost = slice.Filter(list[:min(len(list), x.TopK)], func(b int32) bool { return !x.pinned(b, seqLen) && !x.held[b] })
	slices.Sort(out.Lost)
	out.Kept, out.Covered = x.attend(row, false)
	if c := x.LossyConfig; c.Covered && !c.Masses {
		out.Covered = float64(s.CoveredMass[row])
	}
	out.Dropped = x.drop()
	out.Held = slices.Sorted(maps.Keys(x.held))
	return out
}
