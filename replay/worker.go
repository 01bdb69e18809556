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
	runners []*cell  // one a policy, shared by its capacities
	groups  []*group // cells that are replayed together, windowed ones first
	tallies [][]tally
	peaks   map[string]int64
}

func newWorker(p *plan) *worker {
	w := &worker{plan: p, tallies: p.newTallies(), peaks: map[string]int64{}}
	w.reader = p.file.NewReader(trace.ReadScores | trace.TrustLists)
	w.check = trace.NewChecker(p.file.Path(), p.meta)
	var windowed, others []int
	for _, i := range p.todo {
		c := p.cells[i]
		for len(w.runners) <= c.runner {
			w.runners = append(w.runners, nil)
		}
		if w.runners[c.runner] == nil {
			w.runners[c.runner] = newCell(c.spec.Make())
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
	for _, g := range w.groups {
		if c, err := w.runGroup(i, g, steps); err != nil {
			return fmt.Errorf("%s: %v: %s: %w", p.file.Path(), w.stream.Key, p.cells[c].name(), err)
		}
	}
	p.opt.Profile.end(i, steps)
	return nil
}

// start settles how cell c begins on the i-th selected stream.
func (w *worker) start(i, c int) (start, error) {
	p, plan := w.plan, &w.plan.cells[c]
	st := start{capacity: policies.Unbounded, ranks: p.ranks, seed: streamSeed(p.opt.Seed, w.stream.Key)}
	if plan.capacity != nil {
		blocks, err := plan.capacity.blocks(sizing{topk: p.topk, blockTokens: p.pins.BlockTokens, promptLen: int(w.stream.PromptLen),
			entryBytes: p.bytes, streams: p.siblings[i], peaks: w.peaks})
		if err != nil {
			return st, err
		}
		st.capacity = blocks
	}
	st.placed = p.warmup.placed(&w.stream, p.pins, p.m, st.capacity)
	return st, nil
}

func (w *worker) runCell(i, c int, st start, steps *profileSteps) error {
	p, plan := w.plan, &w.plan.cells[c]
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
	w.tally(i, c, st, &counts)
	return nil
}

// tally pools what cell c counted on the i-th selected stream, and tells of it.
func (w *worker) tally(i, c int, st start, counts *Counts) {
	p, plan := w.plan, &w.plan.cells[c]
	entries := int64(0)
	if plan.capacity == nil {
		w.peaks[plan.spec.Name()] = counts.ResidentPeak
	} else {
		entries = int64(st.capacity) * int64(p.pins.BlockTokens)
	}
	w.tallies[c][p.partOf[i]].add(counts, entries)
	if p.opt.Progress != nil {
		p.opt.Progress(w.stream.Rows)
	}
}

// streamSeed gives every stream draws of its own, whichever worker replays it.
func streamSeed(seed uint64, k trace.Key) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d %d", seed, k.Request, k.Layer, k.Head)
	return h.Sum64()
}
