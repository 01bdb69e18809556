package policytest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/trace"
)

// model replays a setting by the definitions S1–S5 with a map of residents. A Reference names the
// blocks that leave.
type model struct {
	*setting
	reference Reference
	capacity  int // of the step
	resident  map[int32]bool
	demands   [][]int32 // of every replayed row, ascending
	first     int       // first replayed row of the stream
}

// replayReference replays the setting with a reference and returns the history of all steps.
func replayReference(c *setting, r Reference) (steps []step, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the reference panics after %d steps: %v", len(steps), p)
		}
	}()
	m := &model{setting: c, reference: r, capacity: c.capacity, resident: map[int32]bool{}, first: c.stream.Windows - c.replayedWindows()}
	for row := m.first; row < c.stream.Rows; row++ {
		m.demands = append(m.demands, m.demand(row))
	}
	r.Reset(m.scope())
	if err := m.place(); err != nil {
		return nil, err
	}
	for row := m.first; row < c.stream.Rows; row++ {
		s, err := m.step(row)
		if err != nil {
			return steps, fmt.Errorf("step T = %d: the reference %w", s.T, err)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func (m *model) scope() policies.Scope {
	sc := policies.Scope{Blocks: m.blocks(m.stream.MaxSeqLen()), Capacity: m.capacity, Steps: len(m.demands), Windows: m.replayedWindows(), Seed: m.scopeSeed}
	for _, d := range m.demands {
		sc.Demand = max(sc.Demand, len(d))
	}
	return sc
}

func (m *model) place() error {
	placed, err := referee.Placed(m.stream, m.refereeConfig())
	if err != nil || len(placed) == 0 {
		return err
	}
	for _, x := range placed {
		m.resident[x] = true
	}
	m.reference.Step(&Step{Births: placed, TopK: m.topK, next: func(x int32) int32 { return m.next(x, m.first-1) }})
	return nil
}

// pinned reports whether a token of block b is a sink or in the local window (S2).
func (m *model) pinned(b int32, seqLen int) bool {
	return int(b)*m.blockTokens < m.sink || (int(b)+1)*m.blockTokens > seqLen-m.local
}

// demand returns D_t of a row, ascending (S4).
func (m *model) demand(row int) []int32 {
	var demand []int32
	for _, x := range head(m.stream.List(row), m.topK) {
		if b := m.blockOf(x); !m.pinned(b, m.stream.SeqLen(row)) {
			demand = append(demand, b)
		}
	}
	slices.Sort(demand)
	return slices.Compact(demand)
}

// picked returns the number of entries of a block that the row demands.
func (m *model) picked(b int32, row int) int {
	return slice.Count(head(m.stream.List(row), m.topK), func(x int32) bool { return m.blockOf(x) == b })
}

func head[T any](list []T, n int) []T { return list[:min(n, len(list))] }

// births returns the blocks whose last token left the local window since the step before. At the
// first step, one token left it (S3).
func (m *model) births(row int) (born []int32) {
	seqLen := m.stream.SeqLen(row)
	before := seqLen - 1
	if row > m.first {
		before = m.stream.SeqLen(row - 1)
	}
	for token := max(before-m.local, 0); token < seqLen-m.local; token++ {
		b := int32(token / m.blockTokens)
		if (token+1)%m.blockTokens == 0 && !m.pinned(b, seqLen) {
			born = append(born, b)
		}
	}
	return born
}

// resize sets the capacity of a row's step.
func (m *model) resize(row int) {
	for _, at := range m.later {
		if m.stream.Steps[row] >= at.Step {
			m.capacity = at.Capacity
		}
	}
	if r, ok := m.reference.(policies.Resizer); ok {
		r.Resize(m.capacity)
	}
}

// step replays a row: births, classification, fetch, eviction.
func (m *model) step(row int) (step, error) {
	demand := m.demands[row-m.first]
	m.resize(row)
	s := &Step{T: m.time(row), Before: m.residents(), Births: m.births(row), Demand: demand, TopK: m.topK}
	s.List = head(m.stream.List(row), m.candidates)
	if scores := m.stream.ScoreList(row); scores != nil {
		s.Scores = head(scores, m.candidates)
	}
	s.next = func(x int32) int32 { return m.next(x, row) }
	s.picked = func(x int32) int { return m.picked(x, row) }
	for _, x := range s.Births {
		m.resident[x] = true
	}
	for _, x := range demand {
		if m.resident[x] {
			s.Hits = append(s.Hits, x)
		} else {
			s.Misses = append(s.Misses, x)
		}
	}
	for _, x := range s.Misses {
		m.resident[x] = true
	}
	out := step{T: s.T, before: s.Before, demand: demand, born: s.Births, births: len(s.Births), misses: s.Misses}
	err := m.leave(s, &out)
	out.resident = len(m.resident)
	return out, err
}

// leave asks the reference for the blocks that leave, checks the answers and applies them (S4, S5).
func (m *model) leave(s *Step, out *step) (err error) {
	overflow := max(0, len(s.Demand)-m.capacity)
	bypasser, bypasses := m.reference.(KeepsOut)
	if !bypasses {
		s.Pass = m.surplus(s, overflow)
	}
	m.reference.Step(s)
	out.keptOut = s.Pass
	if bypasses {
		out.keptOut = bypasser.KeepOut(overflow, slices.Clone(s.Demand))
	}
	outside := slices.DeleteFunc(m.residents(), func(x int32) bool { return slices.Contains(s.Demand, x) })
	if out.keptOut, err = m.remove("keeps out", out.keptOut, overflow, s.Demand); err != nil {
		return err
	}
	need := max(0, len(m.resident)-m.capacity)
	out.victims, err = m.remove("evicts", m.reference.Victims(need, slices.Clone(outside)), need, outside)
	return err
}

// surplus returns the members of D_t that S5 drops: worst rank first, without ranks lowest index
// first.
func (m *model) surplus(s *Step, n int) (pass []int32) {
	order := slices.Clone(s.Demand)
	if m.meta.Order == trace.OrderRank {
		rank := func(b int32) int { return slices.IndexFunc(s.List, func(x int32) bool { return m.blockOf(x) == b }) }
		slices.SortFunc(order, func(a, b int32) int { return rank(b) - rank(a) })
	}
	return order[:n]
}

// remove takes blocks out of the cache after checking that they may leave.
func (m *model) remove(verb string, blocks []int32, least int, from []int32) ([]int32, error) {
	if len(blocks) < least {
		return blocks, fmt.Errorf("%s %d blocks, expected at least %d", verb, len(blocks), least)
	}
	for _, x := range blocks {
		if !m.resident[x] || !slices.Contains(from, x) {
			return blocks, fmt.Errorf("%s block %d, which is not one of %v (or names it twice)", verb, x, from)
		}
		delete(m.resident, x)
	}
	return sorted(blocks), nil
}

func (m *model) residents() []int32 {
	return slices.Sorted(maps.Keys(m.resident))
}

func (m *model) time(row int) int32 { return int32(row - m.stream.Windows) }

// next returns the step of the next demand of x after row (S9).
func (m *model) next(x int32, row int) int32 {
	for later := row + 1; later < m.stream.Rows; later++ {
		if _, ok := slices.BinarySearch(m.demands[later-m.first], x); ok {
			if m.time(later) < 0 {
				return policies.Never
			}
			return m.time(later)
		}
	}
	return policies.Never
}
