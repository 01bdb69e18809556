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

// Counting is the work of Job.Count: some chunks of a trace, and how their counts are kept.
type Counting struct {
	From, To int           // the chunks [From, To) of Job.Chunks
	Begun    *Checkpoint   // counts of an earlier attempt at these chunks. Nil: none
	Every    time.Duration // the interval of Save. Zero means DefaultCheckpoint
	// Save receives the counts so far, one call at a time. Nil keeps none.
	Save func(*Checkpoint) error
	// Whole finishes begun chunks after ctx is cancelled, so that a stopped attempt with time for a chunk
	// counts one.
	Whole bool
}

// Chunks returns the work of each chunk: indices of its lists times cells. A chunk is a run of streams.
// Equal traces, options and engine versions have equal chunks.
func (j *Job) Chunks() []int64 {
	p, chunks := j.plan, j.plan.chunks()
	work := make([]int64, len(chunks))
	for u, chunk := range chunks {
		for _, c := range p.caches[chunk[0]:chunk[1]] {
			rows := c.streams() * p.selected(c.from).Rows * p.layout.Heads
			work[u] += int64(rows) * int64(p.meta.Candidates) * int64(len(p.cells))
		}
	}
	return work
}

// AllCells returns the number of cells of the job, finished or not.
func (j *Job) AllCells() int { return len(j.plan.cells) }

// Pass returns a digest of the trace, the chunks, the cells and the decisions of their policies.
// Checkpoints add up if their jobs have the same pass.
func (j *Job) Pass() string {
	return hashOf([]any{j.plan.chunks(), j.plan.keys(), j.plan.behaviourDigest()})
}

// Count replays some chunks of the trace and returns their counts. Merge makes rows of the counts of
// all chunks. The job needs no store. With an error, Count returns the counts of the finished chunks, or nil
// if the trace has changed. If ctx is cancelled, the error is an *Interrupted.
func (j *Job) Count(ctx context.Context, c Counting) (*Checkpoint, error) {
	p, chunks := j.plan, j.plan.chunks()
	if c.From < 0 || c.From >= c.To || c.To > len(chunks) {
		return nil, fmt.Errorf("count %s: no chunks %d to %d: it has %d", p.file.Path(), c.From, c.To-1, len(chunks))
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
	ps.whole = c.Whole
	err := p.execute(ctx, chunks, ps, total)
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

// Add pools the counts of o, which has other chunks of the same pass.
func (c *Checkpoint) Add(o *Checkpoint) error {
	if len(c.Chunks) == 0 {
		*c = Checkpoint{Policies: o.Policies, Chunks: slices.Clone(o.Chunks), Cells: o.Cells, Tallies: slices.Clone(o.Tallies)}
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
	c.Chunks = append(c.Chunks, o.Chunks...)
	slices.Sort(c.Chunks)
	return nil
}

// Merge makes the result from the counts of all chunks and keeps it in the job's store. It replays
// nothing. The rows are those that Run returns.
func (j *Job) Merge(c *Checkpoint) (*Result, error) {
	p, chunks := j.plan, j.plan.chunks()
	r := j.newResult()
	ps, total := p.newPass(0, len(chunks)), p.newTallies()
	if err := ps.pool(c, total); err != nil {
		return nil, fmt.Errorf("merge %s: %w", p.file.Path(), err)
	}
	if open := ps.open(); len(open) > 0 {
		return nil, fmt.Errorf("merge %s: the counts lack %d of %d chunks, the first is %d", p.file.Path(), len(open), len(chunks), open[0])
	}
	return r, j.keepRows(r, total)
}
