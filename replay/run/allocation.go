package run

import (
	"fmt"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// PlannedCapacity returns the capacity of a plan, which gives each layer and head its own. Its text
// names the method and the memory, as in "plan:2d-greedy@2x".
func PlannedCapacity(p *allocate.Plan) setting.Capacity {
	return setting.Planned("plan:" + p.Method + "@" + p.Memory)
}

func (p *plan) checkAllocation() error {
	a := p.opt.Allocation
	if a == nil {
		return nil
	}
	keys := slice.Map(slice.Indices(len(p.streams)), p.allocated)
	units := allocate.Units{TopK: p.topk, BlockTokens: p.pins.BlockTokens, StepTokens: p.layout.Positions, SharedHeads: p.layout.Heads}
	return a.Covers(units, keys)
}

// allocated returns the layer and head that an allocation names for the i-th selected stream.
func (p *plan) allocated(i int) allocate.Key {
	s := p.selected(i)
	k := allocate.Key{Layer: s.Layer, Head: s.Head}
	if p.layout.Heads > 1 {
		k.Head = trace.NoHead
	}
	return k
}

// applyAllocation makes the allocation the only capacity of the run. If the allocation sets
// windows, applyAllocation checks that window:N is the only policy.
func (p *plan) applyAllocation() error {
	a := p.opt.Allocation
	switch {
	case a == nil:
	case a.Family == allocate.Windows:
		if len(p.opt.Capacities) > 0 {
			return fmt.Errorf("the plan sets windows, which have no capacity. Remove --capacity")
		}
		if len(p.opt.Policies) != 1 || p.opt.Policies[0].Entry.Name != "window" {
			return fmt.Errorf("the plan sets windows: expected window:N as the only policy (the plan replaces N)")
		}
	case len(p.opt.Capacities) > 0:
		return fmt.Errorf("the plan sets all capacities. Remove --capacity")
	default:
		c := PlannedCapacity(a)
		if r := p.opt.Reallocation; r.Every > 0 {
			c = setting.Planned(c.String() + "/" + r.String())
		}
		p.opt.Capacities = []setting.Capacity{c}
	}
	return nil
}

// windowed returns the cell that runs the allocated window of the i-th selected stream, and the
// name of its policy.
func (w *worker) windowed(i int, c *cellPlan) (*cache.Cell, string, error) {
	own := w.runners[c.runner]
	a := w.plan.opt.Allocation
	if a == nil || a.Family != allocate.Windows || c.capacity != nil {
		return own, c.spec.Name(), nil
	}
	k := w.plan.allocated(i)
	steps, _ := a.Window(k.Layer, k.Head) // checkAllocation has checked that it exists
	name := fmt.Sprintf("%s:%d", c.spec.Entry.Name, steps)
	if w.windows == nil {
		w.windows = map[int]*cache.Cell{}
	}
	if w.windows[steps] == nil {
		make, _, err := c.spec.Entry.New(fmt.Sprint(steps))
		if err != nil {
			return nil, name, fmt.Errorf("plan: window of layer %d: %w", k.Layer, err)
		}
		w.windows[steps] = cache.NewCell(make())
		w.windows[steps].Lower = own.Lower
	}
	return w.windows[steps], name, nil
}
