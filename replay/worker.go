package replay

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

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
	stream  *trace.Stream  // that is replayed; the first one of a pool
	delta   Delta          // of one stream
	cache   cache          // the streams that share the cache
	pool    pool           // if these are several
	request requestFacts
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
	if p.layout.plain() || p.checksJoined() {
		columns |= trace.TrustLists // the delta checks them, or the joiner
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
	lower := newTiers(p.opt.Tiers, p.opt.Inclusive)
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
			if c.spec.Entry.Traits.Lossy {
				w.runners[c.runner] = newLossyCell(c.spec.Make())
			}
			w.runners[c.runner].lower = lower
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

// checksJoined reports whether joiners check the rules for lists. They do if they see whole
// lists, and if nothing reads the lists before them.
func (p *plan) checksJoined() bool {
	return !p.layout.plain() && !p.layout.clustered && p.m == p.meta.Candidates
}

// newJoiner makes the rows of the plan's layout.
func (p *plan) newJoiner() *joiner {
	return &joiner{layout: p.layout, k: p.topk, m: p.m, ranks: p.ranks, pins: p.pins, checks: p.checksJoined()}
}

// hasLossy reports whether a cell of the plan has a lossy policy.
func (p *plan) hasLossy() bool {
	return slices.ContainsFunc(p.cells, func(c cellPlan) bool { return c.spec.Entry.Traits.Lossy })
}

// attention is what the trace records of the attention that listed blocks were given.
func (p *plan) attention() attention {
	whole := p.m == p.meta.Candidates // covered_mass is of whole lists
	return attentionOf(p.meta, p.file.HasAttentionMass(), p.file.HasScores(), p.file.HasCoveredMass() && whole)
}

func (w *worker) close() { w.reader.Close() }

// replay reads the streams of a cache, derives its demand and runs every cell.
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
	if err := w.readRequest(); err != nil {
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

// readPool reads the streams of the cache and derives the demand of the pool.
func (w *worker) readPool() error {
	p, pool := w.plan, &w.pool
	pool.grow(w.cache.streams())
	for n, m := range pool.members {
		if m.recorded == nil {
			m.recorded = make([]trace.Stream, p.layout.heads)
			if !p.layout.plain() {
				m.joiner = p.newJoiner()
			}
		}
		stream, err := w.read(w.cache.from+n, m.recorded, m.joiner)
		if err != nil {
			return err
		}
		if n == 0 {
			w.stream = stream
		}
		if err := pool.add(n, stream, p.deltaOptions(m.joiner), w.check); err != nil {
			return err
		}
	}
	if i := pool.unequal(); i > 0 {
		return fmt.Errorf("%s: pool %s: %v and %v share a cache but not their steps", p.file.Path(), p.opt.Pool, w.stream.Key, pool.members[i].delta.stream.Key)
	}
	pool.build(p.needs&policies.NeedNext != 0)
	return nil
}

// view is the demand of the cache.
func (w *worker) view() View {
	if w.plan.opt.Pool != PoolNone {
		return &w.pool
	}
	return &w.delta
}

// recorded are the streams of the cache as the trace has them: for each stream the heads
// that share its blocks.
func (w *worker) recorded() (streams [][]*trace.Stream) {
	if w.plan.opt.Pool == PoolNone {
		return [][]*trace.Stream{pointers(w.streams)}
	}
	for _, m := range w.pool.members {
		streams = append(streams, pointers(m.recorded))
	}
	return streams
}

func pointers(streams []trace.Stream) (all []*trace.Stream) {
	for i := range streams {
		all = append(all, &streams[i])
	}
	return all
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
		for h := range recorded {
			if e := w.check.First(&recorded[h]); e != nil {
				return nil, e
			}
		}
		panic("replay: the joiner refused lists that break no rule")
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", w.plan.file.Path(), err)
	}
	return &j.out, nil
}

// start settles how cell c begins on the cache whose first stream is the i-th selected.
func (w *worker) start(i, c int) (start, error) {
	p, plan := w.plan, &w.plan.cells[c]
	st := start{capacity: policies.Unbounded, ranks: p.ranks, seed: streamSeed(p.opt.Seed, w.stream.Key), unit: p.layout.unit(p.pins), attention: p.attention()}
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
		if capacity.Form() == setting.OfPlan && w.request.budgets != nil {
			later, st.divided = w.request.budgets[i], true
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

// rowCapacity is the smallest and the largest capacity to report for each of the streams that
// share it. A capacity that only grows reports its final size.
func (st *start) rowCapacity(streams int) (least, most int64) {
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

// runCell replays cell c on the cache whose first stream is the i-th selected.
func (w *worker) runCell(i, c int, st start, steps recording) error {
	p, plan := w.plan, &w.plan.cells[c]
	runner, policy, err := w.windowed(i, plan)
	if err != nil {
		return err
	}
	lossy := plan.spec.Entry.Traits.Lossy
	if _, divides := runner.policy.(policies.Divider); lossy && divides {
		if st.capacity, err = p.divisions.budget(p, i, c); err != nil {
			return err
		}
	}
	tiers := p.tiersOf(c)
	lower, err := w.tierStarts(i, st, tiers, steps)
	if err != nil {
		return err
	}
	observer := steps.observer(c)
	var checks []*refereeCheck
	if p.opt.Referee {
		if lossy {
			checks, err = newLossyCheck(p, i, c, runner, st)
		} else {
			checks, err = newRefereeChecks(p, policy, w.recorded(), w.request.importanceStreams(), st, lower)
		}
		if err != nil {
			return err
		}
		observer = checks[0].observer(observer)
		for n := range lower {
			lower[n].observer = checks[n+1].observer(lower[n].observer)
		}
	}
	if _, err := runner.run(w.view(), st, observer, lower...); err != nil {
		return err
	}
	for _, check := range checks {
		if err := check.verdict(); err != nil {
			return err
		}
	}
	w.tallyCache(c, st, &runner.counter)
	t := runner.lower
	for n, cell := range tiers {
		w.tallyCache(cell, lower[n].start, &t.cell.counter)
		t = t.cell.lower
	}
	return nil
}

// tierStarts returns how the tiers of a cell begin. A warm-up that places blocks goes on
// behind the blocks that fill the tier above.
func (w *worker) tierStarts(i int, top start, tiers []int, steps recording) (lower []tierStart, err error) {
	capacity := top.capacity
	for _, c := range tiers {
		t := tierStart{observer: steps.observer(c)}
		if t.start, err = w.start(i, c); err != nil {
			return nil, err
		}
		if !w.plan.opt.Inclusive {
			capacity += t.capacity
			t.placed = appendDifference(nil, w.placed(capacity), w.placed(capacity-t.capacity))
		}
		lower = append(lower, t)
	}
	return lower, nil
}

// placed are the blocks of a cache of that capacity that are resident before step 0.
func (w *worker) placed(capacity int) []int32 {
	return placeBlocks(w.plan.warmup, w.view(), capacity, w.request.importance)
}

// tally pools what cell c counted on the i-th selected stream, and tells of it.
func (w *worker) tally(i, c int, st start, counts *Counts) {
	p, plan := w.plan, &w.plan.cells[c]
	least, most, whole := int64(0), int64(0), int64(0)
	tokens := int64(p.pins.BlockTokens)
	if plan.capacity == nil {
		w.peaks[plan.spec.Name()] = counts.ResidentPeak
	} else {
		least, most = st.rowCapacity(w.cache.streams())
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
func (w *worker) tallyCache(c int, st start, n *counter) {
	for s := range n.streams {
		w.tally(w.cache.from+s, c, st, &n.streams[s])
	}
	if plan := &w.plan.cells[c]; plan.capacity == nil && n.pooled() {
		w.peaks[plan.spec.Name()] = n.peak
	}
}

// streamSeed gives every stream draws of its own, whichever worker replays it.
func streamSeed(seed uint64, k trace.Key) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d %d", seed, k.Request, k.Layer, k.Head)
	return h.Sum64()
}
