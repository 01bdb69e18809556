package serving

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
)

// reference is the slow twin of engine. It holds all requests, and counts blocks anew whenever it
// needs a number. It looks at every block to find content. It derives the work of an iteration from
// the tokens that each request got.
type reference struct {
	Options
	pricer Pricer
	state  State
	jobs   []*Job // that have not arrived
	blocks []refBlock
	clock  int // releases so far
	flying []refFlight
	ended  []*Job // generate nothing more but hold blocks
	owners map[*Job][]int
	home   map[*Job]int64 // bytes in host memory
	steps  []StepRow
	rows   []RequestRow
}

type refBlock struct {
	content string
	holders int
	freed   int
}

type refFlight struct {
	end  int64
	gets []*Job
}

// given is a request with its tokens in an iteration.
type given struct {
	j      *Job
	tokens int
	decode bool
	before int
	again  int
	last   bool
}

func runReference(requests []Request, p Pricer, o Options) ([]RequestRow, []StepRow) {
	r := &reference{Options: o, pricer: p, owners: map[*Job][]int{}, home: map[*Job]int64{}, blocks: make([]refBlock, o.most())}
	r.state.options = &r.Options
	for i, q := range requests {
		r.jobs = append(r.jobs, &Job{ID: int64(i), Arrival: q.Arrival, Input: q.Input, output: q.Output, prefix: q.Prefix, admitted: -1, Class: q.Class, Priority: o.priority(q.Class)})
	}
	for i := range r.blocks {
		r.blocks[i].freed = i - len(r.blocks)
	}
	for r.tick() {
	}
	return r.rows, r.steps
}

// sorted moves jobs of a high priority before others and leaves the order otherwise.
func sorted(jobs []*Job) []*Job {
	slices.SortStableFunc(jobs, func(a, b *Job) int { return a.Priority - b.Priority })
	return jobs
}

func (r *reference) used() (n int) {
	for _, b := range r.blocks {
		if b.holders > 0 {
			n++
		}
	}
	return n
}

func (r *reference) find(content string) int {
	return slices.IndexFunc(r.blocks, func(b refBlock) bool { return b.content == content })
}

func (r *reference) oldest() int {
	best := -1
	for i, b := range r.blocks {
		if b.holders == 0 && (best < 0 || b.freed < r.blocks[best].freed) {
			best = i
		}
	}
	return best
}

func (r *reference) content(j *Job, n int) string {
	end := (n + 1) * r.BlockTokens
	if j.prefix != nil && end <= j.Input {
		return fmt.Sprint("prefix ", j.prefix[(end-1)/PrefixTokens], " to ", (end-1)%PrefixTokens)
	}
	return fmt.Sprint("request ", j.ID, " to ", end)
}

func (r *reference) resize(j *Job, n int) {
	for len(r.owners[j]) < n {
		b := r.oldest()
		r.blocks[b].content = ""
		r.blocks[b].holders = 1
		r.owners[j] = append(r.owners[j], b)
	}
	for len(r.owners[j]) > n {
		last := r.owners[j][len(r.owners[j])-1]
		r.owners[j] = r.owners[j][:len(r.owners[j])-1]
		if r.blocks[last].holders--; r.blocks[last].holders == 0 {
			r.clock++
			r.blocks[last].freed = r.clock
		}
	}
}

func (r *reference) count(tokens int) int {
	index := int64(tokens) * r.Memory.Index
	if r.Memory.Cached > 0 && tokens > r.Memory.Cached {
		tokens = r.Memory.Cached
	}
	n := 0
	for n*r.BlockTokens < tokens {
		n++
	}
	for ; index > 0; index -= r.Memory.Block {
		n++
	}
	return n
}

// again returns the uncached tokens of a request.
func (r *reference) again(j *Job, tokens int) int {
	if j.Computed < j.Input || j.Need() != 1 {
		return 0
	}
	return (j.Computed + tokens) * r.state.Uncached / Share
}

// left returns the free room in an iteration with the given tokens and those of one more.
func (r *reference) left(all []given, j *Job, tokens int) int {
	sum, last, again := tokens, 0, r.again(j, tokens)
	if tokens == j.Need() {
		last++
	}
	for _, g := range all {
		sum += g.tokens
		again += g.again
		if g.last {
			last++
		}
	}
	m := r.Memory
	if m.Blocks > 0 {
		return m.Blocks - r.used()
	}
	if !m.Elastic {
		sum, last = r.Budget, min(r.MaxRunning, r.Budget)
	}
	layers, sampler := int64(sum+again)*m.Token, int64(sum)*m.Kept+int64(last)*m.Output
	free := m.Total - m.Weights - max(layers, sampler) - int64(again)*m.Buffer
	if free < 0 {
		return -1 - r.used()
	}
	return int(free/m.Block) - r.used()
}

func (r *reference) give(j *Job, tokens int) given {
	g := given{j, tokens, j.Computed >= j.Input && j.Need() == 1, j.Computed, r.again(j, tokens), tokens == j.Need()}
	r.resize(j, r.count(j.Computed+tokens-g.again))
	j.Computed += tokens
	if !r.NoPrefix && r.Memory.Cached == 0 {
		for b := 0; (b+1)*r.BlockTokens <= j.Computed; b++ { // those that became full
			if (b+1)*r.BlockTokens > g.before && r.find(r.content(j, b)) < 0 {
				r.blocks[r.owners[j][b]].content = r.content(j, b)
			}
		}
	}
	if g.last {
		j.Generated++
	}
	r.state.Budget -= tokens
	return g
}

func (r *reference) tick() bool {
	s := &r.state
	for len(r.jobs) > 0 && r.jobs[0].Arrival <= s.Now {
		s.Waiting = sorted(append(s.Waiting, r.jobs[0]))
		r.jobs = r.jobs[1:]
	}
	all, row, moves := r.form()
	if len(all) > 0 {
		r.launch(all, row, moves)
	}
	room := 1
	if r.Ahead {
		room = 2
	}
	switch {
	case len(all) > 0 && len(r.flying) < room, row.Preempted > 0 && len(r.flying) == 0:
	case len(r.flying) > 0:
		r.land()
	case len(r.jobs) > 0:
		s.Now = r.jobs[0].Arrival
	default:
		return false
	}
	return true
}

func (r *reference) form() (all []given, row StepRow, moves int64) {
	s := &r.state
	s.Budget = r.Budget
	plan := make([]int, len(s.Running))
	r.Scheduler.Batch(s, plan)
	want := map[*Job]int{}
	for i, j := range s.Running {
		want[j] = plan[i]
	}
	for i := 0; i < len(s.Running); {
		j := s.Running[i]
		if want[j] > 0 {
			for slices.Contains(s.Running, j) && r.count(j.Computed+want[j]-r.again(j, want[j]))-len(r.owners[j]) > r.left(all, j, want[j]) {
				v := s.Running[r.Scheduler.Preempt(s, i)]
				row.Preempted++
				moves += r.evict(v, &row)
			}
			if !slices.Contains(s.Running, j) {
				continue
			}
			all = append(all, r.give(j, want[j]))
		}
		i++
	}
	for row.Preempted == 0 && s.Budget > 0 && len(s.Waiting) > 0 && len(s.Running)+len(r.ended) < r.MaxRunning {
		i := r.Scheduler.Admit(s)
		if i < 0 {
			break
		}
		j := s.Waiting[i]
		free := 0
		if r.home[j] == 0 && !r.NoPrefix {
			for b := 0; (b+1)*r.BlockTokens < j.Tokens(); b++ {
				at := r.find(r.content(j, b))
				if at < 0 {
					break
				}
				if r.blocks[at].holders == 0 {
					free++
				}
				r.owners[j] = append(r.owners[j], at)
				j.Computed += r.BlockTokens
			}
		}
		tokens := min(j.Need(), s.Budget)
		need := tokens
		if r.Reserve {
			need = j.Need()
		}
		room, promised := r.left(all, j, tokens)-free, 0
		if r.Preempt == pipeline.Never {
			for _, o := range append(append([]*Job{j}, s.Running...), r.ended...) {
				promised += r.count(o.Input + o.output)
			}
		}
		if promised > len(r.blocks) || r.count(j.Computed+need)-len(r.owners[j]) > room || r.count(j.Computed+tokens-r.again(j, tokens))-len(r.owners[j]) > room {
			if r.home[j] == 0 {
				r.owners[j] = nil
				j.Computed = 0
			}
			break
		}
		for _, b := range r.owners[j] {
			r.blocks[b].holders++
		}
		if bytes := r.home[j]; bytes > 0 {
			row.ToGPU += bytes
			if r.Preempt == pipeline.ByHidden {
				ns, _ := r.pricer.Restore(bytes / r.Memory.Hidden)
				moves += ns
			} else {
				moves += r.pricer.Fetch(bytes / r.Memory.Block)
			}
			delete(r.home, j)
		}
		s.Waiting = slices.DeleteFunc(slices.Clone(s.Waiting), func(o *Job) bool { return o == j })
		s.Running = sorted(append(s.Running, j))
		if j.admitted < 0 {
			j.admitted, j.reused = s.Now, j.Computed
		}
		all = append(all, r.give(j, tokens))
	}
	for _, g := range all {
		if g.last && g.j.Generated == g.j.output {
			r.ended = append(r.ended, g.j)
			s.Running = slices.DeleteFunc(slices.Clone(s.Running), func(o *Job) bool { return o == g.j })
		}
	}
	return all, row, moves
}

func (r *reference) evict(j *Job, row *StepRow) (moves int64) {
	s := &r.state
	s.Running = slices.DeleteFunc(slices.Clone(s.Running), func(o *Job) bool { return o == j })
	s.Waiting = sorted(append([]*Job{j}, s.Waiting...))
	j.Preemptions++
	var bytes, held int64
	for _, b := range r.home {
		held += b
	}
	switch {
	case r.Preempt == pipeline.BySwap:
		bytes = int64(len(r.owners[j])) * r.Memory.Block
	case r.Preempt == pipeline.ByHidden:
		bytes = int64(j.Computed) * r.Memory.Hidden
	}
	if bytes > 0 && j.Computed >= j.Input && j.Need() == 1 && held+bytes <= r.Memory.Host {
		r.home[j] = bytes
		if r.Preempt == pipeline.BySwap {
			row.ToHost += bytes
			moves = r.pricer.Store(int64(len(r.owners[j])))
		}
	} else {
		j.Computed = 0
	}
	r.resize(j, 0)
	return moves
}

func (r *reference) launch(all []given, row StepRow, moves int64) {
	var x pipeline.Iteration
	for _, g := range all {
		if g.decode {
			x.Decodes++
			x.Context += int64(g.before + g.tokens)
			x.Again += float64(g.again)
			x.Squares += float64(g.again * g.again)
			row.Decode++
			row.Again += g.again
		} else {
			x.Chunks = append(x.Chunks, operator.Chunk{Tokens: int64(g.tokens), Before: int64(g.before)})
			row.Prefill += g.tokens
		}
		if g.last {
			x.Outputs++
		}
	}
	ns, _ := r.pricer.Iteration(&x)
	row.Number, row.Batch, row.Uncached = int64(len(r.steps)), len(all), r.state.Uncached
	row.Start = r.state.Now
	if len(r.steps) > 0 {
		row.Start = max(row.Start, r.steps[len(r.steps)-1].End)
	}
	row.End = row.Start + ns + moves
	row.Running, row.Waiting, row.Blocks = len(r.state.Running)+len(r.ended), len(r.state.Waiting), r.used()
	m := r.Memory
	row.Weights, row.KV, row.Buffers = m.Weights, int64(row.Blocks)*m.Block, int64(row.Again)*m.Buffer
	tokens, outputs := row.Prefill+row.Decode, x.Outputs
	if !m.Elastic {
		tokens, outputs = r.Budget, int64(min(r.MaxRunning, r.Budget))
	}
	row.Activations = max(int64(tokens+row.Again)*m.Token, int64(tokens)*m.Kept+outputs*m.Output)
	row.Generated = int(x.Outputs)
	r.steps = append(r.steps, row)
	f := refFlight{end: row.End}
	for _, g := range all {
		if g.last {
			f.gets = append(f.gets, g.j)
		}
	}
	r.flying = append(r.flying, f)
}

func (r *reference) land() {
	f := r.flying[0]
	r.flying = r.flying[1:]
	r.state.Now = f.end
	for _, j := range f.gets {
		j.produced++
		j.first = cmp.Or(j.first, f.end)
		if j.produced == j.output {
			r.ended = slices.DeleteFunc(r.ended, func(o *Job) bool { return o == j })
			r.resize(j, 0)
			r.rows = append(r.rows, RequestRow{ID: j.ID, Arrival: j.Arrival, Admitted: j.admitted, First: j.first, Finish: f.end,
				Input: j.Input, Output: j.output, Preemptions: j.Preemptions, Reused: j.reused, Class: j.Class})
		}
	}
}
