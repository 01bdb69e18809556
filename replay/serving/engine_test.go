package serving

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// toy prices work in small whole numbers.
type toy struct{}

func (toy) Iteration(x *pipeline.Iteration) (int64, error) {
	ns := 100 + x.Context/4 + 3*x.Decodes + 5*x.Outputs + int64(x.Again) + int64(x.Squares)/64
	for _, c := range x.Chunks {
		ns += 7*c.Tokens + c.Tokens*c.Before/16
	}
	return ns, nil
}
func (toy) Store(blocks int64) int64            { return 11 * blocks }
func (toy) Fetch(blocks int64) int64            { return 13 * blocks }
func (toy) Restore(tokens int64) (int64, error) { return 2 * tokens, nil }

// partial is FCFS with an uncached share that depends on the batch.
type partial struct{ FCFS }

func (p partial) Batch(s *State, plan []int) {
	s.Uncached = Share * min(len(s.Running), 6) / 8
	p.FCFS.Batch(s, plan)
}

// latest admits the latest arrival and preempts the request at hand, and gives prompts few tokens.
type latest struct{}

func (latest) Batch(s *State, plan []int) {
	left := s.Budget
	for i, j := range s.Running {
		plan[i] = min(j.Need(), left, 3+int(j.ID)%5)
		left -= plan[i]
	}
}
func (latest) Preempt(s *State, at int) int { return at + (len(s.Running)-at)/2 }
func (latest) Admit(s *State) int           { return len(s.Waiting) - 1 }

// drawn returns requests and an engine that a seed decides.
func drawn(seed uint64) ([]Request, Options) {
	r := rand.New(rand.NewPCG(seed, 29))
	tokens := []int{1, 2, 4, 8, 16}[r.IntN(5)]
	o := Options{Preempt: pipeline.Resumptions[r.IntN(4)],
		Scheduler: []Scheduler{FCFS{}, FCFS{}, latest{}, partial{}, &Optimised{Time: toy{}.Iteration, Partial: true}, &Optimised{Time: toy{}.Iteration, SLO: 500}}[r.IntN(6)], BlockTokens: tokens, Budget: 1 + r.IntN(40), MaxRunning: 1 + r.IntN(9),
		Ahead: r.IntN(2) == 0, Reserve: r.IntN(2) == 0, NoPrefix: r.IntN(3) == 0}
	_, part := o.Scheduler.(partial)
	if e, ok := o.Scheduler.(*Optimised); ok {
		part = e.Partial
	}
	o.NoPrefix = o.NoPrefix || part
	if part && o.Preempt == pipeline.Never {
		o.Preempt = pipeline.BySwap // as ellm does, whose uncached tokens need more memory
	}
	m := &o.Memory
	*m = Memory{Weights: 1000, Token: int64(r.IntN(3)), Kept: int64(r.IntN(2)), Output: int64(r.IntN(5)), Block: int64(8 * tokens), Hidden: 4, Host: int64(r.IntN(1000)), Elastic: r.IntN(2) == 0 && o.Preempt != pipeline.Never}
	if part {
		m.Buffer = 1
	}
	longest := 20 + r.IntN(60)
	room := longest + r.IntN(4*longest)
	m.Total = m.Weights + max(int64(o.Budget)*m.Token, int64(o.Budget)*m.Kept+int64(min(o.MaxRunning, o.Budget))*m.Output) + int64((room+tokens-1)/tokens)*m.Block
	if part {
		m.Total += int64(longest) * (m.Token + m.Buffer)
	}
	if r.IntN(8) == 0 {
		m.Blocks = (room + tokens - 1) / tokens
	}
	if r.IntN(8) == 0 && !part {
		m.Cached, m.Index, m.Host = 1+r.IntN(20), int64(r.IntN(3)), 1<<20
	}
	prioritised := r.IntN(3) == 0
	if prioritised {
		o.Priority = []string{"high", "middle"}
	}
	var all []Request
	at := int64(0)
	for range 1 + r.IntN(40) {
		at += int64(r.IntN(3) * r.IntN(1000))
		q := Request{Arrival: at, Input: 1 + r.IntN(longest-1)}
		q.Output = 1 + r.IntN(longest-q.Input)
		if prioritised {
			q.Class = []string{"low", "", "high", "middle"}[r.IntN(4)]
		}
		if r.IntN(2) == 0 {
			q.Prefix = []int64{int64(r.IntN(3))}
		}
		all = append(all, q)
	}
	return all, o
}

func runAll(t *testing.T, all []Request, o Options) (rows []RequestRow, steps []StepRow, err error) {
	t.Helper()
	err = Run(context.Background(), FromSlice(all), toy{}, o, Rows{
		Request: func(r *RequestRow) error { rows = append(rows, *r); return nil },
		Step:    func(r *StepRow) error { steps = append(steps, *r); return nil },
	})
	return rows, steps, err
}

// differ runs both engines and checks the invariants.
func differ(t *testing.T, seed uint64) (preempted, reused int) {
	t.Helper()
	all, o := drawn(seed)
	rows, steps, err := runAll(t, all, o)
	if err != nil {
		if strings.Contains(err.Error(), "needs") {
			return 0, 0 // larger than memory, because content in blocks rounds up
		}
		t.Fatalf("seed %d: %v (%+v)", seed, err, o)
	}
	wantRows, wantSteps := runReference(all, toy{}, o)
	for i := range min(len(steps), len(wantSteps)) {
		if steps[i] != wantSteps[i] {
			t.Fatalf("seed %d, step %d:\n%+v, the reference\n%+v", seed, i, steps[i], wantSteps[i])
		}
	}
	if !reflect.DeepEqual(rows, wantRows) || len(steps) != len(wantSteps) {
		t.Fatalf("seed %d: %d rows and %d steps differ from the %d and %d of the reference", seed, len(rows), len(steps), len(wantRows), len(wantSteps))
	}
	checkRun(t, seed, all, o, rows, steps)
	if _, unfair := o.Scheduler.(latest); !unfair {
		if err := starved(o, rows); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for _, r := range rows {
		if o.Preempt == pipeline.Never && r.Preemptions > 0 {
			t.Fatalf("seed %d: request %d is preempted", seed, r.ID)
		}
		preempted += r.Preemptions
		reused += r.Reused
	}
	return preempted, reused
}

// checkRun checks that requests are conserved, time does not run back, causes come before effects,
// and memory holds every iteration.
func checkRun(t *testing.T, seed uint64, all []Request, o Options, rows []RequestRow, steps []StepRow) {
	t.Helper()
	ends := map[int64]bool{}
	decoded, prefilled, sum := 0, 0, 0
	for i, s := range steps {
		ends[s.End] = true
		decoded, prefilled = decoded+s.Decode, prefilled+s.Prefill
		switch {
		case s.End < s.Start || i > 0 && s.Start < steps[i-1].End:
			t.Fatalf("seed %d, step %d runs from %d to %d, after one that ends at %d", seed, i, s.Start, s.End, steps[i-1].End)
		case s.Prefill+s.Decode > o.Budget || s.Running > o.MaxRunning || s.Batch == 0:
			t.Fatalf("seed %d: %+v exceeds %d tokens or %d requests", seed, s, o.Budget, o.MaxRunning)
		case o.Memory.Blocks == 0 && s.Memory() > o.Memory.Total, o.Memory.Blocks > 0 && s.Blocks > o.Memory.Blocks:
			t.Fatalf("seed %d: %+v exceeds memory %+v", seed, s, o.Memory)
		}
	}
	seen := map[int64]bool{}
	for _, r := range rows {
		q := all[r.ID]
		if sum += r.Input + r.Output - r.Reused - 1; r.Preemptions > 0 && !o.NoPrefix {
			sum -= max(0, shared(all, int(r.ID), o.BlockTokens)-r.Reused) // another request may compute these meanwhile
		}
		switch {
		case seen[r.ID] || r.Arrival != q.Arrival || r.Input != q.Input || r.Output != q.Output:
			t.Fatalf("seed %d: %+v of %+v", seed, r, q)
		case r.Admitted < r.Arrival || r.First < r.Admitted || r.Finish < r.First || !ends[r.First] || !ends[r.Finish]:
			t.Fatalf("seed %d: effects come before causes: %+v", seed, r)
		}
		seen[r.ID] = true
	}
	if len(rows) != len(all) || decoded+prefilled < sum {
		t.Fatalf("seed %d: %d of %d requests end, %d tokens are computed, expected at least %d", seed, len(rows), len(all), decoded+prefilled, sum)
	}
	if last := steps[len(steps)-1]; last.Waiting > 0 {
		t.Fatalf("seed %d: %+v is the last step", seed, last)
	}
}

// shared returns the leading tokens of a request in blocks that another request has too.
func shared(all []Request, id, block int) (tokens int) {
	has := func(q *Request, prefix int64, index int) bool {
		for b := 0; q.Prefix != nil && (b+1)*block <= q.Input; b++ {
			if q.Prefix[b*block/PrefixTokens] == prefix && b%(PrefixTokens/block) == index {
				return true
			}
		}
		return false
	}
	q := &all[id]
	for b := 0; q.Prefix != nil && (b+1)*block <= q.Input; b++ {
		prefix, index := q.Prefix[b*block/PrefixTokens], b%(PrefixTokens/block)
		known := false
		for i := range all {
			known = known || i != id && has(&all[i], prefix, index)
		}
		if !known {
			break
		}
		tokens += block
	}
	return tokens
}

// starved finds requests that wait too long. One request is ahead of another if its class has a higher
// priority, or the same and it arrived earlier. Nobody is admitted before those ahead. A request
// waits at most until all have ended that are ahead or were admitted before it arrived. It keeps its
// memory if none ahead runs at the same time. Under Ahead, requests whose last token is in flight may
// hold it.
func starved(o Options, rows []RequestRow) error {
	rank := func(r RequestRow) int {
		if i := slices.Index(o.Priority, r.Class); i >= 0 {
			return i
		}
		return len(o.Priority)
	}
	for _, r := range rows {
		bound, alone := r.Arrival, true
		for _, k := range rows {
			ahead := rank(k) < rank(r) || rank(k) == rank(r) && k.ID < r.ID
			if ahead && k.Arrival <= r.Admitted && k.Admitted > r.Admitted {
				return fmt.Errorf("%+v is admitted before %+v", r, k)
			}
			if ahead && k.Arrival <= r.Admitted || !ahead && k.ID != r.ID && k.Admitted <= r.Arrival {
				bound = max(bound, k.Finish)
			}
			if ahead && k.Finish > r.Admitted && k.Admitted < r.Finish {
				alone = false
			}
		}
		if r.Admitted > bound {
			return fmt.Errorf("%+v waits beyond %d, when all before it have ended", r, bound)
		}
		if alone && r.Preemptions > 0 && !o.Ahead {
			return fmt.Errorf("%+v is preempted, and nobody ahead runs", r)
		}
	}
	return nil
}

// The bounds of waiting find a scheduler that serves the latest first.
func TestStarved(t *testing.T) {
	found := 0
	for seed := range uint64(100) {
		all, o := drawn(seed)
		o.Scheduler, o.Priority = latest{}, nil
		if rows, _, err := runAll(t, all, o); err == nil && starved(o, rows) != nil {
			found++
		}
	}
	if found < 50 {
		t.Errorf("%d of 100 runs of a scheduler that serves the latest first are found", found)
	}
	late := []RequestRow{{ID: 0, Finish: 10}, {ID: 1, Arrival: 1, Admitted: 11, Finish: 20}}
	if err := starved(Options{}, late); err == nil || !strings.Contains(err.Error(), "waits beyond 10") {
		t.Errorf("%v, expected a wait beyond 10", err)
	}
	late[1].Admitted, late[1].Preemptions = 10, 1
	if err := starved(Options{}, late); err == nil || !strings.Contains(err.Error(), "is preempted") {
		t.Errorf("%v, expected a needless preemption", err)
	}
}

// TestReference compares both engines, and requires that the draws reach preemption and reuse.
func TestReference(t *testing.T) {
	runs := 400
	if !testing.Short() {
		runs = 4000
	}
	preempted, reused := 0, 0
	for seed := range uint64(runs) {
		p, r := differ(t, seed)
		preempted, reused = preempted+p, reused+r
	}
	if preempted < runs || reused < runs {
		t.Errorf("%d preemptions and %d reused tokens in %d runs: the draws test little", preempted, reused, runs)
	}
}

func FuzzReference(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { differ(t, seed) })
}

// By hand: two replicas serve a prompt of 10 tokens and one of a token. The first iteration takes 175 ns
// on the first replica and 112 ns on the second, which waits. The second takes 110 and 108 ns. A third
// request finds equal replicas and waits for the first one.
func TestReplicasByHand(t *testing.T) {
	o := Options{Preempt: pipeline.ByRecompute, BlockTokens: 16, Budget: 40, MaxRunning: 1, Replicas: 2, Memory: Memory{Blocks: 10, Block: 1}}
	rows, steps, err := runAll(t, []Request{{Input: 10, Output: 2}, {Input: 1, Output: 2}, {Arrival: 10, Input: 1, Output: 1}}, o)
	if err != nil || len(rows) != 3 || len(steps) != 3 {
		t.Fatalf("%d requests and %d iterations, %v", len(rows), len(steps), err)
	}
	for i, want := range []RequestRow{{ID: 0, First: 175, Finish: 285}, {ID: 1, First: 175, Finish: 285}, {ID: 2, Admitted: 285, First: 397, Finish: 397}} {
		if r := rows[i]; r.ID != want.ID || r.Admitted != want.Admitted || r.First != want.First || r.Finish != want.Finish {
			t.Errorf("request %+v, expected %+v", r, want)
		}
	}
	if s := steps[0]; s.Running != 2 || s.Batch != 2 || s.Prefill != 11 || s.Blocks != 2 {
		t.Errorf("the first iteration is %+v, expected the sums of two replicas", s)
	}
}

// Each of three replicas serves a copy of every request as one engine does without replicas.
func TestReplicasAreEngines(t *testing.T) {
	for seed := range uint64(300) {
		all, o := drawn(seed)
		if _, ok := o.Scheduler.(latest); ok { // which looks at numbers of requests
			continue
		}
		want, wantSteps, err := runAll(t, all, o)
		if err != nil {
			continue
		}
		var copies []Request
		for _, q := range all {
			copies = append(copies, q, q, q)
		}
		o.Replicas = 3
		got, steps, err := runAll(t, copies, o)
		if err != nil || len(got) != 3*len(want) || len(steps) != len(wantSteps) {
			t.Fatalf("seed %d: %d requests and %d iterations, expected %d and %d, %v", seed, len(got), len(steps), 3*len(want), len(wantSteps), err)
		}
		byID := map[int64]RequestRow{}
		for _, r := range want {
			byID[r.ID] = r
		}
		for _, r := range got {
			w := byID[r.ID/3]
			if r.ID = w.ID; r != w {
				t.Fatalf("seed %d: request %+v, expected %+v", seed, r, w)
			}
		}
		for i, s := range steps {
			w := wantSteps[i]
			if s.Start != w.Start || s.End != w.End || s.KV != w.KV || s.Running != 3*w.Running || s.Blocks != 3*w.Blocks || s.Preempted != 3*w.Preempted {
				t.Fatalf("seed %d: iteration %+v, expected three times %+v", seed, s, w)
			}
		}
	}
}
