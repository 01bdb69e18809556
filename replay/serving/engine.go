package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
)

// Rows receives the rows of a run, in order of time. Functions may be nil.
type Rows struct {
	Request func(*RequestRow) error // when the request ends
	Step    func(*StepRow) error    // when the iteration is formed
	End     func() error            // after the last row, not if the run fails
}

// Run serves all requests. It holds only those that wait or run in memory. Each of rows receives all
// rows. An error names the request or the call of the scheduler.
func Run(ctx context.Context, from Source, p Pricer, o Options, rows ...Rows) error {
	if o.Scheduler == nil {
		o.Scheduler = FCFS{}
	}
	if err := o.check(); err != nil {
		return err
	}
	e := &engine{Options: o, pricer: p, source: from, rows: rows}
	for range max(1, o.Replicas) {
		e.replicas = append(e.replicas, &replica{engine: e, state: State{options: &e.Options}, pool: newPool(o.most())})
	}
	if err := e.read(); err != nil {
		return err
	}
	for {
		if e.steps%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		more, err := e.turn()
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	for _, to := range rows {
		if to.End == nil {
			continue
		}
		if err := to.End(); err != nil {
			return err
		}
	}
	return nil
}

// engine is a run.
type engine struct {
	Options
	pricer   Pricer
	source   Source
	rows     []Rows
	replicas []*replica
	now      int64
	coming   *Job // the next arrival, nil after the last
	arrived  int64
	steps    int64
	busy     int64 // end of the last iteration
	flights  []*flight
	spare    *flight
	row      StepRow // of all replicas
}

// replica has the requests and the memory of one replica of the model.
type replica struct {
	*engine
	state   State
	pool    *pool
	leaving int   // running requests whose last token is in flight
	hosted  int64 // bytes in host memory
	plan    []int
	step    StepRow
	work    pipeline.Iteration
	moves   int64 // ns of transfers before the iteration
	// promised counts the blocks that requests have or will have until they leave, if none is preempted.
	promised int
}

// mostPreemptions of a request mean that the scheduler makes no progress.
const mostPreemptions = 1 << 14

// flight is an iteration that runs.
type flight struct {
	end      int64
	produces []*Job // requests that get a token
}

// read reads the next arrival.
func (e *engine) read() error {
	var q Request
	last := int64(0)
	if e.coming != nil {
		last = e.coming.Arrival
	}
	switch err := e.source(&q); {
	case err == io.EOF:
		e.coming = nil
		return nil
	case err != nil:
		return err
	}
	if err := q.checked(e.arrived+1, last); err != nil {
		return err
	}
	if need, most := e.blocks(q.Input+q.Output), e.limit(int64(min(e.Budget, q.Input+q.Output)), 1, 0); need > most {
		why := "memory holds %d: choose a machine with more memory"
		if e.Memory.Blocks > 0 {
			why = "--kv-blocks allows %d: raise it"
		}
		return fmt.Errorf("request %d has %d tokens and needs %d blocks of KV, but "+why+", or leave the request out", e.arrived+1, q.Input+q.Output, need, most)
	}
	e.coming = &Job{ID: e.arrived, Arrival: q.Arrival, Input: q.Input, output: q.Output, prefix: slices.Clone(q.Prefix), admitted: -1, Class: q.Class, Priority: e.priority(q.Class)}
	e.arrived++
	return nil
}

// turn forms an iteration or waits. It returns false at the end.
func (e *engine) turn() (bool, error) {
	for e.coming != nil && e.coming.Arrival <= e.now {
		e.idlest().arrive(e.coming)
		if err := e.read(); err != nil {
			return false, err
		}
	}
	formed, err := e.form()
	if err != nil {
		return false, err
	}
	depth := 1
	if e.Ahead {
		depth = 2
	}
	switch {
	case formed && len(e.flights) < depth:
	case len(e.flights) > 0:
		err = e.land()
	case formed || e.row.Preempted > 0:
	case e.row.Running > 0:
		err = errors.New("scheduler: Batch gives no token to any running request")
	case e.coming != nil:
		e.now = e.coming.Arrival
	case e.row.Waiting > 0:
		err = fmt.Errorf("scheduler: Admit leaves %d waiting requests, and none runs or arrives", e.row.Waiting)
	default:
		return false, nil
	}
	return true, err
}

// idlest returns the replica for the next arrival. As in vLLM's DPLBAsyncMPClient, a waiting request
// counts as much as four running ones, and the first of equal replicas is chosen.
func (e *engine) idlest() *replica {
	return slices.MinFunc(e.replicas, func(a, b *replica) int { return cmp.Compare(a.load(), b.load()) })
}

func (e *replica) load() int { return 4*len(e.state.Waiting) + len(e.state.Running) + e.leaving }

// arrive lets a request wait.
func (e *replica) arrive(j *Job) {
	w := e.state.Waiting
	j.at, e.state.Waiting = e, slices.Insert(w, behind(w, j.Priority), j)
}

// form plans an iteration of all replicas at the present time and starts it after those in flight. It
// lasts as long as that of the slowest replica. form returns false if no request gets tokens.
func (e *engine) form() (bool, error) {
	f := e.spare
	if e.spare = nil; f == nil {
		f = new(flight)
	}
	f.produces = f.produces[:0]
	e.row = StepRow{}
	longest := int64(0)
	for _, r := range e.replicas {
		if err := r.form(f); err != nil {
			return false, err
		}
		e.row.add(&r.step)
	}
	if e.row.Batch == 0 {
		e.spare = f
		return false, nil
	}
	group := e.group()
	for _, r := range e.replicas {
		if r.step.Batch == 0 {
			continue
		}
		r.work.Group = group
		ns, err := r.price()
		if err != nil {
			return false, err
		}
		longest = max(longest, ns)
	}
	return true, e.start(f, longest)
}

// group returns the work of all replicas, nil if there is one.
func (e *engine) group() *pipeline.GroupWork {
	if len(e.replicas) < 2 {
		return nil
	}
	g := &pipeline.GroupWork{Tokens: float64(e.row.Prefill+e.row.Decode) / float64(len(e.replicas)), Prompts: e.row.Prefill > 0}
	for _, r := range e.replicas {
		g.Decodes = max(g.Decodes, r.work.Decodes)
	}
	return g
}

// form plans an iteration of a replica. Its row has no times.
func (e *replica) form(f *flight) error {
	s := &e.state
	s.Now = e.now
	e.step, e.moves = StepRow{}, 0
	e.work = pipeline.Iteration{Chunks: e.work.Chunks[:0], TopK: e.TopK}
	produced := len(f.produces)
	s.Budget = e.Budget
	if err := e.batch(); err != nil {
		return err
	}
	for i := 0; i < len(s.Running); i++ {
		if e.plan[i] == 0 {
			continue
		}
		j := s.Running[i]
		stays := true
		for stays && !e.fits(j, e.plan[i]) {
			v := e.Scheduler.Preempt(s, i)
			if v < i || v >= len(s.Running) {
				return fmt.Errorf("scheduler: Preempt returns %d, expected %d to %d", v, i, len(s.Running)-1)
			}
			victim := s.Running[v]
			if e.preempt(v); victim.Preemptions > mostPreemptions {
				return fmt.Errorf("scheduler: request %d is preempted more than %d times", victim.ID, mostPreemptions)
			}
			stays = v != i
		}
		if !stays {
			i--
			continue
		}
		e.grow(j, e.plan[i], f)
	}
	for e.step.Preempted == 0 && s.Budget > 0 && len(s.Waiting) > 0 && len(s.Running)+e.leaving < e.MaxRunning {
		i := e.Scheduler.Admit(s)
		if i == -1 {
			break
		}
		if i < 0 || i >= len(s.Waiting) {
			return fmt.Errorf("scheduler: Admit returns %d, expected −1 to %d", i, len(s.Waiting)-1)
		}
		fits, err := e.admit(i, f)
		if err != nil {
			return err
		}
		if !fits {
			break
		}
	}
	ended := func(j *Job) bool { return j.Generated == j.output }
	if n := slice.Count(f.produces[produced:], ended); n > 0 {
		e.leaving += n
		s.Running = slices.DeleteFunc(s.Running, ended)
	}
	r := &e.step
	r.Running, r.Waiting, r.Blocks = len(s.Running)+e.leaving, len(s.Waiting), e.pool.used
	r.Weights, r.KV, r.Buffers = e.Memory.Weights, int64(e.pool.used)*e.Memory.Block, int64(r.Again)*e.Memory.Buffer
	r.Activations = e.activations(int64(r.Prefill+r.Decode), e.work.Outputs, int64(r.Again))
	r.Generated = int(e.work.Outputs)
	return nil
}

// batch calls Scheduler.Batch and checks the plan.
func (e *replica) batch() error {
	s := &e.state
	e.plan = append(e.plan[:0], make([]int, len(s.Running))...)
	e.Scheduler.Batch(s, e.plan)
	sum := 0
	for i, j := range s.Running {
		if e.plan[i] < 0 || e.plan[i] > j.Need() {
			return fmt.Errorf("scheduler: Batch gives request %d %d tokens, expected 0 to %d", j.ID, e.plan[i], j.Need())
		}
		sum += e.plan[i]
	}
	switch {
	case sum > e.Budget:
		return fmt.Errorf("scheduler: Batch gives %d tokens, expected at most %d", sum, e.Budget)
	case s.Uncached < 0 || s.Uncached > Share:
		return fmt.Errorf("scheduler: an uncached share of %d, expected 0 to %d", s.Uncached, Share)
	case s.Uncached > 0 && !e.NoPrefix:
		return errors.New("scheduler: an uncached share needs an engine without reuse of prefixes")
	}
	e.step.Uncached = s.Uncached
	return nil
}

// uncached returns the tokens of a request that are made again in an iteration of some tokens.
func (e *replica) uncached(j *Job, tokens int) int {
	if !j.Decodes() {
		return 0
	}
	return (j.Computed + tokens) * e.state.Uncached / Share
}

// lack returns the blocks that a request needs in addition for some tokens, below 0 if it has too
// many.
func (e *replica) lack(j *Job, tokens int) int {
	all, room := j.Computed+tokens, len(j.held)*e.BlockTokens
	if e.state.Uncached == 0 && e.Memory.Cached == 0 && all <= room && all > room-e.BlockTokens {
		return 0 // without a division
	}
	return e.blocks(j.Computed+tokens-e.uncached(j, tokens)) - len(j.held)
}

// room returns the blocks that are left in an iteration with more tokens.
func (e *replica) room(j *Job, tokens int) int {
	all := int64(e.step.Prefill + e.step.Decode + tokens)
	outputs := e.work.Outputs
	if tokens == j.Need() {
		outputs++
	}
	return e.limit(all, outputs, int64(e.step.Again+e.uncached(j, tokens))) - e.pool.used
}

// fits reports whether the blocks for some tokens of a running request are free. The blocks that requests
// hold always fit, unless the room of KV shrinks.
func (e *replica) fits(j *Job, tokens int) bool {
	lack := e.lack(j, tokens)
	return lack <= 0 && !e.Memory.Elastic && e.state.Uncached == 0 || lack <= e.room(j, tokens)
}

// grow gives a running request tokens in the iteration.
func (e *replica) grow(j *Job, tokens int, f *flight) {
	again := e.uncached(j, tokens)
	for n := e.lack(j, tokens); n != 0; {
		if n > 0 {
			j.held, n = append(j.held, e.pool.take()), n-1
		} else {
			last := len(j.held) - 1
			e.pool.release(j.held[last])
			j.held, n = j.held[:last], n+1
		}
	}
	e.step.Batch++
	e.state.Budget -= tokens
	if j.Decodes() {
		e.step.Decode++
		e.step.Again += again
		e.work.AddDecode(int64(j.Tokens()), int64(again))
	} else {
		e.step.Prefill += tokens
		e.work.Chunks = append(e.work.Chunks, operator.Chunk{Tokens: int64(tokens), Before: int64(j.Computed)})
	}
	produces := tokens == j.Need()
	before := j.Computed / e.BlockTokens
	j.Computed += tokens
	if !e.NoPrefix && e.Memory.Cached == 0 {
		for b := before; b < j.Computed/e.BlockTokens; b++ {
			e.pool.name(j.held[b], e.content(j, b))
		}
	}
	if produces {
		j.Generated++
		e.work.Outputs++
		f.produces = append(f.produces, j)
	}
}

// content returns the content of a request's block.
func (e *replica) content(j *Job, block int) content {
	if j.prefix != nil && (block+1)*e.BlockTokens <= j.Input {
		each := PrefixTokens / e.BlockTokens
		return content{prefix: j.prefix[block/each], index: int32(block % each)}
	}
	return content{job: j, index: int32(block)}
}

// preempt takes the memory of a running request. Its KV goes to the host if there is room, and
// otherwise it is made again.
func (e *replica) preempt(at int) {
	s := &e.state
	j := s.Running[at]
	s.Running, e.plan = slices.Delete(s.Running, at, at+1), slices.Delete(e.plan, at, at+1)
	s.Waiting = slices.Insert(s.Waiting, behind(s.Waiting, j.Priority-1), j)
	j.Preemptions++
	e.step.Preempted++
	e.promised -= e.promise(j)
	switch bytes := e.leaves(j); {
	case j.Decodes() && bytes > 0 && e.hosted+bytes <= e.Memory.Host:
		e.hosted += bytes
		if j.hosted = len(j.held); e.Preempt == pipeline.ByHidden {
			j.hosted = j.Computed
		} else {
			e.step.ToHost += bytes
			e.moves += e.pricer.Store(int64(j.hosted))
		}
	default:
		j.Computed = 0
	}
	e.drop(j)
}

// leaves returns the bytes of a request in host memory.
func (e *replica) leaves(j *Job) int64 {
	switch e.Preempt {
	case pipeline.BySwap:
		return int64(len(j.held)) * e.Memory.Block
	case pipeline.ByHidden:
		return int64(j.Computed) * e.Memory.Hidden
	}
	return 0
}

// drop releases the blocks of a request, the last first, so that the first ones stay for longest.
func (e *replica) drop(j *Job) {
	for i := len(j.held) - 1; i >= 0; i-- {
		e.pool.release(j.held[i])
	}
	j.held = j.held[:0]
}

// admit lets a waiting request run if its tokens fit.
func (e *replica) admit(at int, f *flight) (bool, error) {
	j := e.state.Waiting[at]
	free := 0
	if j.hosted == 0 && !e.NoPrefix {
		free = e.match(j)
	}
	tokens := min(j.Need(), e.state.Budget)
	whole := tokens
	if e.Reserve {
		whole = j.Need()
	}
	room := e.room(j, tokens) - free
	if e.promised+e.promise(j) > e.most() || e.blocks(j.Computed+whole)-len(j.held) > room || e.lack(j, tokens) > room {
		if j.hosted == 0 {
			j.held, j.Computed = j.held[:0], 0
		}
		return false, nil
	}
	for _, b := range j.held {
		e.pool.hold(b)
	}
	if j.hosted > 0 {
		if err := e.resume(j); err != nil {
			return false, err
		}
	}
	if at == 0 { // without moving the others
		e.state.Waiting[0], e.state.Waiting = nil, e.state.Waiting[1:]
	} else {
		e.state.Waiting = slices.Delete(e.state.Waiting, at, at+1)
	}
	r := e.state.Running
	e.state.Running = slices.Insert(r, behind(r, j.Priority), j)
	e.promised += e.promise(j)
	if j.admitted < 0 {
		j.admitted, j.reused = e.state.Now, j.Computed
	}
	e.grow(j, tokens, f)
	return true, nil
}

// promise returns the blocks of a request with its whole answer, 0 if requests may be preempted.
func (e *replica) promise(j *Job) int {
	if e.Preempt != pipeline.Never {
		return 0
	}
	return e.blocks(j.Input + j.output)
}

// match finds the leading blocks whose content is known, and returns the number of those that no
// request holds. The last token is computed again, because its logits are needed.
func (e *replica) match(j *Job) (free int) {
	for b := range (j.Tokens() - 1) / e.BlockTokens {
		at := e.pool.find(e.content(j, b))
		if at == none {
			break
		}
		if e.pool.holders[at] == 0 {
			free++
		}
		j.held = append(j.held, at)
	}
	j.Computed = len(j.held) * e.BlockTokens
	return free
}

// resume brings the KV of a preempted request back from the host.
func (e *replica) resume(j *Job) error {
	var bytes, ns int64
	var err error
	if e.Preempt == pipeline.ByHidden {
		bytes = int64(j.hosted) * e.Memory.Hidden
		ns, err = e.pricer.Restore(int64(j.hosted))
	} else {
		bytes, ns = int64(j.hosted)*e.Memory.Block, e.pricer.Fetch(int64(j.hosted))
	}
	e.hosted -= bytes
	e.step.ToGPU += bytes
	e.moves += ns
	j.hosted = 0
	return err
}

// price returns the time of a replica's iteration, with the transfers before it, in ns.
func (e *replica) price() (int64, error) {
	ns, err := e.pricer.Iteration(&e.work)
	switch {
	case err != nil:
		return 0, fmt.Errorf("iteration %d: %w", e.steps, err)
	case ns < 0 || e.moves < 0 || ns > math.MaxInt64/4-e.moves || e.busy > math.MaxInt64/2:
		return 0, fmt.Errorf("iteration %d takes %d ns and %d ns of transfers, expected 0 to 73 years", e.steps, ns, e.moves)
	}
	if hosted := e.below(); hosted > e.Memory.Host {
		return 0, fmt.Errorf("iteration %d: the KV of %d running requests takes %d bytes of %d in host memory: let fewer requests run", e.steps, len(e.state.Running), hosted, e.Memory.Host)
	}
	return ns + e.moves, nil
}

// start lets an iteration run and writes its row.
func (e *engine) start(f *flight, ns int64) error {
	r := &e.row
	r.Number, r.Start = e.steps, max(e.now, e.busy)
	r.End = r.Start + ns
	e.steps, e.busy, f.end = e.steps+1, r.End, r.End
	e.flights = append(e.flights, f)
	for _, to := range e.rows {
		if to.Step == nil {
			continue
		}
		if err := to.Step(r); err != nil {
			return err
		}
	}
	return nil
}

// below returns the bytes of copied KV in host memory.
func (e *replica) below() (bytes int64) {
	if e.Memory.Copied {
		for _, j := range e.state.Running {
			bytes += int64(j.Computed) * e.Memory.Block / int64(e.BlockTokens)
		}
	}
	return bytes
}

// leave releases the memory of a request that has all its tokens.
func (e *replica) leave(j *Job) {
	e.leaving--
	e.promised -= e.promise(j)
	e.drop(j)
	e.pool.forget(j)
}

// land waits for the first iteration in flight and hands out its tokens.
func (e *engine) land() error {
	f := e.flights[0]
	e.flights = append(e.flights[:0], e.flights[1:]...)
	e.now = f.end
	for _, j := range f.produces {
		if j.produced++; j.produced == 1 {
			j.first = f.end
		}
		if j.produced < j.output {
			continue
		}
		j.at.leave(j)
		row := RequestRow{ID: j.ID, Arrival: j.Arrival, Admitted: j.admitted, First: j.first, Finish: f.end,
			Input: j.Input, Output: j.output, Preemptions: j.Preemptions, Reused: j.reused, Class: j.Class}
		for _, to := range e.rows {
			if to.Request == nil {
				continue
			}
			if err := to.Request(&row); err != nil {
				return err
			}
		}
	}
	e.spare = f
	return nil
}
