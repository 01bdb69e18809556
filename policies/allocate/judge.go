package allocate

import (
	"errors"
	"fmt"
)

// judgePlan judges a plan on all requests of the rows, or those that o selects.
func (c *Rows) judgePlan(o Options) (*Report, error) {
	plan := o.Plan
	if len(o.Judge) > 0 || o.Memory != "" || o.Floor != "" {
		return nil, errors.New("a plan is judged on the requests of the rows, in its own memory; memory, floor and judge are of plans to be made")
	}
	if plan.Family == Windows {
		o.Cost = plan.Cost
	}
	if c.Family != plan.Family {
		return nil, fmt.Errorf("the plan is of family %s, the rows of %s are of %s; choose others with --policy", plan.Family, c.Policy, c.Family)
	}
	requests, _, err := c.split(o)
	if err != nil {
		return nil, err
	}
	p, err := c.Pool(requests, o.Cost)
	if err != nil {
		return nil, err
	}
	sizes, err := plan.sizesOf(p)
	if err != nil {
		return nil, err
	}
	if p, err = p.From(plan.Floor); err != nil {
		return nil, err
	}
	even, err := evenly(p, plan.MemoryEntries)
	if err != nil {
		return nil, err
	}
	r := newReport(plan, p)
	if r.Judge, err = newSide(p, even, sizes); err != nil {
		return nil, err
	}
	return r, r.layers(p, nil, even, sizes)
}

// sizesOf are the plan's sizes for a profile's curves, which must be just the plan's.
func (p *Plan) sizesOf(profile *Profile) ([]int, error) {
	var keys []Key
	var sizes []int
	for i := range profile.Curves {
		keys = append(keys, profile.Curves[i].Key)
	}
	if err := p.Covers(profile.Setting, keys); err != nil {
		return nil, err
	}
	if len(keys) != len(p.Streams) {
		return nil, fmt.Errorf("the plan has %d layers and heads, the rows %d of them; its memory is for all", len(p.Streams), len(keys))
	}
	for _, s := range p.Streams {
		sizes = append(sizes, s.Size)
	}
	return sizes, nil
}
