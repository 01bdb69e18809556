package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/trace"
)

// Result is the result of a run on one trace.
type Result struct {
	Rows      []result.Row
	FromStore int // cells that were not replayed, because the store had them
	// Changed counts by policy the cells that were replayed because the policy has changed since
	// the store kept them.
	Changed map[string]int
	Notes   []string // remarks for the user, as Job.Notes returns
	LeftOut []LeftOut
}

// LeftOut is a policy that Options.SkipUnable left out of a run.
type LeftOut struct {
	Policy   string
	Capacity string // at which it cannot run. Empty if it cannot run at any
	Why      string // a sentence about the policy, as in "it needs scores, the trace has none"
}

// String returns the policy, the capacity and the whole reason.
func (l LeftOut) String() string {
	at := ""
	if l.Capacity != "" {
		at = " at " + l.Capacity
	}
	return fmt.Sprintf("%s left out%s: %s", l.Policy, at, l.Why)
}

// SummaryOf returns one line about the policies that were left out, grouped by the first clause of
// their reasons: "2 policies left out: needs scores (h2o, score-ewma)". For an empty list it returns "".
func SummaryOf(list []LeftOut) string {
	if len(list) == 0 {
		return ""
	}
	reasons := slice.Map(slice.Group(list, (*LeftOut).reason), func(alike []LeftOut) string {
		return fmt.Sprintf("%s (%s)", alike[0].reason(), strings.Join(slice.Map(alike, LeftOut.short), ", "))
	})
	what := "1 policy"
	if n := len(slice.Distinct(list, func(l *LeftOut) string { return l.Policy })); n > 1 {
		what = fmt.Sprintf("%d policies", n)
	}
	return fmt.Sprintf("%s left out: %s", what, strings.Join(reasons, ", "))
}

// short returns the policy without its options, and the capacity. It keeps the option of window:2.
func (l LeftOut) short() string {
	name, options, _ := strings.Cut(l.Policy, ":")
	if strings.Trim(options, "0123456789") == "" {
		name = l.Policy
	}
	if l.Capacity != "" {
		name += " at " + l.Capacity
	}
	return name
}

// reason returns the first clause of Why without its subject: "needs scores".
func (l *LeftOut) reason() string {
	reason := strings.TrimPrefix(l.Why, "it ")
	for _, end := range []string{", ", "; ", " ("} {
		reason, _, _ = strings.Cut(reason, end)
	}
	return reason
}

// Job is the planned work on one trace. Every option is checked against the trace, and the store's
// finished cells are taken into account.
type Job struct {
	plan *plan
	rows []result.Row // set by Run
}

// Plan plans a replay of the trace of f with options o. It returns an error if the options are
// invalid or the trace cannot serve them. It replays nothing.
func Plan(f *trace.File, o Options) (*Job, error) {
	p, err := newPlan(f, &o)
	if err != nil {
		return nil, err
	}
	return &Job{plan: p}, nil
}

// Work returns the remaining work in rows of the trace times cells. It is the total of
// Options.Progress.
func (j *Job) Work() int64 {
	var rows int64
	for i := range j.plan.streams {
		rows += int64(j.plan.selected(i).Rows)
	}
	return rows * int64(len(j.plan.todo))
}

// Cells returns the number of cells that remain to replay.
func (j *Job) Cells() int { return len(j.plan.todo) }

// Notes returns remarks for the user before the work, such as assumed defaults.
func (j *Job) Notes() []string { return j.plan.notes }

// LeftOut lists the policies that cannot run on the trace.
func (j *Job) LeftOut() []LeftOut { return j.plan.leftOut }

// Key returns a digest of all inputs of the job's rows: the trace and every cell.
func (j *Job) Key() string { return hashOf(j.plan.keys())[:8] }

// Digest returns the digest of the job's trace.
func (j *Job) Digest() string { return j.plan.digest }

// Expect announces the streams of the job to its trace, before Run needs them. A trace in an object
// store is then requested at once. Expect has no effect on files, or if no cell remains.
func (j *Job) Expect() {
	if len(j.plan.todo) > 0 {
		j.plan.expect(j.plan.chunks())
	}
}

// BeforeEnd makes Run call f once, from any goroutine, when it begins the last chunk of its work. With a trace
// in an object store it calls f earlier, before the last lists arrive. Nothing is called if no work remains.
func (j *Job) BeforeEnd(f func()) { j.plan.beforeEnd = sync.OnceFunc(f) }

// Record makes the job replay every cell and write its steps to p. Steps of lossy policies have no
// misses.
func (j *Job) Record(p *Profile) error {
	j.plan.opt.Profile = p
	if err := j.plan.checkProfile(); err != nil {
		return err
	}
	return j.plan.findFinished()
}

// Recorded reports whether the store has every cell and the file at path is the finished profile of
// the same cells. A Record of this profile would repeat all work.
func (j *Job) Recorded(path string, indices bool) bool {
	p := j.plan
	return p.opt.Store != nil && len(p.todo) == 0 && p.opt.Store.hasProfile(p.profileKey(indices), p.behaviourDigest(), path)
}

// Run plans and runs.
func Run(ctx context.Context, f *trace.File, o Options) (*Result, error) {
	j, err := Plan(f, o)
	if err != nil {
		return nil, err
	}
	return j.Run(ctx)
}

// Run does the work. The rows are the same with any number of workers and after any number of
// interruptions. A cancelled context ends in an *Interrupted after the current cells. The counts of
// finished chunks are kept.
func (j *Job) Run(ctx context.Context) (*Result, error) {
	p := j.plan
	if p.opt.Profile != nil {
		p.opt.Profile.plan = p
	}
	r, total := j.newResult(), p.newTallies()
	if len(p.todo) > 0 {
		chunks := p.chunks()
		ps, err := p.openPass(chunks, total)
		if err != nil {
			return nil, err
		}
		if err := p.execute(ctx, chunks, ps, total); err != nil {
			return nil, err
		}
		if err := p.file.Unchanged(p.digest); err != nil {
			return nil, err
		}
	}
	if err := j.keepRows(r, total); err != nil {
		return nil, err
	}
	p.tidy()
	return r, nil
}

func (j *Job) newResult() *Result {
	p := j.plan
	r := &Result{FromStore: len(p.cells) - len(p.todo), Notes: p.notes, LeftOut: p.leftOut}
	p.noteChanged(r)
	return r
}

// keepRows makes the rows of the counts and keeps the new cells.
func (j *Job) keepRows(r *Result, total [][]tally) (err error) {
	r.Rows, err = j.plan.rows(total)
	j.rows = r.Rows
	return err
}

// chunkIndices is the size of a chunk of work in indices. A chunk is a run of streams within a row
// group, so that reading stays sequential.
const chunkIndices = 1 << 20

// chunks cuts the caches into runs [from, to).
func (p *plan) chunks() [][2]int {
	var chunks [][2]int
	from, size, most := 0, 0, chunkIndices
	if p.lanes() > 1 {
		most = chunkIndices / 32 // also a small trace occupies the lanes
	}
	most = cmp.Or(p.opt.chunk, most)
	for n, c := range p.caches {
		s := p.selected(c.from)
		if n > from && (size >= most || s.RowGroup != p.selected(c.from-1).RowGroup) {
			chunks = append(chunks, [2]int{from, n})
			from, size = n, 0
		}
		size += p.indices(c)
	}
	return append(chunks, [2]int{from, len(p.caches)})
}

// indices returns the number of indices in the lists of a cache, which its first stream stands for.
func (p *plan) indices(c span) int { return c.streams() * p.selected(c.from).Rows * p.meta.Candidates }

// failure keeps the error of the first stream that fails, in whichever order workers report errors.
type failure struct {
	sync.Mutex
	stream int
	err    error
	any    atomic.Bool
}

func (f *failure) note(stream int, err error) {
	f.Lock()
	defer f.Unlock()
	f.any.Store(true)
	if errors.Is(err, policies.ErrOtherStream) {
		return // the other stream notes why
	}
	if f.err == nil || stream < f.stream {
		f.stream, f.err = stream, err
	}
}

// execute replays the unfinished chunks of the pass and adds their counts to total.
func (p *plan) execute(ctx context.Context, chunks [][2]int, ps *pass, total [][]tally) error {
	open := ps.open()
	p.expect(slice.Map(open, func(u int) [2]int { return chunks[u] }))
	if p.beforeEnd != nil && len(open) > 0 {
		p.file.Then(p.beforeEnd)
	}
	within := ctx // that a begun chunk obeys
	if ps.whole {
		within = context.WithoutCancel(ctx)
	}
	var merge sync.Mutex
	var next atomic.Int64
	var failed failure
	var g errgroup.Group
	one := func(ab *abreast) (err error) {
		w := newWorker(p)
		ab.join(w)
		defer w.close()
		keep := ps.keeper()
		for err == nil && ctx.Err() == nil && !failed.any.Load() { // a failure stops no begun chunk, so the first error is unique
			i := int(next.Add(1)) - 1
			if i >= len(open) {
				break
			}
			if i == len(open)-1 && p.beforeEnd != nil {
				p.beforeEnd()
			}
			stream, ended := w.chunk(within, chunks[open[i]])
			if errors.Is(ended, errStopped) {
				break
			}
			if ended != nil {
				failed.note(stream, ended)
				break
			}
			merge.Lock()
			ps.done[open[i]] = true
			merge.Unlock()
			err = keep.finished(open[i], w.tallies)
		}
		merge.Lock()
		defer merge.Unlock()
		for i := range total {
			for j := range total[i] {
				total[i][j].merge(&w.tallies[i][j])
			}
		}
		if err != nil || ctx.Err() == nil && !failed.any.Load() {
			return err
		}
		p.opt.Profile.stop()
		return keep.keep(w.tallies)
	}
	workers := min(max(1, p.opt.Workers), len(open)) // 0 if kept counts have all chunks
	lanes := min(p.lanes(), (len(open)+workers-1)/max(1, workers))
	if p.opt.Profile != nil {
		lanes = 1 // a worker may wait for others to write earlier steps
	}
	for range workers {
		g.Go(func() error { return runAbreast(lanes, one) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if failed.err != nil {
		return failed.err
	}
	if err := ctx.Err(); err != nil && len(ps.done) < ps.to-ps.from {
		return p.interrupted(chunks, ps, err)
	}
	return nil
}

// errStopped ends a chunk whose context has ended. The chunk counts as not begun.
var errStopped = errors.New("stopped")

// chunk replays the caches of a chunk and pools their counts. With an error it pools nothing, and returns
// the first stream of the error.
func (w *worker) chunk(ctx context.Context, u [2]int) (stream int, err error) {
	w.pending = w.pending[:0]
	for _, c := range w.plan.caches[u[0]:u[1]] {
		if err := w.replay(ctx, c); err != nil {
			return c.from, err
		}
	}
	for i := range w.pending {
		n := &w.pending[i]
		w.tallies[n.cell][n.part].merge(&n.tally)
	}
	return 0, nil
}
