package run

import (
	"fmt"
	"slices"
	"sync"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// requestFacts are the facts of a whole request that its caches need. They are the importance of
// its positions at the end of the prompt, and budgets that change.
type requestFacts struct {
	request    string
	known      bool
	importance map[int32]float64          // of each position, over layers and heads. Nil unless the warm-up needs it
	budgets    map[int][]cache.CapacityAt // by selected stream. Nil if budgets do not change
	streams    [][]*trace.Stream          // of the request, for the referee

	kept     map[int]*member // by selected stream: the first ones, until they list keptIndices
	observed []observed
	initial  []int // entries
	members  []int // selected streams
}

// keptIndices is the number of listed indices up to which a worker keeps the streams of a request.
// It then replays them without reading them again. The indices take 32 MiB. Tests make it smaller.
var keptIndices = 1 << 23

// readRequest reads all selected streams of the cache's request. It reads none if no cell needs
// them, or if the worker has just read this request.
func (w *worker) readRequest() error {
	p, a := w.plan, &w.request
	request := p.selected(w.cache.from).Request
	if p.warmup.Scope != setting.ScopeRequest && p.opt.Reallocation.Every == 0 || a.known && a.request == request {
		return nil
	}
	*a = requestFacts{request: request, kept: map[int]*member{}}
	if p.warmup.Scope == setting.ScopeRequest {
		a.importance = map[int32]float64{}
	}
	for i := range p.streams {
		if p.selected(i).Request == request {
			a.members = append(a.members, i)
		}
	}
	sizes, err := w.initialBudgets()
	if err != nil {
		return err
	}
	counter, listed := cache.NewStackCounter(), 0
	for _, i := range a.members {
		m := w.alone
		listed += p.selected(i).Rows * p.meta.Candidates * p.layout.Heads
		keeps := sizes != nil && listed <= keptIndices
		if keeps || p.opt.Referee {
			m = p.newMember()
		}
		if err := w.addStream(i, m, counter, sizes); err != nil {
			return err
		}
		if keeps {
			a.kept[i] = m
		}
		if p.opt.Referee {
			a.streams = append(a.streams, pointers(m.recorded))
		}
	}
	if err := w.divideAnew(sizes); err != nil {
		return err
	}
	a.known = true
	return nil
}

// addStream reads the i-th selected stream into m and adds it to the facts of its request.
func (w *worker) addStream(i int, m *member, counter *cache.StackCounter, sizes []int) error {
	p, a := w.plan, &w.request
	if err := w.read(i, m); err != nil {
		return err
	}
	o := p.deltaOptions(m.joiner)
	if a.importance != nil {
		demand.AddImportance(a.importance, m.stream, &o, p.warmup.Windows)
	}
	if sizes == nil {
		return nil
	}
	o.NextUses = o.NextUses && m != w.alone // other members are replayed
	if err := m.delta.Build(m.stream, o, w.check); err != nil {
		return err
	}
	misses, err := counter.Misses(&m.delta, p.opt.Reallocation.Every, inBlocks(sizes, p.pins.BlockTokens))
	if err != nil {
		return err
	}
	a.observed = append(a.observed, observed{key: p.allocated(i), misses: misses, last: m.stream.LastStep})
	return nil
}

func inBlocks(sizes []int, unit int) []int32 {
	return slice.Map(sizes, func(size int) int32 { return int32(size / unit) })
}

// initialBudgets stores the budgets of the plan for the streams of the request. It returns the
// sizes of possible budgets, or nil if budgets do not change.
func (w *worker) initialBudgets() ([]int, error) {
	p, a := w.plan, &w.request
	if p.opt.Reallocation.Every == 0 {
		return nil, nil
	}
	memory := int64(0)
	for _, i := range a.members {
		k := p.allocated(i)
		entries, ok := p.opt.Allocation.Capacity(k.Layer, k.Head)
		if !ok {
			return nil, fmt.Errorf("reallocation: the plan has no capacity for %v", k)
		}
		a.initial = append(a.initial, entries)
		memory += int64(entries)
	}
	return p.budgets(memory), nil
}

// divideAnew divides the memory of the request among its streams again in each interval.
func (w *worker) divideAnew(sizes []int) error {
	p, a := w.plan, &w.request
	if sizes == nil {
		return nil
	}
	later, err := reallocate(p.opt.Reallocation, a.observed, a.initial, sizes, p.pins.BlockTokens)
	if err != nil {
		return err
	}
	a.budgets = map[int][]cache.CapacityAt{}
	for n, i := range a.members {
		a.budgets[i] = later[n]
	}
	if p.opt.Referee {
		return w.checkObserved(sizes)
	}
	return nil
}

// importanceStreams returns the streams over which the referee sums the importance of positions. It
// returns nil if the importance of a request is not needed.
func (a *requestFacts) importanceStreams() [][]*trace.Stream {
	if a.importance == nil {
		return nil
	}
	return a.streams
}

// divisions are the budgets that Dividers give the streams of a request. They are computed when the
// first of these streams is replayed.
type divisions struct {
	mu sync.Mutex
	of map[string]*division
}

// division holds the budgets of one request by cell, then by stream from the request's first.
type division struct {
	once  sync.Once
	from  int
	cells map[int][]int
	err   error
}

// budget returns the budget that the Divider of cell c gives the i-th selected stream.
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

// requestOf returns the range of selected streams in the same request as the i-th one.
func (p *plan) requestOf(i int) (from, to int) {
	request := p.selected(i).Request
	for from = i; from > 0 && p.selected(from-1).Request == request; from-- {
	}
	for to = i + 1; to < len(p.streams) && p.selected(to).Request == request; to++ {
	}
	return from, to
}

// divide lets every Divider of the plan survey all streams of the i-th one's request. Each Divider
// then divides the memory of its cells' capacities.
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

func checkDivision(budgets []int, streams, total int) error {
	if len(budgets) != streams {
		return fmt.Errorf("policy divides memory among %d streams, expected the %d of the request", len(budgets), streams)
	}
	sum := 0
	for n, b := range budgets {
		if b < 1 {
			return fmt.Errorf("policy gives stream %d of the request a budget of %d blocks, expected at least 1", n, b)
		}
		sum += b
	}
	if sum > total {
		return fmt.Errorf("policy divides %d blocks among the streams of the request, expected at most %d", sum, total)
	}
	return nil
}

// survey shows the selected streams [from, to) to the Dividers, by runner.
func (p *plan) survey(from, to int, makers map[int]policies.Divider) (map[int][]policies.Surveyed, error) {
	reader := p.file.NewReader(trace.ReadScores | trace.ReadMasses | trace.ReadPromptMass)
	defer reader.Close()
	check := trace.NewChecker(p.file.Path(), p.meta)
	surveys := map[int][]policies.Surveyed{}
	var s trace.Stream
	var d demand.Delta
	var prompt policies.Prompt
	for n := from; n < to; n++ {
		if err := reader.Read(p.streams[n], &s); err != nil {
			return nil, err
		}
		if err := d.Build(&s, p.deltaOptions(nil), check); err != nil {
			return nil, err
		}
		d.Prompt(&prompt)
		prompt.Windows = d.PromptWindows()
		for runner, maker := range makers {
			surveys[runner] = append(surveys[runner], policies.Surveyed{Layer: s.Layer, Head: s.Head, Most: prompt.Most, Values: maker.Survey(&prompt, nil)})
		}
	}
	return surveys, nil
}

// sizingOf returns the figures with which capacities are resolved for the i-th selected stream,
// without the peaks of other policies.
func (p *plan) sizingOf(i int) setting.Sizing {
	s := setting.Sizing{TopK: p.topk * p.meta.BlockTokens, BlockTokens: p.pins.BlockTokens, PromptLen: int(p.selected(i).PromptLen),
		EntryBytes: p.entryBytes, Streams: p.siblings[i]}
	if a := p.opt.Allocation; a != nil {
		k := p.allocated(i)
		s.Planned, _ = a.Capacity(k.Layer, k.Head) // checkAllocation has checked that it exists
	}
	return s
}
