package pipeline

import (
	"fmt"
	"slices"
)

// prices are a batch, or a part of it, with what its layers take in one step.
type prices struct {
	requests  []share
	layers    []Layer
	moved     []Traffic // by layer
	positions float64
	same      int // an earlier part of the same requests, whose prices these are; -1: none
}

// divide prepares the prices of the whole batch and of the parts of a schedule.
func (r *runner) divide(parts int) {
	if r.whole.requests == nil {
		r.whole.requests = r.batch.part(0, 1)
	}
	if parts == 1 {
		parts = 0 // the whole stands for its only part
	}
	if len(r.parts) == parts {
		return
	}
	r.parts = slices.Grow(r.parts[:0], parts)[:parts]
	for i := range r.parts {
		p := &r.parts[i]
		if p.same >= 0 { // its slices are another's
			p.layers, p.moved = nil, nil
		}
		p.requests = r.batch.part(i, parts)
		p.same = slices.IndexFunc(r.parts[:i], func(o prices) bool { return slices.Equal(o.requests, p.requests) })
	}
}

// pricedLayer is what the layers of a step take that stand for the same profiled one and
// have the same shape.
type pricedLayer struct {
	turn  int // of price that it is of
	layer Layer
	moved Traffic
	sums  sums
}

// price prices the layers of one step. Layers that stand for the same profiled one and
// have the same shape are priced once.
func (r *runner) price(p *prices, step int) error {
	p.layers, p.moved = p.layers[:0], p.moved[:0]
	r.turn++
	dense := 0
	if m := r.options.Model.MoE; m != nil {
		dense = int(m.DenseLayers.Value)
	}
	if r.known == nil {
		r.known = make([]pricedLayer, 2*len(r.profile.Layers))
	}
	for layer, profiled := range r.options.Scaling.LayerOf {
		k, other := &r.known[2*profiled], &r.known[2*profiled+1]
		if layer < dense {
			k, other = other, k
		}
		if k.turn != r.turn || r.pricer.Partial != nil { // which is another for every layer
			if other.turn == r.turn {
				k.sums = other.sums
			} else if k.turn != r.turn {
				k.sums = r.batch.sum(p.requests, profiled, step, r.options.Scaling, r.options.Context, int64(r.options.Positions))
			}
			k.turn = r.turn
			var err error
			if k.layer, k.moved, err = r.pricer.Layer(layer, &k.sums); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		}
		p.layers, p.moved = append(p.layers, k.layer), append(p.moved, k.moved)
		r.staging = max(r.staging, k.moved.H2D)
		p.positions = float64(k.sums.Positions)
	}
	return nil
}

// wholeLayers prices one step of the whole batch.
func (r *runner) wholeLayers(step int) ([]Layer, error) {
	r.divide(r.schedule.Parts())
	err := r.price(&r.whole, step)
	return r.whole.layers, err
}

// priceStep prices one step, whole and in parts, into r.step and r.traffic.
func (r *runner) priceStep(step int) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	r.divide(r.schedule.Parts())
	if err := r.price(&r.whole, step); err != nil {
		return err
	}
	r.step.Whole, r.step.Parts, r.traffic = r.whole.layers, r.step.Parts[:0], Traffic{}
	if len(r.parts) == 0 {
		r.traffic.addAll(r.whole.moved)
	}
	for i := range r.parts {
		p := &r.parts[i]
		if same := p.same; same >= 0 {
			p.layers, p.moved = r.parts[same].layers, r.parts[same].moved
		} else if err := r.price(p, step); err != nil {
			return err
		}
		r.traffic.addAll(p.moved)
		r.step.Parts = append(r.step.Parts, p.layers)
	}
	var err error
	if r.step.Output, err = r.pricer.Compute.Output(r.whole.positions); err != nil {
		return err
	}
	r.chooseSplit()
	return nil
}

func (t *Traffic) addAll(moved []Traffic) {
	for _, m := range moved {
		t.add(m)
	}
}
