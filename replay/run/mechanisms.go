package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/echo"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// sweepable lists the mechanisms that work with a pass over all capacities. Any other mechanism
// replays the cells one by one. On some streams runGroup does so too.
var sweepable = []setting.Mechanism{setting.UseBlocks, setting.UseSharing, setting.UsePositions, setting.UseClusters, setting.UseOutliers, setting.UsePlacing}

// sweeps reports whether passes may answer cells of the run.
func (p *plan) sweeps() bool {
	return !p.opt.oneByOne && !slices.ContainsFunc(p.used(), func(m setting.Mechanism) bool { return !slices.Contains(sweepable, m) })
}

// used lists the mechanisms of a run, apart from those of its policies and capacities.
func (p *plan) used() []setting.Mechanism {
	var all []setting.Mechanism
	o := p.opt
	for _, m := range []struct {
		name setting.Mechanism
		on   bool
	}{
		{setting.UseBlocks, p.layout.Factor > 1}, {setting.UseSharing, o.Shape.ShareHeads}, {setting.UsePositions, p.layout.Positions > 1},
		{setting.UseClusters, o.Clusters != nil}, {setting.UsePool, o.Pool != setting.PoolNone}, {setting.UseOutliers, o.Outliers.Source != setting.OutliersNone},
		{setting.UsePrefetch, o.Prefetch.Source != setting.PrefetchNothing}, {setting.UseSwap, o.Prefetch.Swap}, {setting.UseTiers, len(o.Tiers) > 0},
		{setting.UsePlan, o.Allocation != nil}, {setting.UseRedivision, o.Reallocation.Every > 0},
		{setting.UsePlacing, p.warmup.Kind == setting.WarmupImportance || p.warmup.Kind == setting.WarmupStaging}, {setting.UseProfile, o.Profile != nil},
		{setting.UseReferee, o.Referee},
	} {
		if m.on {
			all = append(all, m.name)
		}
	}
	return all
}

// kinds lists the mechanisms that a capacity uses.
func (p *plan) kinds(c *setting.Capacity) []setting.Mechanism {
	var all []setting.Mechanism
	if c.Peak() != "" || c.Form() == setting.OfPlan {
		all = append(all, setting.AtPeakOrPlan)
	}
	if len(c.Later()) > 0 || c.Form() == setting.OfPlan && p.opt.Reallocation.Every > 0 {
		all = append(all, setting.AtChanging)
	}
	return all
}

func (p *plan) checkCombination() error { return setting.Combine(p.used()...) }

func (p *plan) checkOutliers() error {
	selector, _, _ := strings.Cut(p.meta.Selector, ":")
	if p.opt.Outliers.Source == setting.OutliersUnlisted && selector != "shadowkv" {
		p.warnings = append(p.warnings, fmt.Sprintf("outliers %v: only shadowkv is known to keep unlisted blocks, the trace's selector is %q", p.opt.Outliers, p.meta.Selector))
	}
	if p.opt.Outliers.Source != setting.OutliersWindows {
		return nil
	}
	if selector == "shadowkv" {
		return fmt.Errorf("outliers %v: the lists of ShadowKV omit its outliers already. Use unlisted:N to count their memory", p.opt.Outliers)
	}
	for i := range p.streams {
		if s := p.selected(i); s.Windows == 0 {
			return fmt.Errorf("outliers %v need prompt windows (steps below 0), %v has none", p.opt.Outliers, s.Key)
		}
	}
	return nil
}

func (p *plan) resolvePrefetch() error {
	f := p.opt.Prefetch
	switch {
	case f.Source == setting.PrefetchNothing:
		return nil
	case f.Source == setting.PrefetchPredicted && !p.file.HasPredicted():
		return fmt.Errorf("prefetch %v needs predicted_indices, the trace has none", f)
	case f.Source == setting.PrefetchEcho:
		p.needs |= policies.NeedDemand
	case f.Source == setting.PrefetchCandidates && !p.ranks:
		return fmt.Errorf("prefetch %v needs ranks, the trace has order=index", f)
	case f.Source == setting.PrefetchCandidates && p.m == p.topk:
		return fmt.Errorf("prefetch %v needs candidates behind K = %d, but M is %d. Lower K with --topk", f, p.topk, p.m)
	}
	p.warnings = append(p.warnings, fmt.Sprintf("prefetch %v: OPT is no bound on these misses, so judge misses and moved entries together", f))
	return nil
}

func newPredictor() policies.Predictor { return new(echo.Predictor) }

func (p *plan) resolveClusters() error {
	c := p.opt.Clusters
	if c == nil {
		return nil
	}
	p.layout.Clustered = true
	keys := slice.Map(p.streams, func(i int) trace.Key { return p.file.Streams()[i].Key })
	p.warnings = append(p.warnings, "clusters have unequal sizes: residents are counted in entries, and no optimum is known")
	return c.Check(p.meta, keys)
}

func (p *plan) checkTiers() error {
	if len(p.opt.Tiers) == 0 {
		return nil
	}
	names := map[string]bool{}
	for _, t := range p.opt.Tiers {
		if err := t.Check(); err != nil {
			return err
		}
		if names[t.Name] {
			return fmt.Errorf("two tiers are named %s. Rename one", t.Name)
		}
		names[t.Name] = true
		if why := setting.Unfit(t.Policy, p.kinds(&t.Capacity)...); why != "" {
			return fmt.Errorf("tier %v: %s", t, why)
		}
		if why := p.whyUnfit(t.Policy, policies.NeedsOf(t.Policy.Make())); why != "" {
			return fmt.Errorf("tier %v cannot run: %s", t, why)
		}
	}
	return nil
}

// newTiers returns the first tier below a cell, with the other tiers below it.
func newTiers(tiers []setting.Tier, inclusive bool) *cache.Tier {
	if len(tiers) == 0 {
		return nil
	}
	t := cache.NewTier(cache.NewCell(tiers[0].Policy.Make()), inclusive)
	t.Cell.Lower = newTiers(tiers[1:], inclusive)
	return t
}
