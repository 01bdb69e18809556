package serving

import "sort"

// Scheduler decides which requests run. The engine calls Batch once in each iteration, also if no
// request runs. It calls Preempt while a planned request lacks memory. It then calls Admit until
// Admit returns −1 or a request does not fit, but not in an iteration that preempts. A scheduler does
// not know how many tokens a request will generate.
type Scheduler interface {
	// Batch sets plan[i] to the tokens of s.Running[i] in this iteration, from 0 to its Need. The
	// sum is at most s.Budget, and above 0 if a request runs and no iteration is in flight. It may
	// set s.Uncached.
	Batch(s *State, plan []int)
	// Preempt returns the index of the running request that gives up its memory, so that request at
	// can go on. It is at or a later one. Earlier ones have their tokens already.
	Preempt(s *State, at int) int
	// Admit returns the index of the waiting request to run next, or −1 for none. Without a running
	// request and an iteration in flight it admits one.
	Admit(s *State) int
}

// State is the engine as a scheduler sees it. Only Uncached may be changed.
type State struct {
	Now     int64  // ns
	Budget  int    // tokens that this iteration can still have
	Running []*Job // by priority, then in order of admission
	Waiting []*Job // by priority, then preempted ones first, then in order of arrival
	// Uncached is the share of the tokens of decoding requests, from the first, whose KV is not kept
	// between iterations, in 1024ths. It needs Options.NoPrefix.
	Uncached int
	options  *Options
}

// behind returns the place behind the jobs of a priority in a list by priority.
func behind(jobs []*Job, priority int) int {
	return sort.Search(len(jobs), func(i int) bool { return jobs[i].Priority > priority })
}

// Share is the unit of State.Uncached.
const Share = 1024

// Job is a request that waits or runs.
type Job struct {
	ID          int64
	Arrival     int64 // ns
	Input       int   // tokens
	Generated   int   // tokens that finished or planned iterations generate
	Computed    int   // tokens with KV, from the first
	Preemptions int
	Class       string
	Priority    int // place of the class in Options.Priority. Smaller ones come first

	output, produced int // produced counts tokens of finished iterations
	prefix           []int64
	held             []int32
	own              []int32 // blocks with its content by their place in it, or none
	hosted           int     // blocks, or tokens of hidden states, that lie in host memory
	reused           int
	admitted, first  int64
	at               *replica
}

// Tokens returns the tokens of the prompt and the answer so far.
func (j *Job) Tokens() int { return j.Input + j.Generated }

// Need returns the tokens without KV. An iteration with all of them generates the next token.
func (j *Job) Need() int { return j.Tokens() - j.Computed }

// Decodes reports whether the prompt has its KV.
func (j *Job) Decodes() bool { return j.Computed >= j.Input && j.Need() == 1 }

// FCFS serves requests by priority, and in order of arrival within one. It decodes before it
// continues prompts, and preempts the latest of the lowest priority. Without priorities it is policy
// fcfs of vLLM's scheduler, version 1.
type FCFS struct{}

// Batch gives each request all tokens that it needs, in order of admission.
func (FCFS) Batch(s *State, plan []int) {
	left := s.Budget
	for i, j := range s.Running {
		plan[i] = min(j.Need(), left)
		left -= plan[i]
	}
}

// Preempt returns the request of the lowest priority that was admitted last.
func (FCFS) Preempt(s *State, _ int) int { return len(s.Running) - 1 }

// Admit returns the first waiting request.
func (FCFS) Admit(*State) int { return 0 }
