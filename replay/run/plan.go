package run

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
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

// checkTexts refuses what rows could not state, before the work.
func (p *plan) checkTexts() error {
	for _, written := range []struct{ what, text string }{{"file name", filepath.Base(p.file.Path())}, {"model", p.meta.Model}} {
		if !result.Printable(written.text) {
			return fmt.Errorf("the %s %q is not printable UTF-8, and result rows state it; rename it", written.what, written.text)
		}
	}
	for _, s := range p.file.Streams() {
		if !result.Printable(s.Request) {
			return fmt.Errorf("the request id %q is not printable UTF-8, and result rows state it; rename it", s.Request)
		}
		if s.Request == "" && (p.opt.Per == PerRequest || p.opt.Per == PerStream) {
			return fmt.Errorf("a request id is empty, which rows per %s cannot state; rename it, or pool the requests (--per cell or layer)", p.opt.Per)
		}
	}
	return nil
}

// resolveLists sets K and M.
func (p *plan) resolveLists() error {
	p.topk, p.m = p.opt.TopK, p.opt.Candidates
	if p.topk == 0 {
		p.topk = p.meta.TopK
	}
	if p.m == 0 {
		p.m = p.meta.Candidates
	}
	switch {
	case p.topk < 0 || p.m < 0:
		return fmt.Errorf("top-k %d and candidates %d, expected at least 1", p.topk, p.m)
	case p.m > p.meta.Candidates:
		return fmt.Errorf("candidates M = %d, the trace lists at most %d", p.m, p.meta.Candidates)
	case p.topk > p.m:
		return fmt.Errorf("top-k K = %d exceeds candidates M = %d; the demand is a prefix of the list", p.topk, p.m)
	case !p.ranks && p.topk != p.meta.TopK:
		return fmt.Errorf("top-k %d, but the lists have no ranks (order=index): only the recorded K = %d can be replayed", p.topk, p.meta.TopK)
	}
	return nil
}

// selectStreams applies the layer and request selections.
func (p *plan) selectStreams() error {
	layers, requests := map[int32]bool{}, map[string]bool{}
	for _, s := range p.file.Streams() {
		layers[s.Layer], requests[s.Request] = true, true
	}
	for _, l := range p.opt.Layers {
		if !layers[l] {
			return fmt.Errorf("layer %d is not in the trace, which has %s", l, listOf(layers))
		}
	}
	for _, r := range p.opt.Requests {
		if !requests[r] {
			known := slices.Sorted(maps.Keys(requests))
			return fmt.Errorf("request %q is not in the trace%s; it has %s", r, names.Nearest(r, known), names.Some(known))
		}
	}
	perRequest := map[string]int{}
	for i, s := range p.file.Streams() {
		if (p.opt.Layers == nil || slices.Contains(p.opt.Layers, s.Layer)) && (p.opt.Requests == nil || slices.Contains(p.opt.Requests, s.Request)) {
			if s.LastStep < 0 {
				return fmt.Errorf("%v has no counted step (step ≥ 0)", s.Key)
			}
			if err := demand.CheckContext(p.meta, &s); err != nil {
				return err
			}
			p.streams = append(p.streams, i)
			perRequest[s.Request]++
		}
	}
	if len(p.streams) == 0 {
		return fmt.Errorf("the selection of layers and requests leaves no stream")
	}
	for _, i := range p.streams {
		p.siblings = append(p.siblings, perRequest[p.file.Streams()[i].Request])
	}
	return nil
}

func listOf(set map[int32]bool) string {
	keys := slices.Sorted(maps.Keys(set))
	if len(keys) > 12 {
		return fmt.Sprintf("%d layers from %d to %d", len(keys), keys[0], keys[len(keys)-1])
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(keys), " ", ", "), "[]")
}

func (p *plan) selected(i int) *trace.StreamInfo { return &p.file.Streams()[p.streams[i]] }

func (p *plan) resolveWarmup() (err error) {
	w := p.opt.Warmup
	if w.Kind == "" {
		w.Kind = setting.WarmupAuto
	}
	infos := make([]trace.StreamInfo, len(p.streams))
	for i := range p.streams {
		infos[i] = *p.selected(i)
	}
	if p.warmup, err = resolveWarmup(w, infos); err != nil {
		return err
	}
	if p.warmup.Kind == setting.WarmupImportance && !p.file.HasScores() {
		return fmt.Errorf("warm-up %v needs scores, the trace has none", p.warmup)
	}
	fewest, most := windowRange(infos)
	switch auto := w.Kind == setting.WarmupAuto; {
	case p.warmup.Kind == setting.WarmupCold && most == 0:
		p.warn = append(p.warn, "cold start: the trace has no prompt windows to warm up on")
	case p.warmup.Kind == setting.WarmupCold && auto:
		p.warn = append(p.warn, fmt.Sprintf("cold start: %v has no prompt windows to warm up on, others have up to %d", fewest.Key, most))
	case p.warmup.Kind == setting.WarmupCold:
		p.warn = append(p.warn, "cold start: no warm-up before step 0")
	case auto && fewest.Windows < most:
		p.notes = append(p.notes, fmt.Sprintf("%v has %d prompt windows, others up to %d; all are warmed up on the last %d (--requests and --layers leave streams out)",
			fewest.Key, fewest.Windows, most, fewest.Windows))
	}
	return nil
}

// findColumns looks at what the trace has, as the run sees it.
func (p *plan) findColumns() error {
	p.has = columns{ranks: p.ranks, scores: p.file.HasScores(), attention: p.attention().Weights, promptMass: p.file.HasPromptMass(), windows: p.warmup.Replayed() > 0}
	return nil
}

func (p *plan) resolvePins() error {
	p.pins = pinsOf(p.meta, p.opt)
	if p.pins.Sink < 0 || p.pins.Local < 1 {
		return fmt.Errorf("sink %d and local %d, expected at least 0 and 1 (the token being generated)", p.pins.Sink, p.pins.Local)
	}
	for _, pin := range []struct {
		name         string
		noted, asked *int
	}{{"sink", p.meta.Sink, p.opt.Sink}, {"local", p.meta.Local, p.opt.Local}} {
		if pin.asked != nil && pin.noted != nil && *pin.asked != *pin.noted {
			p.warn = append(p.warn, fmt.Sprintf("%s %d replayed, the trace states %d", pin.name, *pin.asked, *pin.noted))
		}
	}
	if note, names := UnstatedPins(p.meta, p.opt); note != "" {
		p.notes = append(p.notes, fmt.Sprintf("%s (--%s to set)", note, strings.Join(names, ", --")))
	}
	p.bytes = p.opt.EntryBytes
	if p.bytes == nil && p.meta.EntryBytes > 0 {
		p.bytes = &p.meta.EntryBytes
	}
	if p.bytes != nil && *p.bytes < 1 {
		return fmt.Errorf("entry bytes %d, expected at least 1", *p.bytes)
	}
	if p.bytes == nil {
		p.notes = append(p.notes, "the trace does not state entry_bytes; rows carry no bytes (--entry-bytes sets it)")
	}
	return nil
}

// pinsOf takes what the options set and the trace states, the defaults of S2 otherwise.
func pinsOf(m *trace.Meta, o *Options) demand.Pins {
	sink, local, _ := m.Pins()
	if o.Sink != nil {
		sink = *o.Sink
	}
	if o.Local != nil {
		local = *o.Local
	}
	p := demand.Pins{Sink: sink, Local: local, BlockTokens: m.BlockTokens}
	if o.Shape.BlockTokens > 0 {
		p.BlockTokens = o.Shape.BlockTokens
	}
	return p
}

// UnstatedPins says which pins neither the options nor the trace states and what is replayed
// for them, as a note for users, and names these pins. Both are empty where all are stated.
func UnstatedPins(m *trace.Meta, o *Options) (note string, names []string) {
	p := pinsOf(m, o)
	var used []string
	for _, pin := range []struct {
		name         string
		noted, asked *int
		used         int
	}{{"sink", m.Sink, o.Sink, p.Sink}, {"local", m.Local, o.Local, p.Local}} {
		if pin.asked == nil && pin.noted == nil {
			names, used = append(names, pin.name), append(used, strconv.Itoa(pin.used))
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	return fmt.Sprintf("the trace does not state %s; replaying %s", strings.Join(names, " and "), strings.Join(used, " and ")), names
}

// planCells lists policy × capacity. A policy without capacity is one cell. Each
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

// unable says why a policy cannot run on the trace. Empty if it can.
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
