package replay

import (
	"fmt"
	"slices"
	"sync"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// runLossy replays a cell of a lossy policy on the i-th selected stream.
func (w *worker) runLossy(i, c int, st start) error {
	p, plan := w.plan, &w.plan.cells[c]
	runner := w.lossy[plan.runner]
	if runner == nil {
		var err error
		if runner, err = newLossyCell(plan.spec.Make()); err != nil {
			return err
		}
		w.lossy[plan.runner] = runner
	}
	at := lossyStart{budget: st.capacity, seed: st.seed, attention: p.attention()}
	if _, divides := runner.policy.(policies.Divider); divides {
		budget, err := p.divisions.budget(p, i, c)
		if err != nil {
			return err
		}
		at.budget, st.capacity = budget, budget
	}
	var look Observer
	var judge *lossyCheck
	if p.opt.Referee {
		var err error
		if judge, err = newLossyCheck(p, i, c, runner, at); err != nil {
			return err
		}
		look = judge.compare
	}
	counts, err := runner.run(&w.delta, at, look)
	if err == nil && judge != nil {
		err = judge.verdict()
	}
	if err != nil {
		return err
	}
	w.tally(i, c, st, &counts)
	return nil
}

// divisions are the budgets that Dividers give the streams of a request, worked out when the
// first of them is replayed.
type divisions struct {
	mu sync.Mutex
	of map[string]*division
}

// division is one request's: budgets by cell, then by stream from the request's first.
type division struct {
	once  sync.Once
	from  int
	cells map[int][]int
	err   error
}

// budget is what the Divider of cell c gives the i-th selected stream.
func (d *divisions) budget(p *plan, i, c int) (int, error) {
	request := p.selected(i).Request
	d.mu.Lock()
	if d.of == nil {
		d.of = map[string]*division{}
	}
	one := d.of[request]
	if one == nil {
		one = new(division)
		d.of[request] = one
	}
	d.mu.Unlock()
	one.once.Do(func() { one.from, one.cells, one.err = p.divide(i) })
	if one.err != nil {
		return 0, one.err
	}
	return one.cells[c][i-one.from], nil
}

// requestOf returns the range of selected streams that are of the i-th one's request.
func (p *plan) requestOf(i int) (from, to int) {
	request := p.selected(i).Request
	for from = i; from > 0 && p.selected(from-1).Request == request; from-- {
	}
	for to = i + 1; to < len(p.streams) && p.selected(to).Request == request; to++ {
	}
	return from, to
}

// divide surveys all streams of the i-th one's request for every Divider of the plan, and
// has each divide what its cells' capacities give them.
func (p *plan) divide(i int) (from int, cells map[int][]int, err error) {
	from, to := p.requestOf(i)
	makers := map[int]policies.Divider{} // by runner
	for _, c := range p.todo {
		if d, ok := p.cells[c].spec.Make().(policies.Divider); ok && makers[p.cells[c].runner] == nil {
			makers[p.cells[c].runner] = d
		}
	}
	surveys, err := p.survey(from, to, makers)
	if err != nil {
		return from, nil, err
	}
	cells = map[int][]int{}
	for _, c := range p.todo {
		plan := &p.cells[c]
		maker := makers[plan.runner]
		if maker == nil {
			continue
		}
		streams, total := surveys[plan.runner], 0
		for n := range streams {
			if streams[n].Capacity, err = plan.capacity.Blocks(p.sizingOf(from + n)); err != nil {
				return from, nil, err
			}
			total += streams[n].Capacity
		}
		budgets := maker.Divide(slices.Clone(streams))
		if err := checkDivision(budgets, len(streams), total); err != nil {
			return from, nil, fmt.Errorf("%s: %w", plan.name(), err)
		}
		cells[c] = budgets
	}
	return from, cells, nil
}

// checkDivision checks what a Divider answers.
func checkDivision(budgets []int, streams, total int) error {
	if len(budgets) != streams {
		return fmt.Errorf("policy divides memory among %d streams, the request has %d", len(budgets), streams)
	}
	sum := 0
	for n, b := range budgets {
		if b < 1 {
			return fmt.Errorf("policy gives stream %d of the request a budget of %d blocks, expected at least 1", n, b)
		}
		sum += b
	}
	if sum > total {
		return fmt.Errorf("policy divides %d blocks among the streams of the request, which may keep %d", sum, total)
	}
	return nil
}

// survey shows the selected streams [from, to) to the makers, by runner.
func (p *plan) survey(from, to int, makers map[int]policies.Divider) (map[int][]policies.Surveyed, error) {
	reader := p.file.NewReader(trace.ReadScores | trace.ReadMasses | trace.ReadPromptMass)
	defer reader.Close()
	check := trace.NewChecker(p.file.Path(), p.meta)
	surveys := map[int][]policies.Surveyed{}
	var s trace.Stream
	var d Delta
	var prompt policies.Prompt
	for n := from; n < to; n++ {
		if err := reader.Read(p.streams[n], &s); err != nil {
			return nil, err
		}
		if err := d.build(&s, p.deltaOptions(nil), check); err != nil {
			return nil, err
		}
		d.promptOf(&prompt)
		prompt.Windows = d.windowsOf()
		for runner, maker := range makers {
			surveys[runner] = append(surveys[runner], policies.Surveyed{Layer: s.Layer, Head: s.Head, Most: prompt.Most, Values: maker.Survey(&prompt, nil)})
		}
	}
	return surveys, nil
}

// windowsOf are the prompt windows of d, which was built with members.
func (d *Delta) windowsOf() (windows []policies.Window) {
	for i := range d.Windows {
		windows = append(windows, policies.Window{Demand: d.Members.Row(i), Local: int32(d.pins.firstLocal(d.stream.SeqLen(d.first + i)))})
	}
	return windows
}

// sizingOf is what a capacity of the i-th selected stream is resolved against, without
// the peaks of other policies.
func (p *plan) sizingOf(i int) setting.Sizing {
	s := setting.Sizing{TopK: p.topk * p.meta.BlockTokens, BlockTokens: p.pins.BlockTokens, PromptLen: int(p.selected(i).PromptLen),
		EntryBytes: p.bytes, Streams: p.siblings[i]}
	if a := p.opt.Allocation; a != nil {
		k := p.allocated(i)
		s.Planned, _ = a.Capacity(k.Layer, k.Head) // settleAllocation has checked that the plan has it
	}
	return s
}
