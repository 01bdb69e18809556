package run

import (
	"slices"

	"github.com/kvreplay/kvreplay/replay/setting"
)

// sweepable are the mechanisms that a pass over all capacities serves. It leaves single streams
// and starts to single runs, see runGroup. Every other mechanism replays the cells one by one.
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

// kinds lists the kinds of a capacity.
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

// checkCombination refuses mechanisms of a run that do not combine.
func (p *plan) checkCombination() error { return setting.Combine(p.used()...) }
