package run

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// plan is the work on a trace. Every default is filled in, and every request is checked.
type plan struct {
	file      *trace.File
	meta      *trace.Meta
	digest    string
	setting   result.Setting
	opt       *Options
	pins      demand.Pins
	layout    demand.Layout
	topk, m   int
	bytes     *int // of an entry
	warmup    setting.Warmup
	ranks     bool
	streams   []int // of the directory, that are selected: the first of those that share a cache
	cells     []cellPlan
	kept      [][]result.Row // rows of cells that the store had, nil for the others
	outdated  []outdated     // by cell: files of the store that new rows replace
	todo      []int          // cells to replay
	parts     []part         // of every cell
	partOf    []int          // by position in streams
	siblings  []int          // streams of the same request, by position in streams
	caches    []span         // runs of streams that share one
	needs     policies.Needs
	has       columns
	divisions divisions // of lossy policies
	notes     []string
	leftOut   []LeftOut
	warn      []string // on every row
}

// cellPlan is a policy at a capacity.
type cellPlan struct {
	spec     policies.Spec
	runner   int               // which instance of the worker runs it
	capacity *setting.Capacity // nil for windowed policies
	tier     int               // 0 for the GPU's cache, n for the n-th of Options.Tiers
	top      int               // cell of the GPU's cache that it is a tier of
	tierName string
	above    string // the caches above, "lru@2x"
}

// name is the cell as messages show it.
func (c cellPlan) name() string {
	name := c.spec.Name()
	if c.capacity != nil {
		name += " at capacity " + c.capacity.String()
	}
	if c.tier > 0 {
		name = "tier " + c.tierName + " below " + c.above + ": " + name
	}
	return name
}

// part is a row of each cell.
type part struct {
	request *string
	layer   *int32
	head    *int32
}

// PlanError is why a trace cannot serve a run, before anything is replayed.
type PlanError struct {
	Path string // of the trace
	Err  error
}

// Error names the trace.
func (e *PlanError) Error() string { return fmt.Sprintf("replay %s: %v", e.Path, e.Err) }

// Unwrap is the reason.
func (e *PlanError) Unwrap() error { return e.Err }

// newPlan checks o against the trace.
func newPlan(f *trace.File, o *Options) (*plan, error) {
	p := &plan{file: f, meta: f.Meta(), opt: o, ranks: f.Meta().Order == trace.OrderRank}
	steps := []func() error{o.check, p.checkTexts, p.resolveLists, p.resolveShape, p.selectStreams, p.shareHeads, p.resolveWarmup, p.checkCombination, p.findColumns, p.resolvePins, p.checkOutliers, p.checkClusters, p.checkPrefetch, p.shareCaches, p.checkTiers, p.checkAllocation, p.checkReallocation, p.applyAllocation, p.planCells, p.checkProfile}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, &PlanError{f.Path(), err}
		}
	}
	p.planParts()
	var err error
	if p.digest, err = f.Digest(); err != nil {
		return nil, err
	}
	p.setting = p.state()
	return p, p.recall()
}

// recall takes what the store has and lists what is left to do: missing cells, and the
// windowed policies whose peaks missing cells need.
func (p *plan) recall() error {
	p.kept, p.todo = make([][]result.Row, len(p.cells)), nil
	if err := p.findOutdated(); err != nil {
		return err
	}
	reuse := p.opt.Store != nil && !p.opt.Fresh && !p.opt.Referee && p.opt.Profile == nil
	needed := map[string]bool{}
	for i := range p.cells {
		if reuse {
			rows, err := p.opt.Store.load(p.key(&p.cells[i]), len(p.parts))
			if err != nil {
				return err
			}
			p.kept[i] = rows
		}
		if c := p.cells[i].capacity; p.kept[i] == nil && c != nil && c.Peak() != "" {
			needed[c.Peak()] = true
		}
	}
	missing := map[int]bool{} // a cell is replayed with all its tiers
	for i := range p.cells {
		if p.kept[i] == nil || needed[p.cells[i].spec.Name()] && p.cells[i].capacity == nil {
			missing[p.cells[i].top] = true
		}
	}
	for i := range p.cells {
		if missing[p.cells[i].top] {
			p.todo = append(p.todo, i)
		}
	}
	return nil
}

// planCells lists policy × capacity; a policy without capacity is one cell. Each
// windowed policy adds LRU and OPT given its peak, where those are in the run.
func (p *plan) planCells() error {
	runners := 0
	var windowed []string
	var companions []cellPlan
	for _, spec := range p.opt.Policies {
		needs := policies.NeedsOf(spec.Make())
		if why := p.unable(spec, needs); why != "" {
			if p.opt.SkipUnable {
				p.leftOut = append(p.leftOut, LeftOut{Policy: spec.Name(), Why: why})
				continue
			}
			return fmt.Errorf("policy %s cannot run here: %s", spec.Name(), why)
		}
		p.needs |= needs
		if spec.Entry.Traits.Lossy {
			p.needs |= policies.NeedDemand // what is lost of it
		}
		if spec.Entry.Traits.Windowed {
			p.cells = append(p.cells, cellPlan{spec: p.plannedSpec(spec), runner: runners})
			if !spec.Bypasses() && p.opt.Allocation == nil {
				windowed = append(windowed, spec.Name())
			}
		} else {
			for i := range p.opt.Capacities {
				if why := setting.Unfit(spec, p.kinds(&p.opt.Capacities[i])...); why != "" {
					if !p.opt.SkipUnable {
						return fmt.Errorf("policy %s cannot run here: %s", spec.Name(), why)
					}
					p.leftOut = append(p.leftOut, LeftOut{spec.Name(), p.opt.Capacities[i].String(), why})
					continue
				}
				p.cells = append(p.cells, cellPlan{spec: spec, runner: runners, capacity: &p.opt.Capacities[i]})
			}
			if spec.Name() == "lru" || spec.Name() == "opt" {
				companions = append(companions, cellPlan{spec: spec, runner: runners})
			}
		}
		runners++
	}
	for _, name := range windowed {
		for _, c := range companions {
			capacity := setting.PeakOf(name)
			if !slices.ContainsFunc(p.opt.Capacities, func(o setting.Capacity) bool { return o.String() == capacity.String() }) {
				c.capacity = &capacity
				p.cells = append(p.cells, c)
			}
		}
	}
	p.addTiers()
	if len(p.cells) == 0 {
		if len(p.leftOut) == 1 {
			return fmt.Errorf("no policy of the run can replay this trace: %v", p.leftOut[0])
		}
		if len(p.leftOut) > 1 {
			return fmt.Errorf("no policy of the run can replay this trace: %s", SummaryOf(p.leftOut))
		}
		return fmt.Errorf("nothing to replay: name a policy, and a capacity if the policy needs one")
	}
	return nil
}

// addTiers puts the tiers of every cell behind all cells.
func (p *plan) addTiers() {
	for i := range p.cells {
		p.cells[i].top = i
	}
	for i, top := range p.cells {
		above := top.spec.Name()
		if top.capacity != nil {
			above += "@" + top.capacity.String()
		}
		for n := range p.opt.Tiers {
			t := &p.opt.Tiers[n]
			p.cells = append(p.cells, cellPlan{spec: t.Policy, capacity: &t.Capacity, tier: n + 1, top: i, tierName: t.Name, above: above})
			above += " > " + t.String()
		}
	}
}

// tiersOf are the cells of a top cell's tiers, from the first.
func (p *plan) tiersOf(top int) []int {
	if len(p.opt.Tiers) == 0 {
		return nil
	}
	var cells []int
	for i := range p.cells {
		if p.cells[i].tier > 0 && p.cells[i].top == top {
			cells = append(cells, i)
		}
	}
	return cells
}

// unable says why a policy cannot run on the trace; empty if it can.
func (p *plan) unable(spec policies.Spec, needs policies.Needs) string {
	with := p.used()
	for i := range p.opt.Capacities {
		if slices.Contains(p.kinds(&p.opt.Capacities[i]), setting.AtPeakOrPlan) {
			with = append(with, setting.AtPeakOrPlan)
		}
	}
	why := setting.Unfit(spec, with...)
	if why == "" && spec.Entry.Traits.Lossy {
		why = p.has.lackLossy(needs)
	}
	if why = cmp.Or(why, p.has.lack(needs)); why != "" {
		return why
	}
	if needs&policies.NeedPicked != 0 && p.meta.BlockTokens > 1 {
		return "it looks at how many entries of a block are demanded, the trace lists blocks"
	}
	if needs&policies.NeedPicked != 0 && !p.layout.HasPicked() {
		return "it looks at how many entries of a block are demanded, and blocks hold one (--block-tokens makes larger ones)"
	}
	return ""
}

// planParts lists the rows of a cell in stream order.
func (p *plan) planParts() {
	type partKey struct {
		request     string
		layer, head int32
	}
	known := map[partKey]int{}
	for i := range p.streams {
		s := p.selected(i)
		var k partKey
		var row part
		switch p.opt.Per {
		case PerRequest:
			k, row = partKey{request: s.Request}, part{request: &s.Request}
		case PerLayer:
			k, row = partKey{layer: s.Layer}, part{layer: &s.Layer}
		case PerStream:
			k, row = partKey{s.Request, s.Layer, s.Head}, part{request: &s.Request, layer: &s.Layer}
			if s.Head != trace.NoHead && p.layout.Heads == 1 {
				row.head = &s.Head
			}
		}
		at, ok := known[k]
		if !ok {
			at = len(p.parts)
			known[k] = at
			p.parts = append(p.parts, row)
		}
		p.partOf = append(p.partOf, at)
	}
}
