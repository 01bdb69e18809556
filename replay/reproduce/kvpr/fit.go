package kvpr

import "fmt"

// constants are what the paper leaves open, each from as few cells as give it.
type constants struct {
	row    rates   // Tables 3 and 4: from Table 4, Accelerate 128/32 and 512/32, KVPR 512/32
	column rates   // Table 2: the link from FlexGen at batch 1, the rest from Table 4
	low    rates   // Table 5: the link from FlexGen 1024/32 and 1024/128, the rest from Table 4
	once   float64 // Table 5: bytes/s at which the prompts' cache moves once a run, from the same cells
}

// fit finds the constants.
func (b *bench) fit() (*constants, error) {
	var c constants
	for _, step := range []struct {
		what string
		fit  func(*constants) error
	}{{"table 4, Accelerate", b.fitBaseline}, {"table 4, KVPR", b.fitRecompute}, {"table 2", b.fitColumn}, {"table 5", b.fitLow}} {
		if err := step.fit(&c); err != nil {
			return nil, fmt.Errorf("fit to %s: %w", step.what, err)
		}
	}
	return &c, nil
}

// fitBaseline gives the link's rate and a layer's overhead.
func (b *bench) fitBaseline(c *constants) error {
	short, long := &opt13[0], &opt13[4]
	x, err := solve([]float64{25e9, 1e-3}, []float64{short.accelerate, long.accelerate}, func(x []float64) (ours []float64, err error) {
		r := rates{link: x[0], overhead: x[1], flops: 1e12} // nothing is recomputed
		for _, l := range []*latency{short, long} {
			t, err := b.seconds(l.setting("opt-13b", accelerate), r)
			if err != nil {
				return nil, err
			}
			ours = append(ours, t)
		}
		return ours, nil
	})
	if err == nil {
		c.row = rates{link: x[0], overhead: x[1]}
	}
	return err
}

// fitRecompute gives the rate of recomputing.
func (b *bench) fitRecompute(c *constants) (err error) {
	r := c.row
	c.row.flops, err = between(1e12, 1e15, opt13[4].kvpr, func(flops float64) (float64, error) {
		r.flops = flops
		return b.seconds(opt13[4].setting("opt-13b", rowByRow), r)
	})
	return err
}

// fitColumn gives the link's rate under FlexGen.
func (b *bench) fitColumn(c *constants) error {
	c.column.flops = c.row.flops
	x, err := solve([]float64{25e9}, []float64{hiding[0].flexgen}, func(x []float64) ([]float64, error) {
		t, err := b.tokens(hiding[0].setting(flexgen), rates{link: x[0], flops: c.column.flops}, 0)
		return []float64{t}, err
	})
	if err == nil {
		c.column.link = x[0]
	}
	return err
}

// fitLow gives the link's rate and the cost of a run on the small GPU. Recomputing reaches
// the share of the datasheet that it reaches on the A100.
func (b *bench) fitLow(c *constants) error {
	large, err := b.lib.GPU("a100-40")
	if err != nil {
		return err
	}
	small, err := b.lib.GPU("rtx5000")
	if err != nil {
		return err
	}
	c.low.flops = c.row.flops / float64(large.BF16.Value) * float64(small.BF16.Value)
	short, long := &lowEnd[4], &lowEnd[5]
	x, err := solve([]float64{10e9, 5e9}, []float64{short.flexgen, long.flexgen}, func(x []float64) (ours []float64, err error) {
		r := rates{link: x[0], flops: c.low.flops}
		for _, l := range []*lowRow{short, long} {
			t, err := b.lowTokens(l, flexgenBatches, r, x[1])
			if err != nil {
				return nil, err
			}
			ours = append(ours, t)
		}
		return ours, nil
	})
	if err == nil {
		c.low.link, c.once = x[0], x[1]
	}
	return err
}
