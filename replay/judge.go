package replay

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/trace"
)

// refereeCheck compares a cell with the referee's replay of it, step by step.
type refereeCheck struct {
	want []referee.StepCounts
	at   int
	err  error

	entries bool // are counted apart from blocks
}

// newRefereeChecks replays a cell and its tiers; the checks are theirs, the cell's first.
// streams share the cache, each with the heads that share its blocks; request are all of
// a request whose importance is one.
func newRefereeChecks(p *plan, policy string, streams, request [][]*trace.Stream, st start, below []tierStart) ([]*refereeCheck, error) {
	kinds := map[WarmupKind]referee.WarmupKind{WarmupRun: referee.WarmRun, WarmupCold: referee.WarmCold,
		WarmupImportance: referee.WarmImportance, WarmupStaging: referee.WarmStaging}
	config := referee.Config{
		Policy: policy, TopK: p.topk, Candidates: p.m, Capacity: st.capacity, Growth: growthOf(st.later),
		Warmup: referee.Warmup{Kind: kinds[p.warmup.Kind], Windows: p.warmup.Windows, Over: request},
		Sink:   p.pins.Sink, Local: p.pins.Local, BlockTokens: p.pins.BlockTokens,
		Entries: p.layout.factor, StepTokens: p.layout.mtp,
		Prefetch: referee.Prefetch{Predicted: st.prefetch == PrefetchPredicted, Size: st.staging, Swap: st.swaps},
	}
	if c := p.opt.Clusters; c != nil {
		config.Page = c.page
		if config.Clusters = c.file[streams[0][0].Key]; c.file == nil {
			config.Clusters = numbered(chains(streams[0][0], streams[0][0].MaxSeqLen(), p.meta.Candidates))
		}
	}
	switch o := p.opt.Outliers; o.Source {
	case OutliersWindows:
		config.Outliers = o.Count
	case OutliersUnlisted:
		config.Unlisted = o.Count
	}
	var tiers []referee.Tier
	for n, t := range below {
		tiers = append(tiers, referee.Tier{Policy: p.opt.Tiers[n].Policy.Name(), Capacity: t.capacity, Growth: growthOf(t.later), Inclusive: p.opt.Inclusive, Placed: t.placed})
	}
	all, err := referee.RunPool(streams, p.ranks, config, tiers)
	if err != nil {
		return nil, err
	}
	checks := make([]*refereeCheck, len(all))
	for n := range all {
		checks[n] = &refereeCheck{want: all[n], entries: n == 0 && p.layout.weighed()}
	}
	return checks, nil
}

func growthOf(later []grown) (growth []referee.Growth) {
	for _, g := range later {
		growth = append(growth, referee.Growth{From: g.from, Capacity: g.blocks})
	}
	return growth
}

// watch returns an observer that compares and then tells next.
func (r *refereeCheck) watch(next Observer) Observer {
	return func(s *StepReport) {
		if r.err == nil {
			r.err = r.compare(s)
		}
		if next != nil {
			next(s)
		}
	}
}

func (r *refereeCheck) compare(s *StepReport) error {
	if r.at == len(r.want) {
		return fmt.Errorf("referee: the engine replays step %d, the referee has ended", s.T)
	}
	w := &r.want[r.at]
	r.at++
	for _, f := range []struct {
		what        string
		engine, ref int
	}{
		{"step", int(s.T), int(w.T)}, {"stream", s.Stream, w.Stream}, {"demand", s.Demand, w.Demand}, {"births", s.Births, w.Births}, {"misses", len(s.Misses), w.Misses},
		{"overflow", s.Overflow, w.Overflow}, {"evictions", len(s.Victims), w.Evictions}, {"residents", s.Resident, w.Resident}, {"pinned blocks", s.Pinned, w.Pinned},
	} {
		if f.engine != f.ref {
			return fmt.Errorf("referee: step %d: %s %d, the referee counts %d", w.Step, f.what, f.engine, f.ref)
		}
	}
	if r.entries && (s.DemandEntries != int64(w.DemandEntries) || s.MissedEntries != int64(w.MissedEntries)) {
		return fmt.Errorf("referee: step %d: %d entries demanded and %d missed, the referee counts %d and %d", w.Step, s.DemandEntries, s.MissedEntries, w.DemandEntries, w.MissedEntries)
	}
	if e, f := s.Prefetched, w.Prefetched; e != (prefetched{int64(f.Moved), int64(f.Useful), int64(f.Late), int64(f.Useless)}) {
		return fmt.Errorf("referee: step %d: prefetched %+v, the referee counts %+v", w.Step, e, f)
	}
	victims := slices.Sorted(slices.Values(s.Victims))
	for _, f := range []struct {
		what        string
		engine, ref []int32
	}{{"missed blocks", s.Misses, w.Missed}, {"victims", victims, w.Victims}, {"blocks kept out", s.KeptOut, w.KeptOut}} {
		if !slices.Equal(f.engine, f.ref) {
			return fmt.Errorf("referee: step %d: %s %v, the referee has %v", w.Step, f.what, f.engine, f.ref)
		}
	}
	return nil
}

// verdict is the first difference, or nil.
func (r *refereeCheck) verdict() error {
	if r.err == nil && r.at != len(r.want) {
		return fmt.Errorf("referee: the engine replayed %d steps, the referee %d", r.at, len(r.want))
	}
	return r.err
}

// judgeObserved holds what was observed of the request's streams against the referee's.
func (w *worker) judgeObserved(sizes []int) error {
	p, a := w.plan, &w.ahead
	blocks := make([]int, len(sizes))
	for i, size := range sizes {
		blocks[i] = size / p.pins.BlockTokens
	}
	for n, heads := range a.streams {
		c := referee.Config{Policy: "lru", TopK: p.topk, Candidates: p.m, Capacity: 1, Warmup: referee.Warmup{Kind: referee.WarmCold},
			Sink: p.pins.Sink, Local: p.pins.Local, BlockTokens: p.pins.BlockTokens, Entries: p.layout.factor, StepTokens: p.layout.mtp}
		if p.warmup.Kind == WarmupRun {
			c.Warmup = referee.Warmup{Kind: referee.WarmRun, Windows: p.warmup.Windows}
		}
		if p.opt.Outliers.Source == OutliersWindows {
			c.Outliers = p.opt.Outliers.Count
		}
		want, err := referee.Observed(heads, p.ranks, c, p.opt.Reallocation.Every, blocks)
		if err != nil {
			return err
		}
		if got := a.observed[n].misses; !reflect.DeepEqual(got, want) {
			return fmt.Errorf("referee: %v: an LRU cache of %v blocks misses %v by intervals of %d steps, the referee counts %v", a.observed[n].key, blocks, got, p.opt.Reallocation.Every, want)
		}
	}
	return nil
}
