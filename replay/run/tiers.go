package run

import (
	"fmt"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// checkTiers checks the policy and the name of every tier.
func (p *plan) checkTiers() error {
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

// newTiers makes the tiers below a cell, the first of which has the others below it.
func newTiers(tiers []setting.Tier, inclusive bool) *cache.Tier {
	if len(tiers) == 0 {
		return nil
	}
	t := cache.NewTier(cache.NewCell(tiers[0].Policy.Make()), inclusive)
	t.Cell.Lower = newTiers(tiers[1:], inclusive)
	return t
}
