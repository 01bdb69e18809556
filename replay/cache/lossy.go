package cache

import (
	"errors"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/demand"
)

// lose is the miss rule of lossy policies (policies.Lossy). A block that the policy dropped is never
// fetched. If it is demanded, it is lost. Cells of lossy policies replay single streams only. A
// block that is held or pinned is in state outside. In prompt windows, all blocks are.
//
// Lost blocks do not change later demands, which are those of the full model.
type lose struct {
	policy    policies.Lossy // nil if the policy does not implement it
	view      *demand.Delta
	attention demand.Attention
	prompt    policies.Prompt
	free      int // the first block that no sink pins
	local     int // the first block that the local window pins

	born, lost, list []int32
	weights          []float32
	kept, covered    int64 // masses of the current step
}

// NewLossyCell returns the cell of a policy with Traits.Lossy.
func NewLossyCell(p policies.Policy) *Cell {
	c := NewCell(p)
	c.lossy = new(lose)
	c.lossy.policy, _ = p.(policies.Lossy)
	c.rule, c.bypasser, c.resizer = c.lossy, nil, nil
	return c
}

// MassUnit stands for an attention mass of 1 in Counts. Masses are summed as integers, so that
// pooling is exact in any order.
const MassUnit = 1 << 32

func (l *lose) reset(v demand.View, a demand.Attention) error {
	if l.policy == nil {
		return errors.New("policy has Traits.Lossy but no method Prompt(*policies.Prompt)")
	}
	l.view, l.attention = v.(*demand.Delta), a
	l.free, l.local = 0, 0
	return nil
}

// arrive passes the prompt to the policy before the first counted step. From then on, the blocks
// that leave the local window become held.
func (l *lose) arrive(c *Cell, _ demand.View, i int) error {
	c.arrived, l.lost = nil, l.lost[:0]
	c.step = policies.Step{T: c.step.T, Demand: c.step.Demand}
	if i < c.windows {
		return nil
	}
	d := l.view
	c.arrived = c.change.Born
	if i == c.windows {
		if err := l.compress(c); err != nil {
			return err
		}
		l.born = d.AppendLeaving(l.born[:0], i) // earlier blocks are part of the prompt
		c.arrived = l.born
	}
	c.step.Offered = c.arrived
	l.local = d.FirstLocal(i)
	c.size += len(c.arrived)
	return nil
}

// compress passes the prompt to the policy, which evicts blocks down to its budget.
func (l *lose) compress(c *Cell) error {
	l.view.Prompt(&l.prompt)
	l.free, l.local = l.prompt.First, l.prompt.End
	c.size = max(0, l.local-l.free)
	l.policy.Prompt(&l.prompt)
	if err := c.evict(); err != nil {
		return err
	}
	c.victims = c.victims[:0]
	return nil
}

// classify finds the lost blocks of a counted step, and fills the list that the policy sees. In a
// prompt window, the policy sees the list alone.
func (l *lose) classify(c *Cell, v demand.View, i int) {
	if i >= c.windows {
		demand := v.Members(i)
		l.lost = slices.Grow(l.lost, len(demand))[:len(demand)]
		lost, n := l.lost, 0
		for _, x := range demand { // writes every block and counts the absent ones, without a branch
			lost[n] = x
			n += 1 - int(c.state[x])
		}
		l.lost = lost[:n]
	}
	d, a := l.view, l.attention
	list := d.Listed(i)
	if c.needs&(policies.NeedCandidates|policies.NeedAttention) != 0 {
		l.show(c, list, d.Attention(a, i))
	}
	l.kept, l.covered = 0, 0
	switch {
	case a.Masses:
		l.sum(c.state, list, d.Attention(a, i))
	case a.Covered:
		l.covered = int64(math.RoundToEven(d.CoveredMass(i) * MassUnit))
	}
}

// keep does nothing, because a lossy policy bypasses no block.
func (l *lose) keep(*Cell, demand.View, int) error { return nil }

// show fills the list that the policy sees with the blocks that are not dropped, and their attention.
func (l *lose) show(c *Cell, list []int32, given []float32) {
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

// sum adds up the attention to all blocks of a list, and to those that are not dropped.
func (l *lose) sum(state []uint8, list []int32, given []float32) {
	given = given[:len(list)]
	kept, covered := int64(0), int64(0)
	for j, x := range list {
		mass := int64(math.RoundToEven(float64(given[j]) * MassUnit))
		covered += mass
		kept += mass * int64(state[x])
	}
	l.kept, l.covered = min(kept, MassUnit), min(covered, MassUnit) // rounded shares may add up to slightly more than 1
}

// heldBlocks returns the blocks that a lossy cell holds, ascending.
func (c *Cell) heldBlocks() (blocks []int32) {
	for x := c.lossy.free; x < c.lossy.local; x++ {
		if c.state[x] != absent {
			blocks = append(blocks, int32(x))
		}
	}
	return blocks
}
