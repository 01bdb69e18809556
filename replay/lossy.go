package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/trace"
)

// lossyCell replays a lossy policy at one budget (policies.Lossy): what it dropped is never
// fetched, a demanded block that is not held is lost. It keeps its memory from stream to
// stream; one per goroutine.
//
// Replay is open loop: later demands are those of the full model.
type lossyCell struct {
	policy policies.Lossy
	needs  policies.Needs

	there  []uint8 // 1: held or pinned, or of a window, which sees all there is
	free   int     // the first block that no sink pins
	local  int     // the first block that the local window pins
	size   int     // blocks held
	budget int
	scope  policies.Scope
	step   policies.Step
	prompt policies.Prompt
	counts Counts
	report StepReport

	born, lost, victims, list []int32
	weights                   []float32
}

func newLossyCell(p policies.Policy) (*lossyCell, error) {
	l, ok := p.(policies.Lossy)
	if !ok {
		return nil, fmt.Errorf("policy claims Traits.Lossy and has no method Prompt(*policies.Prompt)")
	}
	return &lossyCell{policy: l, needs: policies.NeedsOf(p)}, nil
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

// of is the attention of row's list, nil where the trace has none.
func (a attention) of(s *trace.Stream, row int) []float32 {
	switch {
	case !a.weights:
		return nil
	case a.scores:
		return s.ScoreList(row)
	}
	return s.AttentionMass[s.Offsets[row]:s.Offsets[row+1]]
}

// lossyStart is how a lossy cell begins on a stream.
type lossyStart struct {
	budget    int // blocks
	seed      uint64
	attention attention
}

// run replays the stream that d was built from, with its members.
func (c *lossyCell) run(d *Delta, st lossyStart, look Observer) (Counts, error) {
	c.scope = policies.Scope{Blocks: d.Blocks, Capacity: st.budget, Steps: d.Rows, Windows: d.Windows, Demand: d.MaxDemand, Seed: st.seed}
	if err := c.policy.Reset(&c.scope); err != nil {
		return Counts{}, err
	}
	c.there = policies.Fill(c.there, d.Blocks, 1)
	c.size, c.budget, c.counts = 0, st.budget, Counts{Streams: 1, PinnedPeak: int64(d.PinnedPeak) * int64(d.pins.BlockTokens)}
	for i := range d.Rows {
		if i == d.Windows {
			if err := c.compress(d); err != nil {
				return Counts{}, err
			}
		}
		if err := c.apply(d, i, st.attention, look); err != nil {
			return Counts{}, fmt.Errorf("step %d: %w", d.stream.Steps[d.first+i], err)
		}
	}
	return c.counts, nil
}

// compress hands over the prompt, which the policy cuts to its budget.
func (c *lossyCell) compress(d *Delta) error {
	d.promptOf(&c.prompt)
	c.free, c.local = c.prompt.First, c.prompt.End
	c.size = max(0, c.local-c.free)
	c.policy.Prompt(&c.prompt)
	if err := c.evict(); err != nil {
		return fmt.Errorf("prompt: %w", err)
	}
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

// apply replays row i: births, what of the demand is lost, what the policy then drops. Of a
// window the policy only sees the list.
func (c *lossyCell) apply(d *Delta, i int, a attention, look Observer) error {
	row, t := d.first+i, i-d.Windows
	seqLen := d.stream.SeqLen(row)
	c.step = policies.Step{T: int32(t), Demand: int(d.Size[i])}
	c.victims, c.lost = c.victims[:0], c.lost[:0]
	if t >= 0 {
		c.offer(d, i, seqLen)
		c.lose(d.Members.Row(i))
	}
	kept, covered := c.see(d, row, a)
	c.policy.Update(&c.step)
	if t >= 0 {
		if err := c.evict(); err != nil {
			return err
		}
		c.count(kept, covered)
	}
	if look != nil {
		c.report = StepReport{T: int32(t), Step: d.stream.Steps[row], Demand: c.step.Demand, Births: len(c.step.Offered), Victims: c.victims, Resident: c.size, Made: 1,
			Lost: c.lost, KeptMass: kept, CoveredMass: covered}
		look(&c.report)
	}
	return nil
}

// offer makes the blocks that leave the local window held.
func (c *lossyCell) offer(d *Delta, i, seqLen int) {
	c.step.Offered = d.Born.Row(i)
	if i == d.Windows { // what left it between recorded steps is part of the prompt
		c.born = d.pins.appendBirths(c.born[:0], seqLen-1, seqLen)
		c.step.Offered = c.born
	}
	c.local = d.pins.firstLocal(seqLen)
	c.size += len(c.step.Offered)
}

// lose finds what of the demand is lost.
func (c *lossyCell) lose(demand []int32) {
	c.lost = slices.Grow(c.lost, len(demand))[:len(demand)]
	lost, n := c.lost, 0
	for _, x := range demand { // all are written, some are kept: no branch to mispredict
		lost[n] = x
		n += 1 - int(c.there[x])
	}
	c.lost = lost[:n]
}

// see tells the policy what of the list is still there, if it asks, and returns the mass that
// the list covers and the part of it that is, in parts of massUnit.
func (c *lossyCell) see(d *Delta, row int, a attention) (kept, covered int64) {
	list := d.stream.List(row)
	list = list[:d.listed(list)]
	if c.needs&(policies.NeedCandidates|policies.NeedAttention) != 0 {
		c.show(list, a.of(d.stream, row))
	}
	switch {
	case a.masses:
		return c.masses(list, a.of(d.stream, row))
	case a.covered:
		return 0, int64(math.RoundToEven(float64(d.stream.CoveredMass[row]) * massUnit))
	}
	return 0, 0
}

// show tells the policy what of a list is still there, and what attention it was given.
func (c *lossyCell) show(list []int32, given []float32) {
	c.list, c.weights = c.list[:0], c.weights[:0]
	weighs := c.needs&policies.NeedAttention != 0
	for j, x := range list {
		if c.there[x] == 0 {
			continue
		}
		c.list = append(c.list, x)
		if weighs {
			c.weights = append(c.weights, given[j])
		}
	}
	c.step.List = c.list
	if weighs {
		c.step.Scores = c.weights
	}
}

// masses sums the attention that a list was given, and that of what is still there.
func (c *lossyCell) masses(list []int32, given []float32) (kept, covered int64) {
	given = given[:len(list)]
	for j, x := range list {
		mass := int64(math.RoundToEven(float64(given[j]) * massUnit))
		covered += mass
		kept += mass * int64(c.there[x])
	}
	return min(kept, massUnit), min(covered, massUnit) // rounded shares may add up to a little over 1
}

// count counts a counted step.
func (c *lossyCell) count(kept, covered int64) {
	n := &c.counts
	n.Steps++
	n.Demand += int64(c.step.Demand)
	n.Lost += int64(len(c.lost))
	n.Evictions += int64(len(c.victims))
	n.Births += int64(len(c.step.Offered))
	n.ResidentSum += int64(c.size)
	n.ResidentPeak = max(n.ResidentPeak, int64(c.size))
	n.Made++
	n.KeptMass += kept
	n.CoveredMass += covered
}

// evict asks for as many victims as the budget needs and checks each.
func (c *lossyCell) evict() error {
	need := max(0, c.size-c.budget)
	c.victims = c.policy.Evict(need, c.victims[:0])
	if len(c.victims) < need {
		return fmt.Errorf("policy named %d victims, %d are needed (budget %d blocks, %d held)", len(c.victims), need, c.budget, c.size)
	}
	for _, x := range c.victims {
		if int(x) < c.free || int(x) >= c.local || c.there[x] == 0 {
			return fmt.Errorf("policy named block %d as a victim, which is not held (dropped before, pinned, or named twice)", x)
		}
		c.there[x] = 0
	}
	c.size -= len(c.victims)
	return nil
}
