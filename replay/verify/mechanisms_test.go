package verify

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// Rows with outliers, swaps and clusters hold. With another setting they differ. Rows with a file
// of clusters need the file.
func TestVerifyMechanisms(t *testing.T) {
	const clustered = "../../datasets/corpus/selectors_qa_text.retroinfer.parquet"
	lists, err := replay.ParseClusters("lists,page=4")
	fatal.If(t, err)
	swap, err := replay.ParsePrefetch("candidates:16,swap")
	fatal.If(t, err)
	for name, c := range map[string]struct {
		path    string
		options func(*replay.Options)
		change  func(*result.Row)
		verdict Verdict
	}{
		"outliers": {newsPath, func(o *replay.Options) {
			o.Outliers, o.Shape.BlockTokens = setting.Outliers{Source: setting.OutliersWindows, Count: 8}, 8
		}, func(r *result.Row) { r.Outliers = "windows:9" }, Differs},
		"swap":     {newsPath, func(o *replay.Options) { o.Prefetch = swap }, func(r *result.Row) { r.Prefetch = "candidates:16" }, Differs},
		"clusters": {clustered, func(o *replay.Options) { o.Clusters = lists }, func(r *result.Row) { r.Clusters = "lists,page=8" }, Differs},
		"file":     {clustered, func(o *replay.Options) { o.Clusters = lists }, func(r *result.Row) { r.Clusters = "sha256:0123456789abcdef" }, Unverifiable},
	} {
		rows := replayed(t, c.path, []string{"lru"}, []string{"2x"}, c.options)
		if r := verified(t, rows, c.path); r.Holding != len(rows) {
			t.Errorf("%s: %s", name, r.Summary())
		}
		c.change(&rows[0])
		if r := verified(t, rows, c.path); r.Outcomes[0].Verdict != c.verdict {
			t.Errorf("%s: %s, expected %s: %s", name, r.Outcomes[0].Verdict, c.verdict, strings.TrimSpace(r.Outcomes[0].details()))
		}
	}
}

// Rows with tiers hold at every level of detail, including those of the tiers. Altered rows are
// found.
func TestVerifyTiers(t *testing.T) {
	for _, c := range []struct {
		per       replay.Detail
		inclusive bool
	}{{replay.PerCell, false}, {replay.PerRequest, true}, {replay.PerStream, false}} {
		rows := replayed(t, newsPath, []string{"lru", "window:2", "opt"}, []string{"1x", "1x+2x@20"}, func(o *replay.Options) {
			for _, text := range []string{"dram=lfu@2x", "cxl=fifo@1MiB"} {
				tier, err := replay.ParseTier(all.Table(), text)
				fatal.If(t, err)
				o.Tiers = append(o.Tiers, tier)
			}
			o.Inclusive, o.Per, o.Layers = c.inclusive, c.per, []int32{0, 25}
		})
		wantAllHold(t, "tiers per "+string(c.per), rows, newsPath)
	}
	rows := replayed(t, newsPath, []string{"lru"}, []string{"1x"}, func(o *replay.Options) {
		tier, err := replay.ParseTier(all.Table(), "dram=lru@2x")
		fatal.If(t, err)
		o.Tiers = []replay.Tier{tier}
	})
	for name, c := range map[string]struct {
		change  func(*result.Row) // changes the tier's row
		verdict Verdict
		want    string
	}{
		"misses":   {func(r *result.Row) { r.Misses--; r.Hits++ }, Differs, "differs: misses"},
		"policy":   {func(r *result.Row) { r.Policy = "fifo" }, Differs, "differs: policy fifo, replayed lru"},
		"tier":     {func(r *result.Row) { r.Tiers = "dram=lru@4x" }, Differs, "differs: misses"},
		"kind":     {func(r *result.Row) { r.Tiers += " inclusive" }, Differs, "differs: misses"},
		"above":    {func(r *result.Row) { r.Above = "lru@2x" }, Differs, "differs: demand"},
		"nowhere":  {func(r *result.Row) { r.Tiers += " cxl=lru@2x"; r.Tier = 2 }, Differs, "no row of this part"},
		"form":     {func(r *result.Row) { r.Tiers = "dram=lru@much" }, Differs, `capacity "much"`},
		"stranger": {func(r *result.Row) { r.Tiers = "dram=lrv@2x" }, Unverifiable, `unknown policy "lrv"`},
	} {
		altered := slices.Clone(rows)
		c.change(&altered[1])
		o := verified(t, altered, newsPath).Outcomes[1]
		if o.Verdict != c.verdict || !strings.Contains(o.details(), c.want) {
			t.Errorf("%s: %s, expected %s with %q:\n%s", name, o.Verdict, c.verdict, c.want, o.details())
		}
	}
}

// Rows with a plan hold if the plan is given, which is found by its digest. Otherwise they name the
// missing plan.
func TestVerifyPlans(t *testing.T) {
	profile := replayed(t, newsPath, []string{"lru"}, []string{"sweep"}, func(o *replay.Options) { o.Per = replay.PerStream })
	windows := replayed(t, newsPath, []string{"window:1", "window:2", "window:3"}, nil, func(o *replay.Options) { o.Per = replay.PerStream })
	planned := func(rows []result.Row, method string) *allocate.Plan {
		m, err := allocate.ParseMethod(method)
		fatal.If(t, err)
		reports, err := allocate.Run(rows, allocate.Options{Methods: []allocate.Spec{m}, Memory: "2x"})
		fatal.If(t, err)
		return reports[0].Plan
	}
	plan, other := planned(profile, "2d-greedy"), planned(profile, "uniform")
	again, err := allocate.ParseReallocation("32")
	fatal.If(t, err)
	for name, c := range map[string]struct {
		plan    *allocate.Plan
		policy  []string
		options func(*replay.Options)
	}{
		"capacities": {plan, []string{"lru", "opt"}, func(o *replay.Options) { o.Per = replay.PerLayer }},
		"divided":    {plan, []string{"lru", "opt"}, func(o *replay.Options) { o.Reallocation = again }},
		"windows":    {planned(windows, "2d-greedy"), []string{"window:1"}, func(o *replay.Options) { o.Per = replay.PerRequest }},
	} {
		rows := replayed(t, newsPath, c.policy, nil, func(o *replay.Options) { o.Allocation = c.plan; c.options(o) })
		for what, want := range map[string]struct {
			plans   []*allocate.Plan
			verdict Verdict
			reason  string
		}{
			"there":   {[]*allocate.Plan{other, c.plan}, Holds, ""},
			"missing": {[]*allocate.Plan{other}, Unverifiable, "it needs the plan " + c.plan.Digest()},
		} {
			r, err := Rows(context.Background(), rows, Options{Policies: all.Table(), Traces: []string{newsPath}, Plans: want.plans, Sample: All})
			fatal.If(t, err)
			for _, o := range r.Outcomes {
				if o.Verdict != want.verdict || !strings.Contains(o.Reason, want.reason) {
					t.Errorf("%s, %s: row %d %s, expected %s: %s", name, what, o.Row, o.Verdict, want.verdict, o.details())
				}
			}
		}
	}
}
