package run

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// plan is the work on a trace. Every default is filled in, and every option is checked.
type plan struct {
	file       *trace.File
	meta       *trace.Meta
	digest     string
	setting    result.Setting
	opt        *Options
	pins       demand.Pins
	layout     demand.Layout
	topk, m    int
	entryBytes *int
	warmup     setting.Warmup
	ranks      bool
	streams    []int // selected streams, by index in the file. If heads share a cache, the first of each layer
	cells      []cellPlan
	kept       [][]result.Row // rows from the store by cell, nil for other cells
	outdated   []outdated     // by cell: files of the store that new rows replace
	todo       []int          // cells to replay
	parts      []part         // of every cell
	partOf     []int          // by position in streams
	siblings   []int          // number of streams of the same request, by position in streams
	caches     []span         // streams that share a cache
	needs      policies.Needs // of all policies
	columns    columns        // of the trace
	divisions  divisions      // of lossy policies
	notes      []string
	leftOut    []LeftOut
	warnings   []string // in every row
	beforeEnd  func()   // is called when the last chunk begins, nil for nothing
}

// cellPlan is a policy at a capacity.
type cellPlan struct {
	spec     policies.Spec
	runner   int               // index among a worker's cells
	capacity *setting.Capacity // nil for windowed policies
	tier     int               // 0 for the GPU's cache, n for the n-th of Options.Tiers
	top      int               // index of the GPU's cell above this tier, or of this cell
	tierName string
	above    string // the caches above, as in "lru@2x"
}

// name names the cell in messages.
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

// part is the part of a cell that a row counts. Null fields are pooled.
type part struct {
	request *string
	layer   *int32
	head    *int32
}

// PlanError is the reason that a trace cannot serve a run. Nothing has been replayed.
type PlanError struct {
	Path string // of the trace
	Err  error
}

// Error names the trace.
func (e *PlanError) Error() string { return fmt.Sprintf("replay %s: %v", e.Path, e.Err) }

// Unwrap returns the reason.
func (e *PlanError) Unwrap() error { return e.Err }

// newPlan checks o against the trace.
func newPlan(f *trace.File, o *Options) (*plan, error) {
	p := &plan{file: f, meta: f.Meta(), opt: o, ranks: f.Meta().Order == trace.OrderRank}
	for _, step := range []func() error{ // each may use the fields that earlier ones set
		// lists and streams
		o.check, p.checkTexts, p.resolveLists, p.resolveShape, p.selectStreams, p.shareHeads, p.resolveWarmup,
		p.checkCombination, p.findColumns,
		// pins and units
		p.resolvePins, p.checkOutliers, p.resolveClusters,
		// mechanisms
		p.resolvePrefetch, p.shareCaches, p.checkTiers, p.checkAllocation, p.checkReallocation, p.applyAllocation,
		// cells
		p.planCells, p.checkProfile,
	} {
		if err := step(); err != nil {
			return nil, &PlanError{f.Path(), err}
		}
	}
	p.planParts()
	var err error
	if p.digest, err = f.Digest(); err != nil {
		return nil, err
	}
	p.setting = p.rowSetting()
	return p, p.findFinished()
}

// findFinished reads the finished cells of the store and lists the cells to replay. These are
// the missing cells, and the windowed policies whose peaks missing cells need.
func (p *plan) findFinished() error {
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
	missing := map[int]bool{} // by top: a cell is replayed with all its tiers
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

// planCells lists policy × capacity. A policy without capacity is one cell. Each windowed
// policy adds LRU and OPT at its peak size, if the run has these policies.
func (p *plan) planCells() error {
	runners := 0
	var windowed []string
	var companions []cellPlan
	for _, spec := range p.opt.Policies {
		needs := policies.NeedsOf(spec.Make())
		if why := p.whyUnfit(spec, needs); why != "" {
			if p.opt.SkipUnable {
				p.leftOut = append(p.leftOut, LeftOut{Policy: spec.Name(), Why: why})
				continue
			}
			return fmt.Errorf("policy %s cannot run: %s", spec.Name(), why)
		}
		p.needs |= needs
		if spec.Entry.Traits.Lossy {
			p.needs |= policies.NeedDemand // the cell counts lost blocks
		}
		if spec.Entry.Traits.Windowed {
			if a := p.opt.Allocation; a != nil && a.Family == allocate.Windows {
				spec.Options = "plan:" + a.Method + "@" + a.Memory // in rows "window:plan:2d-greedy@2x"
			}
			p.cells = append(p.cells, cellPlan{spec: spec, runner: runners})
			if !spec.Bypasses() && p.opt.Allocation == nil {
				windowed = append(windowed, spec.Name())
			}
		} else {
			for i := range p.opt.Capacities {
				if why := setting.Unfit(spec, p.kinds(&p.opt.Capacities[i])...); why != "" {
					if !p.opt.SkipUnable {
						return fmt.Errorf("policy %s cannot run: %s", spec.Name(), why)
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
			return fmt.Errorf("no policy can replay this trace: %v", p.leftOut[0])
		}
		if len(p.leftOut) > 1 {
			return fmt.Errorf("no policy can replay this trace: %s", SummaryOf(p.leftOut))
		}
		return fmt.Errorf("nothing to replay: name a policy, and a capacity if the policy needs one")
	}
	return nil
}

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

// tiersOf lists the cells of the tiers below a cell, fastest first.
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

// whyUnfit returns the reason that a policy cannot run on the trace, or "".
func (p *plan) whyUnfit(spec policies.Spec, needs policies.Needs) string {
	with := p.used()
	for i := range p.opt.Capacities {
		if slices.Contains(p.kinds(&p.opt.Capacities[i]), setting.AtPeakOrPlan) {
			with = append(with, setting.AtPeakOrPlan)
		}
	}
	why := setting.Unfit(spec, with...)
	if why == "" && spec.Entry.Traits.Lossy {
		why = p.columns.missingLossy(needs)
	}
	if why = cmp.Or(why, p.columns.missing(needs)); why != "" {
		return why
	}
	if needs&policies.NeedPicked != 0 && p.meta.BlockTokens > 1 {
		return "it needs the demanded entries of each block, the trace lists whole blocks"
	}
	if needs&policies.NeedPicked != 0 && !p.layout.HasPicked() {
		return "it needs blocks of several entries, these hold one (set --block-tokens)"
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
