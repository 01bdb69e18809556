package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Counting is the work of Job.Count: some units of a trace, and how their counts are kept.
type Counting struct {
	From, To int           // the units [From, To) of Job.Units
	Begun    *Checkpoint   // counts of an earlier attempt at these units. Nil: none
	Every    time.Duration // the interval of Save. Zero means DefaultCheckpoint
	// Save receives the counts so far, one call at a time. Nil keeps none.
	Save func(*Checkpoint) error
}

// Units returns the work of each unit: indices of its lists times cells. A unit is a run of streams.
// Equal traces, options and engine versions have equal units.
func (j *Job) Units() []int64 {
	p, units := j.plan, j.plan.units()
	work := make([]int64, len(units))
	for u, unit := range units {
		for _, c := range p.caches[unit[0]:unit[1]] {
			rows := c.streams() * p.selected(c.from).Rows * p.layout.Heads
			work[u] += int64(rows) * int64(p.meta.Candidates) * int64(len(p.cells))
		}
	}
	return work
}

// AllCells returns the number of cells of the job, finished or not.
func (j *Job) AllCells() int { return len(j.plan.cells) }

// Pass returns a digest of the trace, the units, the cells and the decisions of their policies.
// Checkpoints add up if their jobs have the same pass.
func (j *Job) Pass() string {
	return hashOf([]any{j.plan.units(), j.plan.keys(), j.plan.behaviourDigest()})
}

// Count replays some units of the trace and returns their counts. Merge makes rows of the counts of
// all units. The job needs no store. With an error, Count returns the counts of the finished units, or nil
// if the trace has changed. If ctx is cancelled, the error is an *Interrupted.
func (j *Job) Count(ctx context.Context, c Counting) (*Checkpoint, error) {
	p, units := j.plan, j.plan.units()
	if c.From < 0 || c.From >= c.To || c.To > len(units) {
		return nil, fmt.Errorf("count %s: no units %d to %d: it has %d", p.file.Path(), c.From, c.To-1, len(units))
	}
	if len(p.todo) < len(p.cells) || p.opt.Referee || p.opt.Profile != nil {
		return nil, fmt.Errorf("count %s: expected a job without store, referee and profile", p.file.Path())
	}
	ps, total := p.newPass(c.From, c.To), p.newTallies()
	if c.Begun != nil {
		if err := ps.pool(c.Begun, total); err != nil {
			return nil, fmt.Errorf("count %s: continue: %w", p.file.Path(), err)
		}
	}
	if c.Save != nil {
		ps.every = cmp.Or(c.Every, DefaultCheckpoint)
		workers := &snapshots{begun: c.Begun, of: map[string]*Checkpoint{}, every: ps.every, last: time.Now(), save: c.Save}
		ps.save = workers.put
	}
	err := p.execute(ctx, units, ps, total)
	if changed := p.file.Unchanged(p.digest); changed != nil {
		return nil, changed
	}
	return ps.checkpoint(slices.Sorted(maps.Keys(ps.done)), total), err
}

// snapshots pools the latest counts of every worker.
type snapshots struct {
	sync.Mutex
	begun *Checkpoint
	of    map[string]*Checkpoint // by worker
	every time.Duration
	last  time.Time
	save  func(*Checkpoint) error
}

// put keeps the counts of a worker. It saves those of all workers if the interval has passed.
func (s *snapshots) put(worker string, c *Checkpoint) error {
	s.Lock()
	defer s.Unlock()
	if s.of[worker] = c; time.Since(s.last) < s.every {
		return nil
	}
	s.last = time.Now()
	all := new(Checkpoint)
	if s.begun != nil {
		if err := all.Add(s.begun); err != nil {
			return err
		}
	}
	for _, c := range s.of {
		if err := all.Add(c); err != nil {
			return err
		}
	}
	return s.save(all)
}

// Add pools the counts of o, which has other units of the same pass.
func (c *Checkpoint) Add(o *Checkpoint) error {
	if len(c.Units) == 0 {
		*c = Checkpoint{Policies: o.Policies, Units: slices.Clone(o.Units), Cells: o.Cells, Tallies: slices.Clone(o.Tallies)}
		return nil
	}
	if c.Policies != o.Policies || !slices.Equal(c.Cells, o.Cells) {
		return errors.New("pool counts: they are of different cells or policies")
	}
	type place struct{ cell, part int }
	at := make(map[place]int, len(c.Tallies))
	for i, k := range c.Tallies {
		at[place{k.Cell, k.Part}] = i
	}
	for _, k := range o.Tallies {
		if i, ok := at[place{k.Cell, k.Part}]; ok {
			c.Tallies[i].merge(&k.tally)
		} else {
			c.Tallies = append(c.Tallies, k)
		}
	}
	slices.SortFunc(c.Tallies, func(a, b keptTally) int { return cmp.Or(a.Cell-b.Cell, a.Part-b.Part) })
	c.Units = append(c.Units, o.Units...)
	slices.Sort(c.Units)
	return nil
}

// Merge makes the result from the counts of all units and keeps it in the job's store. It replays
// nothing. The rows are those that Run returns.
func (j *Job) Merge(c *Checkpoint) (*Result, error) {
	p, units := j.plan, j.plan.units()
	r := j.newResult()
	ps, total := p.newPass(0, len(units)), p.newTallies()
	if err := ps.pool(c, total); err != nil {
		return nil, fmt.Errorf("merge %s: %w", p.file.Path(), err)
	}
	if open := ps.open(); len(open) > 0 {
		return nil, fmt.Errorf("merge %s: the counts lack %d of %d units, the first is %d", p.file.Path(), len(open), len(units), open[0])
	}
	return r, j.keepRows(r, total)
}
