package run

import (
	"fmt"
	"reflect"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// newRefereeChecks replays a cell and its tiers with the referee. It returns one check for the cell
// and one for each tier, in this order. streams are the streams that share the cache, each with
// the heads that share its blocks. request lists all streams of the request if a warm-up sums
// importance over them, and is nil otherwise.
func newRefereeChecks(p *plan, policy string, streams, request [][]*trace.Stream, st cache.Start, lower []cache.TierStart) ([]*cache.Check, error) {
	kinds := map[setting.WarmupKind]referee.WarmupKind{setting.WarmupRun: referee.WarmRun, setting.WarmupCold: referee.WarmCold,
		setting.WarmupImportance: referee.WarmImportance, setting.WarmupStaging: referee.WarmStaging}
	config := referee.Config{
		Policy: policy, TopK: p.topk, Candidates: p.m, Capacity: st.Capacity, Growth: growthOf(st.Later),
		Warmup: referee.Warmup{Kind: kinds[p.warmup.Kind], Windows: p.warmup.Windows, Over: request},
		Sink:   p.pins.Sink, Local: p.pins.Local, BlockTokens: p.pins.BlockTokens,
		Entries: p.layout.Factor, StepTokens: p.layout.Positions,
		Prefetch: referee.Prefetch{Predicted: st.Prefetch == setting.PrefetchPredicted, Size: st.Staging, Swap: st.Swap},
	}
	if st.Prefetch == setting.PrefetchEcho {
		config.Prefetch.Predictor = newPredictor()
	}
	if c := p.opt.Clusters; c != nil {
		config.Page, config.Clusters = c.Page(), c.TokenClusters(streams[0][0], p.meta.Candidates)
	}
	switch o := p.opt.Outliers; o.Source {
	case setting.OutliersWindows:
		config.Outliers = o.Count
	case setting.OutliersUnlisted:
		config.Unlisted = o.Count
	}
	var tiers []referee.Tier
	for n, t := range lower {
		tiers = append(tiers, referee.Tier{Policy: p.opt.Tiers[n].Policy.Name(), Capacity: t.Capacity, Growth: growthOf(t.Later), Inclusive: p.opt.Inclusive, Placed: t.Placed})
	}
	return cache.NewChecks(streams, p.ranks, config, tiers, p.layout.HasPicked())
}

func growthOf(later []cache.CapacityAt) (growth []referee.Growth) {
	for _, g := range later {
		growth = append(growth, referee.Growth{From: g.Step, Capacity: g.Capacity})
	}
	return growth
}

// newLossyChecks replays cell c on the i-th selected stream with the referee, which reads the
// whole request.
func newLossyChecks(p *plan, i, c int, cell *cache.Cell, st cache.Start) ([]*cache.Check, error) {
	from, to := p.requestOf(i)
	reader := p.file.NewReader(trace.ReadScores | trace.ReadMasses | trace.ReadPromptMass)
	defer reader.Close()
	config := referee.LossyConfig{Policy: p.cells[c].spec.Name(), TopK: p.topk, Candidates: p.m, Windows: p.warmup.Replayed(),
		Sink: p.pins.Sink, Local: p.pins.Local, BlockTokens: p.pins.BlockTokens, Attention: st.Attention.Given, Masses: st.Attention.Masses, Covered: st.Attention.Covered}
	var streams []*trace.Stream
	for n := from; n < to; n++ {
		s := new(trace.Stream)
		if err := reader.Read(p.streams[n], s); err != nil {
			return nil, err
		}
		blocks, err := p.cells[c].capacity.Blocks(p.sizingOf(n))
		if err != nil {
			blocks = st.Capacity // the capacity is a peak. Dividers have none
		}
		streams, config.Capacities = append(streams, s), append(config.Capacities, blocks)
	}
	check, err := cache.NewLossyCheck(streams, i-from, config, cell)
	return []*cache.Check{check}, err
}

// checkObserved compares the observed misses of the request's streams with the referee's.
func (w *worker) checkObserved(sizes []int) error {
	p, a := w.plan, &w.request
	blocks := slice.Map(sizes, func(size int) int { return size / p.pins.BlockTokens })
	for n, heads := range a.streams {
		c := referee.Config{Policy: "lru", TopK: p.topk, Candidates: p.m, Capacity: 1, Warmup: referee.Warmup{Kind: referee.WarmCold},
			Sink: p.pins.Sink, Local: p.pins.Local, BlockTokens: p.pins.BlockTokens, Entries: p.layout.Factor, StepTokens: p.layout.Positions}
		if p.warmup.Kind == setting.WarmupRun {
			c.Warmup = referee.Warmup{Kind: referee.WarmRun, Windows: p.warmup.Windows}
		}
		if p.opt.Outliers.Source == setting.OutliersWindows {
			c.Outliers = p.opt.Outliers.Count
		}
		want, err := referee.Observed(heads, p.ranks, c, p.opt.Reallocation.Every, blocks)
		if err != nil {
			return err
		}
		if got := a.observed[n].misses; !reflect.DeepEqual(got, want) {
			return fmt.Errorf("referee: %v: LRU caches of %v blocks miss %v in intervals of %d steps, the referee counts %v", a.observed[n].key, blocks, got, p.opt.Reallocation.Every, want)
		}
	}
	return nil
}
