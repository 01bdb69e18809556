package replay

import (
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// worker replays streams one after the other, with memory of its own.
type worker struct {
	plan    *plan
	reader  *trace.Reader
	check   *trace.Checker
	streams []trace.Stream // the heads that share blocks
	joiner  *joiner        // nil where rows are replayed as recorded
	stream  *trace.Stream  // that is replayed
	delta   Delta
	cache   cache // streams that it is of
	pool    pool  // where these are several
	ahead   foresight
	runners []*cell  // one a policy, shared by its capacities
	groups  []*group // cells that are replayed together, windowed ones first
	tallies [][]tally
	peaks   map[string]int64
	windows map[int]*cell      // that a plan allocates
	lossy   map[int]*lossyCell // by runner
}

func newWorker(p *plan) *worker {
	w := &worker{plan: p, tallies: p.newTallies(), peaks: map[string]int64{}, lossy: map[int]*lossyCell{}}
	w.streams = make([]trace.Stream, p.layout.heads)
	columns := trace.ReadScores
	if p.layout.plain() || p.trustsJoiners() {
		columns |= trace.TrustLists // the delta checks them, or joiner.single
	}
	if !p.layout.plain() {
		w.joiner = p.newJoiner()
	}
	if p.opt.Prefetch.Source == PrefetchPredicted {
		columns |= trace.ReadPredicted
	}
	if p.hasLossy() {
		columns |= trace.ReadMasses | trace.ReadPromptMass
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

// trustsJoiners reports whether joiners check all of a list.
func (p *plan) trustsJoiners() bool {
	return p.layout.alone() && p.m == p.meta.Candidates && (p.ranks || !p.file.HasScores())
}

// newJoiner makes the rows of the plan's layout.
func (p *plan) newJoiner() *joiner {
	return &joiner{layout: p.layout, k: p.topk, m: p.m, ranks: p.ranks, pins: p.pins, trusts: p.trustsJoiners()}
}

func (w *worker) close() { w.reader.Close() }

// replay reads the streams of a cache, derives its delta and runs every cell.
func (w *worker) replay(c cache) (err error) {
	p := w.plan
	w.cache = c
	if p.opt.Pool != PoolNone {
		err = w.readPool()
	} else if w.stream, err = w.read(c.from, w.streams, w.joiner); err == nil {
		err = w.delta.build(w.stream, p.deltaOptions(w.joiner), w.check)
	}
	if err != nil {
		return err
	}
	if err := w.foresee(); err != nil {
		return err
	}
	steps := p.opt.Profile.begin(c)
	for _, g := range w.groups {
		if cell, err := w.runGroup(c.from, g, steps); err != nil {
			return fmt.Errorf("%s: %s: %s: %w", p.file.Path(), w.name(), p.cells[cell].name(), err)
		}
	}
	p.opt.Profile.end(c, steps)
	return nil
}

// name is what is replayed, as messages show it.
func (w *worker) name() string {
	if w.plan.opt.Pool == PoolNone {
		return w.stream.Key.String()
	}
	return fmt.Sprintf("pool of %v and %d more streams", w.stream.Key, w.cache.streams()-1)
}

// deltaOptions say what of a stream the plan replays.
func (p *plan) deltaOptions(joined *joiner) deltaOptions {
	return deltaOptions{k: p.topk, m: p.m, pins: p.pins, meta: p.meta, windows: p.warmup.Replayed(), joined: joined, outliers: p.opt.Outliers, clusters: joined.units(),
		members: p.needs&policies.NeedDemand != 0, nexts: p.needs&policies.NeedNext != 0}
}

// read decodes the i-th selected stream into recorded, with the heads that share its
// blocks, and joins what is to be joined.
func (w *worker) read(i int, recorded []trace.Stream, j *joiner) (*trace.Stream, error) {
	for h := range recorded {
		if err := w.reader.Read(w.plan.streams[i]+h, &recorded[h]); err != nil {
			return nil, err
		}
	}
	if j == nil {
		return &recorded[0], nil
	}
	if c := w.plan.opt.Clusters; c != nil {
		j.clusters = c.units(&recorded[0], recorded[0].MaxSeqLen(), w.plan.meta.Candidates)
	}
	if err := j.join(recorded, w.plan.pins.BlockTokens); errors.Is(err, errBroken) {
		return nil, brokenList(&recorded[0], w.check)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", w.plan.file.Path(), err)
	}
	return &j.out, nil
}

// start settles how cell c begins on the cache whose first stream is the i-th selected.
func (w *worker) start(i, c int) (start, error) {
	p, plan := w.plan, &w.plan.cells[c]
	st := start{capacity: policies.Unbounded, ranks: p.ranks, seed: streamSeed(p.opt.Seed, w.stream.Key), unit: p.layout.unit(p.pins)}
	if plan.capacity != nil {
		if err := w.room(&st, plan.capacity); err != nil {
			return st, err
		}
	}
	if f := p.opt.Prefetch; f.Source != PrefetchNothing {
		blocks, err := f.Staging.Blocks(w.sizing(i))
		if err != nil {
			return st, err
		}
		st.prefetch, st.staging, st.swaps = f.Source, blocks, f.Swap
	}
	st.placed = w.placed(st.capacity)
	return st, nil
}

// room settles what the cache may keep: in a pool as much as its streams together.
func (w *worker) room(st *start, capacity *Capacity) error {
	st.capacity = 0
	for i := w.cache.from; i < w.cache.to; i++ {
		blocks, err := capacity.Blocks(w.sizing(i))
		if err != nil {
			return err
		}
		later, err := growthOn(capacity, w.sizing(i))
		if err != nil {
			return err
		}
		if capacity.Form() == setting.OfPlan && w.ahead.budgets != nil {
			later, st.divided = w.ahead.budgets[i], true
		}
		if st.capacity += blocks; st.later == nil {
			st.later = later
		} else {
			for n := range later {
				st.later[n].blocks += later[n].blocks
			}
		}
		if capacity.Peak() != "" {
			break // it is that of the pool
		}
	}
	return nil
}

// stated is the capacity as rows state it, of each of the streams that share it, from the
// least to the most: one that only grows is stated as it ends.
func (st *start) stated(streams int) (least, most int64) {
	if n := len(st.later); n > 0 && !st.divided {
		return int64(st.later[n-1].blocks / streams), int64(st.later[n-1].blocks / streams)
	}
	least, most = int64(st.capacity/streams), int64(st.capacity/streams)
	for _, g := range st.later {
		least, most = min(least, int64(g.blocks)), max(most, int64(g.blocks))
	}
	return least, most
}

// sizing is what capacities of the i-th selected stream are resolved against.
func (w *worker) sizing(i int) setting.Sizing {
	s := w.plan.sizingOf(i)
	s.PromptLen, s.Peaks = int(w.stream.PromptLen), w.peaks
	return s
}

func (w *worker) runCell(i, c int, st start, steps recording) error {
	p, plan := w.plan, &w.plan.cells[c]
	if plan.spec.Entry.Traits.Lossy {
		return w.runLossy(i, c, st)
	}
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
		if judges, err = newRefereeChecks(p, policy, w.recorded(), w.ahead.over(), st, below); err != nil {
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
	w.tallyCache(c, st, &counts, &runner.shares)
	t := runner.below
	for n, cell := range tiers {
		w.tallyCache(cell, below[n].start, &t.cell.counts, &t.cell.shares)
		t = t.below
	}
	return nil
}

// tierStarts settles how the tiers of a cell begin: a warm-up that places blocks goes on
// where the tier above was full.
func (w *worker) tierStarts(i int, top start, tiers []int, steps recording) (below []tierStart, err error) {
	capacity := top.capacity
	for _, c := range tiers {
		t := tierStart{look: steps.observer(c)}
		if t.start, err = w.start(i, c); err != nil {
			return nil, err
		}
		if !w.plan.opt.Inclusive {
			capacity += t.capacity
			t.placed = lacking(w.placed(capacity), w.placed(capacity-t.capacity))
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
	least, most, whole := int64(0), int64(0), int64(0)
	tokens := int64(p.pins.BlockTokens)
	if plan.capacity == nil {
		w.peaks[plan.spec.Name()] = counts.ResidentPeak
	} else {
		least, most = st.stated(w.cache.streams())
		if first := int64(st.capacity / w.cache.streams()); min(first, least)*tokens >= int64(p.selected(i).MaxSeqLen()) {
			whole = counts.Streams
		}
	}
	w.tallies[c][p.partOf[i]].add(counts, least*tokens, most*tokens, whole)
	if p.opt.Progress != nil {
		p.opt.Progress(p.selected(i).Rows)
	}
}

// tallyCache pools what cell c counted on the streams that are replayed.
func (w *worker) tallyCache(c int, st start, counts *Counts, s *shares) {
	if s.pool == nil {
		w.tally(w.cache.from, c, st, counts)
		return
	}
	for n := range s.counts {
		w.tally(w.cache.from+n, c, st, &s.counts[n])
	}
	if plan := &w.plan.cells[c]; plan.capacity == nil {
		w.peaks[plan.spec.Name()] = s.peak
	}
}

// streamSeed gives every stream draws of its own, whichever worker replays it.
func streamSeed(seed uint64, k trace.Key) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d %d", seed, k.Request, k.Layer, k.Head)
	return h.Sum64()
}
