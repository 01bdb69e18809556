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
	stream  trace.Stream
	delta   Delta
	runners []*cell // one a policy, shared by its capacities
	tallies [][]tally
	peaks   map[string]int64
	order   []int // cells, windowed ones first
}

func newWorker(p *plan) *worker {
	w := &worker{plan: p, tallies: p.newTallies(), peaks: map[string]int64{}}
	w.reader = p.file.NewReader(trace.ReadScores | trace.TrustLists)
	w.check = trace.NewChecker(p.file.Path(), p.meta)
	for _, i := range p.todo {
		c := p.cells[i]
		for len(w.runners) <= c.runner {
			w.runners = append(w.runners, nil)
		}
		if w.runners[c.runner] == nil {
			w.runners[c.runner] = newCell(c.spec.Make())
		}
		if c.capacity == nil {
			w.order = append(w.order, i)
		}
	}
	for _, i := range p.todo {
		if p.cells[i].capacity != nil {
			w.order = append(w.order, i)
		}
	}
	return w
}

func (w *worker) close() { w.reader.Close() }

// replay reads the i-th selected stream, derives its delta and runs every cell.
func (w *worker) replay(i int) error {
	p := w.plan
	if err := w.reader.Read(p.streams[i], &w.stream); err != nil {
		return err
	}
	err := w.delta.build(&w.stream, deltaOptions{
		k: p.topk, m: p.m, pins: p.pins, meta: p.meta, windows: p.warmup.replayed(),
		members: p.needs&policies.NeedDemand != 0, nexts: p.needs&policies.NeedNext != 0,
	}, w.check)
	if err != nil {
		return err
	}
	steps := p.opt.Profile.begin(i)
	for _, c := range w.order {
		if err := w.runCell(i, c, steps); err != nil {
			return fmt.Errorf("%s: %v: %s: %w", p.file.Path(), w.stream.Key, p.cells[c].name(), err)
		}
		if p.opt.Progress != nil {
			p.opt.Progress(w.stream.Rows)
		}
	}
	p.opt.Profile.end(i, steps)
	return nil
}

func (w *worker) runCell(i, c int, steps *profileSteps) error {
	p, plan := w.plan, &w.plan.cells[c]
	st := start{capacity: policies.Unbounded, ranks: p.ranks, seed: streamSeed(p.opt.Seed, w.stream.Key)}
	entries := int64(0)
	if plan.capacity != nil {
		blocks, err := plan.capacity.blocks(sizing{topk: p.topk, blockTokens: p.pins.BlockTokens, promptLen: int(w.stream.PromptLen),
			entryBytes: p.bytes, streams: p.siblings[i], peaks: w.peaks})
		if err != nil {
			return err
		}
		st.capacity, entries = blocks, int64(blocks)*int64(p.pins.BlockTokens)
	}
	st.placed = p.warmup.placed(&w.stream, p.pins, p.m, st.capacity)
	look := steps.observer(c)
	var judge *refereeCheck
	if p.opt.Referee {
		var err error
		if judge, err = newRefereeCheck(p, plan, &w.stream, st.capacity); err != nil {
			return err
		}
		look = judge.watch(look)
	}
	counts, err := w.runners[plan.runner].run(&w.delta, st, look)
	if err != nil {
		return err
	}
	if judge != nil {
		if err := judge.verdict(); err != nil {
			return err
		}
	}
	if plan.capacity == nil {
		w.peaks[plan.spec.Name()] = counts.ResidentPeak
	}
	w.tallies[c][p.partOf[i]].add(&counts, entries)
	return nil
}

// streamSeed gives every stream draws of its own, whichever worker replays it.
func streamSeed(seed uint64, k trace.Key) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d %d", seed, k.Request, k.Layer, k.Head)
	return h.Sum64()
}
