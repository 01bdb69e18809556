package replay

import (
	"errors"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/trace"
)

// lose is the miss rule of lossy policies (policies.Lossy): a block that the policy dropped
// is never fetched, and a demanded block that is not held is lost. Its cells see single
// streams only. A block is in state outside if it is held or pinned; in a prompt window all
// blocks are.
//
// Replay is open loop: later demands are those of the full model.
type lose struct {
	policy    policies.Lossy // nil if the policy is none
	view      *Delta
	attention attention
	prompt    policies.Prompt
	free      int // the first block that no sink pins
	local     int // the first block that the local window pins

	born, lost, list []int32
	weights          []float32
	kept, covered    int64 // masses of the current step
}

// newLossyCell makes the cell of a policy that claims to be lossy.
func newLossyCell(p policies.Policy) *cell {
	c := newCell(p)
	c.lossy = new(lose)
	c.lossy.policy, _ = p.(policies.Lossy)
	c.rule, c.bypasser, c.resizer = c.lossy, nil, nil
	return c
}

// massUnit is the attention mass of 1 in Counts: masses are summed as integers, so that
// pooling is exact in any order.
const massUnit = 1 << 32

// attention is what a trace says of the attention that listed blocks were given.
type attention struct {
	weights bool // for policies: attention_mass, or softmax scores
	masses  bool // shares of a step's attention: attention_mass, or softmax scores that are no maxima
	covered bool // covered_mass says how much of it the whole list holds, where masses do not
	scores  bool // both are in the column of scores
}

// attentionOf looks at a trace's columns.
func attentionOf(m *trace.Meta, hasMass, hasScores, hasCovered bool) (a attention) {
	switch {
	case hasMass:
		a.weights, a.masses = true, true
	case hasScores && m.ScoreKind == "softmax":
		a.weights, a.scores, a.masses = true, true, m.Reducer == trace.ReducerMean || m.Reducer == trace.ReducerNone
	}
	a.covered = hasCovered && !a.masses
	return a
}

// given is the attention that the blocks of a row's list were given, nil if the trace has none.
func (a attention) given(s *trace.Stream, row int) []float32 {
	switch {
	case !a.weights:
		return nil
	case a.scores:
		return s.ScoreList(row)
	}
	return s.AttentionMass[s.Offsets[row]:s.Offsets[row+1]]
}

func (l *lose) reset(c *cell, v View, a attention) error {
	if l.policy == nil {
		return errors.New("policy claims Traits.Lossy and has no method Prompt(*policies.Prompt)")
	}
	l.view, l.attention = v.(*Delta), a
	l.free, l.local = 0, 0
	return nil
}

// arrive hands the prompt over before the first counted step, and then makes the blocks held
// that leave the local window.
func (l *lose) arrive(c *cell, _ View, i int) error {
	c.arrived, l.lost = nil, l.lost[:0]
	c.step = policies.Step{T: c.step.T, Demand: c.step.Demand}
	if i < c.windows {
		return nil
	}
	d := l.view
	seqLen := d.stream.SeqLen(d.first + i)
	c.arrived = c.change.Born
	if i == c.windows {
		if err := l.compress(c); err != nil {
			return err
		}
		l.born = d.pins.appendBirths(l.born[:0], seqLen-1, seqLen) // earlier ones are part of the prompt
		c.arrived = l.born
	}
	c.step.Offered = c.arrived
	l.local = d.pins.firstLocal(seqLen)
	c.size += len(c.arrived)
	return nil
}

// compress hands over the prompt, which the policy cuts to its budget.
func (l *lose) compress(c *cell) error {
	l.view.promptOf(&l.prompt)
	l.free, l.local = l.prompt.First, l.prompt.End
	c.size = max(0, l.local-l.free)
	l.policy.Prompt(&l.prompt)
	if err := c.evict(); err != nil {
		return err
	}
	c.victims = c.victims[:0]
	return nil
}

// promptOf fills p for the stream of d, windows left out.
func (d *Delta) promptOf(p *policies.Prompt) {
	s := d.stream
	before := s.SeqLen(s.Windows) - 1 // the context in front of the first counted step
	*p = policies.Prompt{Layer: s.Layer, Head: s.Head, Blocks: d.pins.blocks(int(s.PromptLen)), First: d.pins.firstFree(), End: d.pins.firstLocal(before)}
	p.Most = max(0, d.pins.firstLocal(s.MaxSeqLen())-p.First)
	if len(s.PromptMass) > 0 {
		p.Mass = s.PromptMass
	}
}

// classify finds the demanded blocks that are lost, and shows the policy the list. Of a prompt
// window the policy only sees the list.
func (l *lose) classify(c *cell, v View, i int) {
	if i >= c.windows {
		demand := v.Members(i)
		l.lost = slices.Grow(l.lost, len(demand))[:len(demand)]
		lost, n := l.lost, 0
		for _, x := range demand { // all are written, some are kept: no branch to mispredict
			lost[n] = x
			n += 1 - int(c.state[x])
		}
		l.lost = lost[:n]
	}
	d, a := l.view, l.attention
	row := d.first + i
	list, _ := d.rows.list(row)
	if c.needs&(policies.NeedCandidates|policies.NeedAttention) != 0 {
		l.show(c, list, a.given(d.stream, row))
	}
	l.kept, l.covered = 0, 0
	switch {
	case a.masses:
		l.sum(c.state, list, a.given(d.stream, row))
	case a.covered:
		l.covered = int64(math.RoundToEven(float64(d.stream.CoveredMass[row]) * massUnit))
	}
}

// keep keeps everything: a lossy policy evicts.
func (l *lose) keep(*cell, View, int) error { return nil }

// show tells the policy which blocks of a list are still there, and what attention they were
// given.
func (l *lose) show(c *cell, list []int32, given []float32) {
	l.list, l.weights = l.list[:0], l.weights[:0]
	weighs := c.needs&policies.NeedAttention != 0
	for j, x := range list {
		if c.state[x] == absent {
			continue
		}
		l.list = append(l.list, x)
		if weighs {
			l.weights = append(l.weights, given[j])
		}
	}
	c.step.List = l.list
	if weighs {
		c.step.Scores = l.weights
	}
}

// sum adds up the attention that a list was given, and that of its blocks that are still there.
func (l *lose) sum(state []uint8, list []int32, given []float32) {
	given = given[:len(list)]
	kept, covered := int64(0), int64(0)
	for j, x := range list {
		mass := int64(math.RoundToEven(float64(given[j]) * massUnit))
		covered += mass
		kept += mass * int64(state[x])
	}
	l.kept, l.covered = min(kept, massUnit), min(covered, massUnit) // rounded shares may add up to a little over 1
}

// held are the blocks that a lossy cell holds, ascending.
func (c *cell) heldBlocks() (blocks []int32) {
	for x := c.lossy.free; x < c.lossy.local; x++ {
		if c.state[x] != absent {
			blocks = append(blocks, int32(x))
		}
	}
	return blocks
}
