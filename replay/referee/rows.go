package referee

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// row is one step of a cell: one recorded row, or several that are replayed as one.
type row struct {
	step   int32
	first  int // context at its first position, in tokens
	seqLen int // context at its last position
	list   []listed

	predicted []int32 // blocks, best first, perhaps repeated
}

// listed is an entry of a list.
type listed struct {
	name   entryName
	block  int32
	score  float32
	picked bool // among the first K of its list
}

// entryName identifies an entry of a step: one token of one head.
type entryName struct {
	head  int
	entry int32
}

// rows joins the lists of heads. The lists of a step are interleaved, best ranks of all heads
// first.
func (c Config) rows(heads []*trace.Stream, hasRanks bool) []row {
	var rows []row
	var parts [][]part // for each row
	for i, step := range heads[0].Steps {
		last := len(rows) - 1
		if step < 0 || last < 0 || rows[last].step < 0 || int(step)/c.positions() != int(rows[last].step)/c.positions() {
			rows, parts = append(rows, row{first: heads[0].SeqLen(i)}), append(parts, nil)
			last++
		}
		rows[last].step, rows[last].seqLen = step, heads[0].SeqLen(i)
		for h, s := range heads {
			parts[last] = append(parts[last], part{h, s.List(i), s.ScoreList(i), s.PredictedList(i)})
		}
	}
	for i := range rows {
		rows[i].list, rows[i].predicted = c.merge(parts[i], rows[i].seqLen), c.mergePredicted(parts[i])
		if !hasRanks {
			slices.SortStableFunc(rows[i].list, func(a, b listed) int { return int(a.block - b.block) })
		}
	}
	return rows
}

// interleave returns the rows of a pool in decode order: for each step those of all streams. The
// blocks of the n-th stream are raised by n × stride.
func (x *cell) interleave(streams [][]*trace.Stream) (all []row) {
	var own [][]row
	for n, heads := range streams {
		rows := x.Config.rows(heads, x.hasRanks)
		for i := range rows {
			for j := range rows[i].list {
				rows[i].list[j].block += int32(n) * x.stride
			}
		}
		own = append(own, rows)
	}
	for i := range own[0] {
		for n := range own {
			all = append(all, own[n][i])
		}
	}
	return all
}

// part is one recorded list.
type part struct {
	head   int
	list   []int32
	scores []float32
	ahead  []int32 // predicted blocks
}

// merge takes rank 0 of every list, then rank 1, up to M.
func (c Config) merge(parts []part, seqLen int) (all []listed) {
	for rank := range c.Candidates {
		for _, p := range parts {
			if rank >= len(p.list) || c.all != nil && c.tokenPinned(p.list[rank], seqLen) {
				continue
			}
			e := listed{name: entryName{p.head, p.list[rank]}, block: c.unitOf(p.list[rank]), picked: rank < c.TopK}
			if p.scores != nil {
				e.score = p.scores[rank]
			}
			all = append(all, e)
		}
	}
	return all
}

// mergePredicted takes rank 0 of every prediction, then rank 1 and so on.
func (c Config) mergePredicted(parts []part) (blocks []int32) {
	for rank, more := 0, true; more; rank++ {
		more = false
		for _, p := range parts {
			if rank < len(p.ahead) {
				blocks, more = append(blocks, c.unitOf(p.ahead[rank])), true
			}
		}
	}
	return blocks
}

func (c Config) positions() int { return max(1, c.StepTokens) }

// sameSteps reports heads that cannot share a cache.
func sameSteps(heads []*trace.Stream) error {
	for _, s := range heads {
		if !slices.Equal(s.Steps, heads[0].Steps) || s.PromptLen != heads[0].PromptLen {
			return fmt.Errorf("referee: %v and %v share blocks, expected equal prompt lengths and steps", heads[0].Key, s.Key)
		}
	}
	return nil
}
