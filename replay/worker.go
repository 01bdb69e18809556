package replay

import (
	"fmt"
	"hash/fnv"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/trace"
)

// worker replays streams one after the other, with memory of its own.
type worker struct {
	plan    *plan
	reader  *trace.Reader
	check   *trace.Checker
	streams []trace.Stream // those that share a cache
	joiner  *joiner        // nil where rows are replayed as recorded
	stream  *trace.Stream  // that is replayed
	delta   Delta
	runners []*cell  // one a policy, shared by its capacities
	groups  []*group // cells that are replayed together, windowed ones first
	tallies [][]tally
	peaks   map[string]int64
	windows map[int]*cell // that a plan allocates
}

func newWorker(p *plan) *worker {
	w := &worker{plan: p, tallies: p.newTallies(), peaks: map[string]int64{}}
	w.streams = make([]trace.Stream, p.layout.heads)
	columns := trace.ReadScores
	if p.layout.plain() {
		columns |= trace.TrustLists // the delta checks them
	} else {
		w.joiner = &joiner{layout: p.layout, k: p.topk, m: p.m, ranks: p.ranks}
	}
	if p.opt.Prefetch.Source == PrefetchPredicted {
		columns |= trace.ReadPredicted
	}
	w.reader = p.file.NewReader(columns)
	w.check = trace.NewChecker(p.file.Path(), p.meta)
	var windowed, others []int
	below := newTiers(p.opt.Tiers, p.opt.Inclusive)
	for _, i := range p.todo {
		c := p.cells[i]
		if c.tier > 0 {
			continue
		}
		for len(w.runners) <= c.runner {
			w.runners = append(w.runners, nil)
		}
		if w.runners[c.runner] == nil {
			w.runners[c.runner] = newCell(c.spec.Make())
			w.runners[c.runner].below = below
		}
		if c.capacity == nil {
			windowed = append(windowed, i)
		} else {
			others = append(others, i)
		}
	}
	w.groups = p.group(append(windowed, others...), w.runners)
	return w
}

func (w *worker) close() { w.reader.Close() }

// replay reads the i-th selected stream, derives its delta and runs every cell.
func (w *worker) replay(i int) error {
	p := w.plan
	if err := w.read(i); err != nil {
		return err
	}
	err := w.delta.build(w.stream, deltaOptions{
		k: p.topk, m: p.m, pins: p.pins, meta: p.meta, windows: p.warmup.replayed(), joined: w.joiner, outliers: p.opt.Outliers,
		members: p.needs&policies.NeedDemand != 0, nexts: p.needs&policies.NeedNext != 0,
	}, w.check)
	if err != nil {
		return err
	}
	steps := p.opt.Profile.begin(i)
	for _, g := range w.groups {
		if c, err := w.runGroup(i, g, steps); err != nil {
			return fmt.Errorf("%s: %v: %s: %w", p.file.Path(), w.stream.Key, p.cells[c].name(), err)
		}
	}
	p.opt.Profile.end(i, steps)
	return nil
}

// read decodes the i-th selected stream and those that share its cache.
func (w *worker) read(i int) error {
	for h := range w.streams {
		if err := w.reader.Read(w.plan.streams[i]+h, &w.streams[h]); err != nil {
			return err
		}
	}
	w.stream = &w.streams[0]
	if w.joiner == nil {
		return nil
	}
	if err := w.joiner.join(w.streams, w.plan.pins.BlockTokens); err != nil {
		return fmt.Errorf("%s: %w", w.plan.file.Path(), err)
	}
	w.stream = &w.joiner.out
	return nil
}

// start settles how cell c begins on the i-th selected stream.
func (w *worker) start(i, c int) (start, error) {
	p, plan := w.plan, &w.plan.cells[c]
	st := start{capacity: policies.Unbounded, ranks: p.ranks, seed: streamSeed(p.opt.Seed, w.stream.Key), unit: p.layout.unit(p.pins)}
	if plan.capacity != nil {
		blocks, err := plan.capacity.blocks(w.sizing(i))
		if err != nil {
			return st, err
		}
		st.capacity = blocks
		if st.later, err = plan.capacity.parts(w.sizing(i)); err != nil {
			return st, err
		}
	}
	if f := p.opt.Prefetch; f.Source != PrefetchNothing {
		blocks, err := f.Staging.blocks(w.sizing(i))
		if err != nil {
			return st, err
		}
		st.prefetch, st.staging, st.swaps = f.Source, blocks, f.Swap
	}
	st.placed = p.warmup.placed(&w.delta, p.pins, st.capacity)
	return st, nil
}

// most is the capacity that the cell ends with.
func (st *start) most() int {
	if n := len(st.later); n > 0 {
		return st.later[n-1].blocks
	}
	return st.capacity
}

// sizing is what capacities of the i-th selected stream are resolved against.
func (w *worker) sizing(i int) sizing {
	p := w.plan
	return sizing{topk: p.topk * p.meta.BlockTokens, blockTokens: p.pins.BlockTokens, promptLen: int(w.stream.PromptLen),
		entryBytes: p.bytes, streams: p.siblings[i], peaks: w.peaks, at: p.allocated(i)}
}

func (w *worker) runCell(i, c int, st start, steps *profileSteps) error {
	p, plan := w.plan, &w.plan.cells[c]
	look := steps.observer(c)
	runner, policy, err := w.windowed(i, plan)
	if err != nil {
		return err
	}
	tiers := p.tiersOf(c)
	below, err := w.tierStarts(i, st, tiers, steps)
	if err != nil {
		return err
	}
	var judges []*refereeCheck
	if p.opt.Referee {
		if judges, err = newRefereeChecks(p, policy, w.streams, st, below); err != nil {
			return err
		}
		look = judges[0].watch(look)
		for n := range below {
			below[n].look = judges[n+1].watch(below[n].look)
		}
	}
	counts, err := runner.run(&w.delta, st, look, below...)
	if err != nil {
		return err
	}
	for _, judge := range judges {
		if err := judge.verdict(); err != nil {
			return err
		}
	}
	w.tally(i, c, st, &counts)
	t := runner.below
	for n, cell := range tiers {
		w.tally(i, cell, below[n].start, &t.cell.counts)
		t = t.below
	}
	return nil
}

// tierStarts settles how the tiers of a cell begin: a warm-up that places blocks goes on
// where the tier above was full.
func (w *worker) tierStarts(i int, top start, tiers []int, steps *profileSteps) (below []tierStart, err error) {
	capacity := top.capacity
	for _, c := range tiers {
		t := tierStart{look: steps.observer(c)}
		if t.start, err = w.start(i, c); err != nil {
			return nil, err
		}
		if !w.plan.opt.Inclusive {
			capacity += t.capacity
			t.placed = lacking(w.plan.warmup.placed(&w.delta, w.plan.pins, capacity), w.plan.warmup.placed(&w.delta, w.plan.pins, capacity-t.capacity))
		}
		below = append(below, t)
	}
	return below, nil
}

// lacking are the members of a that b lacks; both ascend.
func lacking(a, b []int32) []int32 { return appendLacking(nil, a, b) }

// tally pools what cell c counted on the i-th selected stream, and tells of it.
func (w *worker) tally(i, c int, st start, counts *Counts) {
	p, plan := w.plan, &w.plan.cells[c]
	entries := int64(0)
	if plan.capacity == nil {
		w.peaks[plan.spec.Name()] = counts.ResidentPeak
	} else {
		entries = int64(st.most()) * int64(p.pins.BlockTokens)
	}
	w.tallies[c][p.partOf[i]].add(counts, entries)
	if p.opt.Progress != nil {
		p.opt.Progress(w.streams[0].Rows)
	}
}

// streamSeed gives every stream draws of its own, whichever worker replays it.
func streamSeed(seed uint64, k trace.Key) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d %d", seed, k.Request, k.Layer, k.Head)
	return h.Sum64()
}
