package run

import (
	"cmp"
	"context"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/cache"
)

// sweepFrom is the number of cells from which one pass is faster than single runs.
const sweepFrom = 3

// group is one cell, or several cells that one pass can answer. These are the capacities of a policy,
// or all windows of policy window:N.
type group struct {
	cells []int
	sizer []policies.Sweep // by cell
	sweep *cache.Sweep     // nil if the cells are replayed one by one

	swept []sweptCell // cells that the pass answers on the current stream
	sizes []int32
}

// sweptCell is a cell that the pass answers on a stream.
type sweptCell struct {
	cell int
	size int32
	at   cache.Start
}

// group groups the cells in order for passes. If the run uses a mechanism that does not work with
// passes, every group is one cell.
func (p *plan) group(order []int, runners []*cache.Cell) []*group {
	sweeps := p.sweeps()
	var all []*group
	known := map[string]*group{}
	for _, i := range order {
		c := &p.cells[i]
		sweep, pass := cache.NewSweep(runners[c.runner].Policy), policies.Sweep(nil)
		if sweep != nil {
			pass = sweep.Pass
		}
		name := c.spec.Name()
		if c.capacity == nil {
			name = c.spec.Entry.Name
		}
		g := known[name]
		if g == nil || pass == nil || !sweeps {
			g = new(group)
			all = append(all, g)
			if pass != nil && sweeps {
				known[name], g.sweep = g, sweep
			}
		}
		g.cells, g.sizer = append(g.cells, i), append(g.sizer, pass)
	}
	return all
}

// runGroup replays a group on the i-th selected stream. With an error it returns the cell of the
// error. Cells that a pass cannot answer are replayed one by one (policies.Sweeper).
func (w *worker) runGroup(ctx context.Context, i int, g *group, steps recording) (int, error) {
	g.swept = g.swept[:0]
	for j, c := range g.cells {
		if ctx.Err() != nil {
			return c, errStopped
		}
		st, err := w.start(i, c)
		if err != nil {
			return c, err
		}
		if g.sweep != nil && len(st.Later) == 0 && !w.plan.layout.HasPicked() && len(st.Placed) == 0 && st.Capacity >= w.member.delta.MaxDemand {
			g.swept = append(g.swept, sweptCell{c, g.sizer[j].Size(st.Capacity), st})
		} else if err := w.runCell(i, c, st, steps); err != nil {
			return c, err
		}
	}
	if len(g.swept) < sweepFrom {
		for _, s := range g.swept {
			if err := w.runCell(i, s.cell, s.at, steps); err != nil {
				return s.cell, err
			}
		}
		return 0, nil
	}
	return g.cells[0], w.runSweep(i, g)
}

// runSweep answers the swept cells of a group in one pass.
func (w *worker) runSweep(i int, g *group) error {
	slices.SortFunc(g.swept, func(a, b sweptCell) int { return cmp.Compare(a.size, b.size) })
	g.sizes = g.sizes[:0]
	for _, s := range g.swept {
		g.sizes = append(g.sizes, s.size)
	}
	counts, err := g.sweep.Run(w.view(), g.sizes, g.swept[0].at)
	if err != nil {
		return err
	}
	for j, s := range g.swept {
		w.tally(i, s.cell, s.at, &counts[j])
	}
	return nil
}
