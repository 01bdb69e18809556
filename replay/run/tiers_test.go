package run

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/setting"
)

func tiers(t testing.TB, texts ...string) (list []setting.Tier) {
	t.Helper()
	for _, text := range texts {
		tier, err := setting.ParseTier(all.Table(), text)
		fatal.If(t, err)
		if again, err := setting.ParseTier(all.Table(), tier.String()); err != nil || again.String() != tier.String() {
			t.Fatalf("tier %q reads as %v, that as %v, %v", text, tier, again, err)
		}
		list = append(list, tier)
	}
	return list
}

// The engine and the referee agree on tiers, exclusive and inclusive, below several policies and
// with several warm-ups. Rows do not depend on the number of workers.
func TestTiersAgreeWithReferee(t *testing.T) {
	f := manyStreams(t)
	for _, warmup := range []setting.Warmup{{Kind: setting.WarmupRun, Windows: 8}, {Kind: setting.WarmupImportance, Windows: 4}} {
		for n, below := range [][]string{{"dram=lru@2x"}, {"dram=fifo@40"}, {"dram=lfu@3x", "cxl=lru@1x"}, {"dram=lookahead@2x", "ssd=fifo@2x"}, {"dram=lru@10"}} {
			for _, inclusive := range []bool{false, true} {
				o := Options{Policies: specs(t, "lru", "lookahead", "opt-bypass"), Capacities: capacities(t, "16"), Warmup: warmup,
					Tiers: tiers(t, below...), Inclusive: inclusive, Layers: []int32{0, 3}, Requests: []string{"a", "c"}[n%2:][:1], Per: PerStream, Referee: true}
				if n == 0 {
					o.Shape = setting.Shape{BlockTokens: 4, ShareHeads: true}
				}
				want := mustRun(t, f, o)
				if rows := 3 * (1 + len(below)) * 4 / map[bool]int{false: 1, true: 2}[n == 0]; len(want) != rows {
					t.Fatalf("%d rows, expected %d", len(want), rows)
				}
				o.Referee, o.Workers = false, 3
				if got := mustRun(t, f, o); !reflect.DeepEqual(got, want) {
					t.Fatalf("tiers %v: three workers give other rows", below)
				}
				checkChain(t, want)
			}
		}
	}
}

// The engine and the referee agree on exclusive tiers below windows. A tier receives blocks in the
// order in which they leave the window.
func TestTiersBelowWindowsAgreeWithReferee(t *testing.T) {
	f := manyStreams(t)
	for _, request := range []string{"a", "b"} {
		o := Options{Policies: specs(t, "window:1", "window:3"), Tiers: tiers(t, "dram=fifo@9", "cxl=lru@20"),
			Layers: []int32{0, 3}, Requests: []string{request}, Per: PerStream, Referee: true}
		for _, r := range mustRun(t, f, o) {
			if r.Tier > 0 && (r.Misses == 0 || r.Misses == r.Demand || r.Evictions == 0) {
				t.Errorf("%s below %s: %d misses of %d, %d evictions: the tiers no longer cover what they should", r.Policy, r.Above, r.Misses, r.Demand, r.Evictions)
			}
		}
	}
}

// The engine and the referee agree on tiers that grow. Such a tier has more hits than one that does
// not grow.
func TestTiersThatGrow(t *testing.T) {
	f := manyStreams(t)
	for _, inclusive := range []bool{false, true} {
		o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "1x", "1x+2x@20"), Tiers: tiers(t, "dram=lru@2x+3x@8", "cxl=fifo@30+40@4+90@30"),
			Inclusive: inclusive, Layers: []int32{0}, Requests: []string{"a"}, Referee: true}
		grown := mustRun(t, f, o)
		o.Tiers = tiers(t, "dram=lru@2x", "cxl=fifo@30")
		for i, r := range mustRun(t, f, o) {
			if r.Tier == 1 && grown[i].Misses >= r.Misses {
				t.Errorf("inclusive %v, %s below %s misses %d, %d where it does not grow", inclusive, grown[i].Tiers, r.Above, grown[i].Misses, r.Misses)
			}
		}
	}
}

// In an exclusive tier, a block is demanded at most once before it leaves. Some policies then decide
// as LRU does, which TIERS.md lists. In an inclusive tier nearly all policies differ from LRU.
func TestExclusiveTiersAreLRU(t *testing.T) {
	f := manyStreams(t)
	misses := func(policy string, inclusive bool) int64 {
		rows := mustRun(t, f, Options{Policies: specs(t, "lru"), Capacities: capacities(t, "1x"), Tiers: tiers(t, "dram="+policy+"@2x"), Inclusive: inclusive, Layers: []int32{0, 1}})
		return rows[1].Misses
	}
	for inclusive, list := range map[bool]map[string]bool{
		false: {"fifo": true, "lfu": true, "lfu-decay": true, "lfu-decay:half_life=1": true, "sieve": true, "s3-fifo": true, "arc": true, "2q": true, "lirs": true,
			"clock": false, "lrfu": false, "lrfu:history=forget": false, "near-lrfu": false, "lookahead": false, "score-ewma": false, "random": false},
		true: {"fifo": false, "lfu": false, "lfu-decay": false, "s3-fifo": false, "arc": false, "2q": false, "lirs": false, "clock": false, "lrfu": false},
	} {
		lru := misses("lru", inclusive)
		for policy, same := range list {
			if got := misses(policy, inclusive); (got == lru) != same {
				t.Errorf("inclusive %v: %s misses %d, lru %d, the same: expected %v", inclusive, policy, got, lru, same)
			}
		}
	}
}

// checkChain checks that the demand of every tier equals the misses of the cache above it.
func checkChain(t *testing.T, rows []result.Row) {
	t.Helper()
	key := func(r *result.Row, above string) string {
		return fmt.Sprint(*r.RequestID, *r.LayerID, r.Head == nil || *r.Head == 0, above)
	}
	missed := map[string]int64{}
	for i := range rows {
		r := &rows[i]
		own := r.Policy + "@" + *r.Capacity
		if r.Tier > 0 {
			own = r.Above + " > " + strings.Fields(r.Tiers)[r.Tier-1]
			if r.Demand != missed[key(r, r.Above)] {
				t.Fatalf("%s is asked for %d blocks, %s missed %d", own, r.Demand, r.Above, missed[key(r, r.Above)])
			}
		}
		missed[key(r, own)] = r.Misses
	}
}

// Two exclusive LRU caches hold the same blocks as one LRU cache of both sizes together.
func TestTwoExclusiveLRUTiersAreOne(t *testing.T) {
	f := manyStreams(t)
	for _, c := range [][3]string{{"30", "10", "40"}, {"24", "60", "84"}, {"50", "1", "51"}} {
		split := mustRun(t, f, Options{Policies: specs(t, "lru"), Capacities: capacities(t, c[0]), Tiers: tiers(t, "dram=lru@"+c[1]), Per: PerStream})
		one := mustRun(t, f, Options{Policies: specs(t, "lru"), Capacities: capacities(t, c[2]), Per: PerStream})
		for i := range one {
			if top, low := split[i], split[len(one)+i]; low.Tier != 1 || low.Misses != one[i].Misses || top.Misses-low.Hits != one[i].Misses {
				t.Fatalf("%s and %s: the lower tier misses %d, one of %s misses %d", c[0], c[1], low.Misses, c[2], one[i].Misses)
			}
		}
	}
}

// Invalid tiers are errors.
func TestTierErrors(t *testing.T) {
	for text, want := range map[string]string{
		"lru@8x": "expected NAME=POLICY@CAPACITY", "dram=lru": "expected NAME=POLICY@CAPACITY", "dram=lruu@8x": "did you mean", "dram=lru@0": "keeps nothing", "dram=@8x": "expected NAME=POLICY@CAPACITY", "dram=lru@8x+4x@9": "larger size in the same unit",
		"dram=opt@8x": "see the future", "dram=window:2@8x": "a tier needs a capacity, and the policy has none", "dram=static@8x": "decides by the GPU's demand", "dram=lru@peak:window:2": "capacity other than peak:POLICY",
	} {
		if _, err := setting.ParseTier(all.Table(), text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("tier %q: %v, expected %q", text, err, want)
		}
	}
	f := manyStreams(t)
	o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Tiers: append(tiers(t, "dram=lru@8x"), tiers(t, "dram=fifo@9x")...)}
	if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), "two tiers are named dram") {
		t.Error(err)
	}
	o.Tiers, o.Prefetch = o.Tiers[:1], setting.Prefetch{Source: setting.PrefetchCandidates, Staging: capacities(t, "4")[0], Swap: true}
	if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), "--tier and --prefetch SOURCE,swap do not combine") {
		t.Error(err)
	}
}
