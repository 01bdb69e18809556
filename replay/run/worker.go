package run

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// worker replays streams one after the other. Workers share no memory that they write.
type worker struct {
	plan    *plan
	reader  *trace.Reader
	borrows bool // the reader, which others use too
	check   *trace.Checker
	alone   *member       // memory for one stream after the other
	member  *member       // the replayed stream, not used in a pool
	stream  *trace.Stream // the replayed stream, the first one of a pool
	cache   span          // the streams that share the cache
	pool    demand.Pool   // if several streams share the cache
	members []*member     // of the pool
	request requestFacts
	runners []*cache.Cell // one per policy, for all of its capacities
	groups  []*group      // cells that are replayed together, windowed policies first
	tallies [][]tally     // of finished chunks
	pending []streamTally // of the chunk that is replayed
	peaks   map[string]int64
	windows map[int]*cache.Cell // by N, for plans that set windows
}

// member is a stream: the heads that share blocks, the joiner of their rows, and the demand.
type member struct {
	recorded []trace.Stream
	joiner   *demand.Joiner // nil if rows are replayed as recorded
	stream   *trace.Stream  // the recorded or the joined one
	delta    demand.Delta   // not used in a pool, which has its own
}

func (p *plan) newMember() *member {
	m := &member{recorded: make([]trace.Stream, p.layout.Heads)}
	if !p.layout.Plain() {
		m.joiner = &demand.Joiner{Layout: p.layout, K: p.topk, M: p.m, Ranks: p.ranks, Pins: p.pins, Checks: p.checksJoined()}
	}
	return m
}

func newWorker(p *plan) *worker {
	w := &worker{plan: p, alone: p.newMember(), tallies: p.newTallies(), peaks: map[string]int64{}}
	w.reader = p.file.NewReader(p.readColumns())
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
			w.runners[c.runner] = cache.NewCell(c.spec.Make())
			if c.spec.Entry.Traits.Lossy {
				w.runners[c.runner] = cache.NewLossyCell(c.spec.Make())
			}
			w.runners[c.runner].Lower = lower
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

// readColumns returns the columns that a worker reads. It reads scores only for a policy, a tier or a
// warm-up that needs them.
func (p *plan) readColumns() (columns trace.Columns) {
	if p.needs&policies.NeedScores != 0 || p.warmup.Kind == setting.WarmupImportance || p.opt.Referee {
		columns |= trace.ReadScores
	}
	if p.layout.Plain() || p.checksJoined() {
		columns |= trace.TrustLists // the delta or the joiner checks them
	}
	if p.opt.Prefetch.Source == setting.PrefetchPredicted {
		columns |= trace.ReadPredicted
	}
	if slices.ContainsFunc(p.cells, func(c cellPlan) bool { return c.spec.Entry.Traits.Lossy }) {
		columns |= trace.ReadScores | trace.ReadMasses | trace.ReadPromptMass
	}
	for _, t := range p.opt.Tiers {
		if policies.NeedsOf(t.Policy.Make())&policies.NeedScores != 0 {
			columns |= trace.ReadScores
		}
	}
	return columns
}

// expect announces the streams of chunks to the trace.
func (p *plan) expect(chunks [][2]int) {
	var streams []int
	for _, u := range chunks {
		for _, c := range p.caches[u[0]:u[1]] {
			for _, first := range p.streams[c.from:c.to] {
				for h := range p.layout.Heads {
					streams = append(streams, first+h)
				}
			}
		}
	}
	p.file.Expect(streams, p.readColumns())
}

// checksJoined reports whether joiners check the rules for lists, instead of the reader. They do
// if they see whole lists and no clusters, because clusters are made from the lists first.
func (p *plan) checksJoined() bool {
	return !p.layout.Plain() && !p.layout.Clustered && p.m == p.meta.Candidates
}

// attention returns the source of the attention of listed blocks in the trace.
func (p *plan) attention() demand.Attention {
	whole := p.m == p.meta.Candidates // covered_mass describes whole lists
	return demand.AttentionOf(p.meta, p.file.HasAttentionMass(), p.file.HasScores(), p.file.HasCoveredMass() && whole)
}

func (w *worker) close() {
	if !w.borrows {
		w.reader.Close()
	}
	for _, r := range w.runners {
		for r != nil {
			release(r.Policy)
			if r.Lower == nil {
				break
			}
			r = r.Lower.Cell
		}
	}
}

// release closes a policy that is an io.Closer. The worker does not use it again.
func release(p policies.Policy) {
	if c, ok := p.(io.Closer); ok {
		_ = c.Close() // all answers have been checked
	}
}

// replay reads the streams of a cache, derives its demand and runs every cell, until ctx ends.
func (w *worker) replay(ctx context.Context, c span) (err error) {
	p := w.plan
	w.cache = c
	if err := w.readRequest(); err != nil {
		return err
	}
	if p.opt.Pool != setting.PoolNone {
		err = w.readPool()
	} else {
		err = w.readStream(c.from)
	}
	if err != nil {
		return err
	}
	steps := p.opt.Profile.begin(c)
	for _, g := range w.groups {
		if cell, err := w.runGroup(ctx, c.from, g, steps); err != nil {
			name := w.stream.Key.String()
			if p.opt.Pool != setting.PoolNone {
				name = fmt.Sprintf("pool of %v and %d more streams", w.stream.Key, c.streams()-1)
			}
			return fmt.Errorf("%s: %s: %s: %w", p.file.Path(), name, p.cells[cell].name(), err)
		}
	}
	p.opt.Profile.end(c, steps)
	return nil
}

// readStream reads the i-th selected stream and derives its demand, unless its request keeps both.
func (w *worker) readStream(i int) error {
	if w.member = w.request.kept[i]; w.member == nil {
		w.member = w.alone
		if err := w.derive(i, w.member); err != nil {
			return err
		}
	}
	w.stream = w.member.stream
	return nil
}

// derive decodes the i-th selected stream into m and derives its demand.
func (w *worker) derive(i int, m *member) error {
	if err := w.read(i, m); err != nil {
		return err
	}
	return m.delta.Build(m.stream, w.plan.deltaOptions(m.joiner), w.check)
}

// readPool reads the streams of the cache and derives the demand of the pool.
func (w *worker) readPool() error {
	p, pool := w.plan, &w.pool
	pool.Grow(w.cache.streams())
	for len(w.members) < w.cache.streams() {
		w.members = append(w.members, p.newMember())
	}
	for n, m := range w.members[:w.cache.streams()] {
		if err := w.read(w.cache.from+n, m); err != nil {
			return err
		}
		if n == 0 {
			w.stream = m.stream
		}
		o := p.deltaOptions(m.joiner)
		w.chooseChanges(&o)
		if err := pool.Add(n, m.stream, o, w.check); err != nil {
			return err
		}
	}
	if other := pool.Unequal(); other != nil {
		return fmt.Errorf("%s: pool %s: %v and %v share a cache, expected equal steps", p.file.Path(), p.opt.Pool, w.stream.Key, other.Key)
	}
	pool.Build()
	return nil
}

// chooseChanges has the pool derive the changes of each stream for cells that may follow them, and
// the members of each row for other cells. Cells decide later, so a wrong guess costs only time.
func (w *worker) chooseChanges(o *demand.Options) {
	for _, g := range w.groups {
		for _, c := range g.cells {
			if w.mayFollow(&w.plan.cells[c]) {
				o.Followed = true
			} else {
				o.Members = true
			}
		}
	}
}

// mayFollow reports whether a cell may follow the pool: the capacity holds more than the demand of
// each stream, or more than the list if the policy reads candidates. A policy with next uses needs
// room for the demand alone, and one without capacity has room for all. A Tracker may lack some.
func (w *worker) mayFollow(c *cellPlan) bool {
	p, policy := w.plan, w.runners[c.runner].Policy
	if !policies.Follows(policy) || c.capacity == nil {
		return policies.Follows(policy)
	}
	list, needs := p.topk, policies.NeedsOf(policy)
	if needs&policies.NeedCandidates != 0 {
		list = p.m
	}
	var st cache.Start
	err := w.room(&st, c.capacity)
	room := st.Capacity*p.pins.BlockTokens - list*w.cache.streams()
	lacks := w.cache.streams()*p.pins.BlockTokens - room // if each stream has one birth
	return err == nil && (room > 0 || room == 0 && needs&policies.NeedNext != 0 || policies.Tracks(policy) && lacks <= list/2)
}

func (w *worker) view() demand.Recorded {
	if w.plan.opt.Pool != setting.PoolNone {
		return &w.pool
	}
	return &w.member.delta
}

// recorded returns the recorded streams of the cache: for each stream the heads that share its
// blocks.
func (w *worker) recorded() (streams [][]*trace.Stream) {
	if w.plan.opt.Pool == setting.PoolNone {
		return [][]*trace.Stream{pointers(w.member.recorded)}
	}
	for _, m := range w.members[:w.cache.streams()] {
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

// deltaOptions returns the options of the plan's deltas. joined is nil if rows are replayed as
// recorded.
func (p *plan) deltaOptions(joined *demand.Joiner) demand.Options {
	return demand.Options{K: p.topk, M: p.m, Pins: p.pins, Meta: p.meta, Windows: p.warmup.Replayed(), Joined: joined, Outliers: p.opt.Outliers,
		Members: p.needs&policies.NeedDemand != 0, NextUses: p.needs&policies.NeedNext != 0}
}

// read decodes the i-th selected stream into m, with the heads that share its blocks, and joins
// their rows if the layout needs it.
func (w *worker) read(i int, m *member) (err error) {
	for h := range m.recorded {
		if err := w.reader.Read(w.plan.streams[i]+h, &m.recorded[h]); err != nil {
			return err
		}
	}
	j := m.joiner
	if j == nil {
		m.stream = &m.recorded[0]
		return nil
	}
	if c := w.plan.opt.Clusters; c != nil {
		j.Group(c, &m.recorded[0], w.plan.meta.Candidates)
	}
	m.stream, err = j.Join(m.recorded)
	if errors.Is(err, demand.ErrBroken) {
		for h := range m.recorded {
			if e := w.check.First(&m.recorded[h]); e != nil {
				return e
			}
		}
		panic("replay: Joiner rejected lists that the trace checker accepts")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", w.plan.file.Path(), err)
	}
	return nil
}

// start returns the start of cell c on the cache whose first stream is the i-th selected one.
func (w *worker) start(i, c int) (cache.Start, error) {
	p, plan := w.plan, &w.plan.cells[c]
	st := cache.Start{Capacity: policies.Unbounded, Ranks: p.ranks, Seed: streamSeed(p.opt.Seed, w.stream.Key), Unit: p.layout.Unit(p.pins), Attention: p.attention()}
	if plan.capacity != nil {
		if err := w.room(&st, plan.capacity); err != nil {
			return st, err
		}
	}
	if f := p.opt.Prefetch; f.Source != setting.PrefetchNothing && p.cells[c].tier == 0 {
		blocks, err := f.Staging.Blocks(w.sizing(i))
		if err != nil {
			return st, err
		}
		st.Prefetch, st.Staging, st.Swap, st.NewPredictor = f.Source, blocks, f.Swap, newPredictor
	}
	st.Placed = w.placed(st.Capacity)
	return st, nil
}

// room sets the capacities of st. The capacity of a pool is the sum of its streams' capacities.
func (w *worker) room(st *cache.Start, capacity *setting.Capacity) error {
	st.Capacity = 0
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
			later, st.Divided = w.request.budgets[i], true
		}
		if st.Capacity += blocks; st.Later == nil {
			st.Later = later
		} else {
			for n := range later {
				st.Later[n].Capacity += later[n].Capacity
			}
		}
		if capacity.Peak() != "" {
			break // the peak is that of the whole pool
		}
	}
	return nil
}

// growthOn resolves the later parts of a capacity for a stream.
func growthOn(c *setting.Capacity, s setting.Sizing) (later []cache.CapacityAt, err error) {
	for _, g := range c.Later() {
		blocks, err := g.Capacity.Blocks(s)
		if err != nil {
			return nil, err
		}
		later = append(later, cache.CapacityAt{Step: g.From, Capacity: blocks})
	}
	return later, nil
}

// sizing returns the figures with which capacities are resolved for the i-th selected stream.
func (w *worker) sizing(i int) setting.Sizing {
	s := w.plan.sizingOf(i)
	s.PromptLen, s.Peaks = int(w.stream.PromptLen), w.peaks
	return s
}

// runCell replays cell c on the cache whose first stream is the i-th selected one.
func (w *worker) runCell(i, c int, st cache.Start, steps recording) error {
	p, plan := w.plan, &w.plan.cells[c]
	runner, policy, err := w.windowed(i, plan)
	if err != nil {
		return err
	}
	lossy := plan.spec.Entry.Traits.Lossy
	if _, divides := runner.Policy.(policies.Divider); lossy && divides {
		if st.Capacity, err = p.divisions.budget(p, i, c); err != nil {
			return err
		}
	}
	tiers := p.tiersOf(c)
	lower, err := w.tierStarts(i, st, tiers, steps)
	if err != nil {
		return err
	}
	observer := steps.observer(c)
	var checks []*cache.Check
	if p.opt.Referee {
		if lossy {
			checks, err = newLossyChecks(p, i, c, runner, st)
		} else {
			checks, err = newRefereeChecks(p, policy, w.recorded(), w.request.importanceStreams(), st, lower)
		}
		if err != nil {
			return err
		}
		observer = checks[0].Observer(observer)
		for n := range lower {
			lower[n].Observer = checks[n+1].Observer(lower[n].Observer)
		}
	}
	if _, err := runner.Run(w.view(), st, observer, lower...); err != nil {
		return err
	}
	for _, check := range checks {
		if err := check.Verdict(); err != nil {
			return err
		}
	}
	w.tallyCache(c, st, runner)
	t := runner.Lower
	for n, cell := range tiers {
		w.tallyCache(cell, lower[n].Start, t.Cell)
		t = t.Cell.Lower
	}
	return nil
}

// tierStarts returns the starts of a cell's tiers. In exclusive tiers, a warm-up that places blocks
// gives each tier the blocks that follow those of the caches above.
func (w *worker) tierStarts(i int, top cache.Start, tiers []int, steps recording) (lower []cache.TierStart, err error) {
	capacity := top.Capacity
	for _, c := range tiers {
		t := cache.TierStart{Observer: steps.observer(c)}
		if t.Start, err = w.start(i, c); err != nil {
			return nil, err
		}
		if !w.plan.opt.Inclusive {
			capacity += t.Capacity
			above := w.placed(capacity - t.Capacity)
			t.Placed = slices.DeleteFunc(w.placed(capacity), func(b int32) bool { _, in := slices.BinarySearch(above, b); return in })
		}
		lower = append(lower, t)
	}
	return lower, nil
}

// placed returns the blocks that the warm-up places in a cache of that capacity before step 0.
func (w *worker) placed(capacity int) []int32 {
	return demand.Place(w.plan.warmup, w.view(), capacity, w.request.importance)
}

// streamTally is the tally of a cell on one stream.
type streamTally struct {
	cell, part int
	tally
}

// tally notes the counts of cell c on the i-th selected stream and reports progress.
func (w *worker) tally(i, c int, st cache.Start, counts *cache.Counts) {
	p, plan := w.plan, &w.plan.cells[c]
	least, most, whole := int64(0), int64(0), int64(0)
	tokens := int64(p.pins.BlockTokens)
	if plan.capacity == nil {
		w.peaks[plan.spec.Name()] = counts.ResidentPeak
	} else {
		least, most = st.Reported(w.cache.streams())
		if first := int64(st.Capacity / w.cache.streams()); min(first, least)*tokens >= int64(p.selected(i).MaxSeqLen()) {
			whole = counts.Streams
		}
	}
	w.pending = append(w.pending, streamTally{c, p.partOf[i], tally{*counts, least * tokens, most * tokens, whole}})
	if p.opt.Progress != nil {
		p.opt.Progress(p.selected(i).Rows)
	}
}

// tallyCache pools the counts of cell c on the streams of the cache.
func (w *worker) tallyCache(c int, st cache.Start, cell *cache.Cell) {
	counts := cell.Counts()
	for s := range counts {
		w.tally(w.cache.from+s, c, st, &counts[s])
	}
	if plan := &w.plan.cells[c]; plan.capacity == nil && len(counts) > 1 {
		w.peaks[plan.spec.Name()] = cell.Peak()
	}
}

// streamSeed derives the seed of a stream, so that its draws do not depend on the worker.
func streamSeed(seed uint64, k trace.Key) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d %d", seed, k.Request, k.Layer, k.Head)
	return h.Sum64()
}
