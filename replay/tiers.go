package replay

import (
	"fmt"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// tier is a tier of a cell: a cell of its own, whose demand the one above makes.
//
// Exclusive tiers keep what the one above evicts or does not keep, told as offered, in
// the order in which it left; what they are asked for moves up. Inclusive ones keep a
// copy of what passes through: they are demanded what the one above misses and born
// what is born; evictions above are dropped, as the copy below or the last level has them.
type tier struct {
	cell      *cell
	inclusive bool
	delta     Delta // its lists grow by a row a step
	demand    []int32
	before    []int32 // demand of the row before
	demoted   []int32
	look      Observer
	below     *tier
}

// tierStart is how a tier begins on a stream, and who watches it.
type tierStart struct {
	start
	look Observer
}

func newTiers(tiers []Tier, inclusive bool) *tier {
	if len(tiers) == 0 {
		return nil
	}
	return &tier{cell: newCell(tiers[0].Policy.Make()), inclusive: inclusive, below: newTiers(tiers[1:], inclusive)}
}

// reset starts a stream. starts are those of this tier and the ones below.
func (t *tier) reset(d *Delta, starts []tierStart) error {
	t.look = starts[0].look
	t.delta.follow(d)
	t.before = t.before[:0]
	if err := t.cell.reset(&t.delta, starts[0].start); err != nil {
		return err
	}
	if t.below == nil {
		return nil
	}
	return t.below.reset(d, starts[1:])
}

// follow makes d the delta of a lower tier of the stream of top; its rows come one by one.
func (d *Delta) follow(top *Delta) {
	d.Blocks, d.Rows, d.Windows, d.MaxDemand = top.Blocks, top.Rows, top.Windows, top.MaxDemand
	d.stream, d.joined, d.pool, d.pins, d.first, d.k, d.m, d.lower = top.stream, top.joined, top.pool, top.pins, top.first, top.k, top.m, true
	d.Size = d.Size[:0]
	for _, l := range []*lists{&d.Enter, &d.Exit, &d.Born, &d.Members} {
		l.reset()
	}
}

// step replays row i after the tier above has.
func (t *tier) step(above *cell, born []int32, i int, ranks bool) error {
	t.demand = append(t.demand[:0], above.miss...)
	t.demoted = t.demoted[:0]
	d := &t.delta
	if t.inclusive {
		d.Enter.items = appendLacking(d.Enter.items, t.demand, t.before)
		d.Exit.items = appendLacking(d.Exit.items, t.before, t.demand)
		d.Born.items = append(d.Born.items, born...)
		t.before = append(t.before[:0], t.demand...)
	} else {
		d.Enter.items = append(d.Enter.items, t.demand...)
		t.demoted = append(append(t.demoted, above.victims...), above.notKept()...) // in the order of eviction
	}
	d.Members.items = append(d.Members.items, t.demand...)
	d.Size = append(d.Size, int32(len(t.demand)))
	for _, l := range []*lists{&d.Enter, &d.Exit, &d.Born, &d.Members} {
		l.close()
	}
	var err error
	if t.inclusive {
		err = t.cell.apply(d, i, ranks, t.look)
	} else {
		err = t.cell.exchange(d, i, t.demoted, t.look)
	}
	if err != nil {
		return fmt.Errorf("tier below the GPU's: %w", err)
	}
	if t.below == nil {
		return nil
	}
	return t.below.step(t.cell, born, i, ranks)
}

// exchange replays row i of an exclusive tier: what is demanded leaves, found or not, and
// what the tier above gave up comes in, in that order.
func (c *cell) exchange(d *Delta, i int, demoted []int32, look Observer) error {
	s, t, demand := &c.step, int32(i-d.Windows), d.Enter.Row(i)
	if len(c.later) > 0 {
		c.grow(d.step(i))
	}
	c.classify(demand)
	c.fetched, c.leftOut, c.victims = c.miss, 0, c.victims[:0]
	*s = policies.Step{T: t, Demand: len(demand), Hit: c.hit, Miss: c.miss, Pass: demand}
	if c.needs != 0 {
		c.columns(d, i)
	}
	c.policy.Update(s)
	for _, x := range demand {
		c.state[x] = absent
	}
	c.size -= len(c.hit)
	for _, x := range demoted {
		c.state[x] = outside
	}
	c.size += len(demoted)
	s.T, s.Demand, s.Hit, s.Miss, s.Pass, s.Offered = t+1, 0, nil, nil, nil, demoted
	c.policy.Update(s)
	c.victims = c.victims[:0]
	if err := c.evict(); err != nil {
		return err
	}
	n, resident, evicted, given := &c.counts, c.size, len(c.victims), len(demoted)
	if c.shares.pool != nil {
		c.shares.settle(i, -len(c.hit), demoted, c.victims, c.size, t >= 0)
		own := c.shares.stream(i)
		n, resident, evicted, given = &c.shares.counts[own], c.shares.size[own], 0, 0
	}
	if t >= 0 {
		n.Steps++
		n.Demand += int64(len(demand))
		n.Misses += int64(len(c.miss))
		n.Moved += int64(len(c.miss)) * c.unit
		n.Evictions += int64(evicted)
		n.Births += int64(given)
		n.ResidentSum += int64(resident)
		n.ResidentPeak = max(n.ResidentPeak, int64(resident))
	}
	if look != nil {
		c.report = StepReport{T: t, Step: d.step(i), Stream: c.shares.stream(i), First: c.shares.first(i), Demand: len(demand), Misses: c.miss, Births: len(demoted),
			Victims: c.victims, Resident: resident, Moved: int64(len(c.miss)) * c.unit}
		look(&c.report)
	}
	return nil
}

// appendLacking appends the members of a that b lacks; both ascend.
func appendLacking(dst, a, b []int32) []int32 {
	for _, x := range a {
		for len(b) > 0 && b[0] < x {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != x {
			dst = append(dst, x)
		}
	}
	return dst
}

// settleTiers checks the policy and the name of every tier.
func (p *plan) settleTiers() error {
	if len(p.opt.Tiers) == 0 {
		return nil
	}
	names := map[string]bool{}
	for _, t := range p.opt.Tiers {
		if err := t.Check(); err != nil {
			return err
		}
		if names[t.Name] {
			return fmt.Errorf("two tiers are named %s", t.Name)
		}
		names[t.Name] = true
		if why := setting.Unfit(t.Policy, p.kinds(&t.Capacity)...); why != "" {
			return fmt.Errorf("tier %v: %s", t, why)
		}
		if why := p.unable(t.Policy, policies.NeedsOf(t.Policy.Make())); why != "" {
			return fmt.Errorf("tier %v cannot run here: %s", t, why)
		}
	}
	return nil
}

// addTiers puts the tiers of every cell behind all cells.
func (p *plan) addTiers() {
	for i := range p.cells {
		p.cells[i].top = i
	}
	for i, top := range p.cells {
		above := top.spec.Name()
		if top.capacity != nil {
			above += "@" + top.capacity.String()
		}
		for n := range p.opt.Tiers {
			t := &p.opt.Tiers[n]
			p.cells = append(p.cells, cellPlan{spec: t.Policy, capacity: &t.Capacity, tier: n + 1, top: i, tierName: t.Name, above: above})
			above += " > " + t.String()
		}
	}
}

// tiersOf are the cells of a top cell's tiers, from the first.
func (p *plan) tiersOf(top int) []int {
	if len(p.opt.Tiers) == 0 {
		return nil
	}
	var cells []int
	for i := range p.cells {
		if p.cells[i].tier > 0 && p.cells[i].top == top {
			cells = append(cells, i)
		}
	}
	return cells
}
