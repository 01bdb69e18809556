package run

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// The engine and the referee agree on outliers, with every policy, warm-up, shape and prefetcher.
func TestOutliersAgreeWithReferee(t *testing.T) {
	var b bench
	var free, kept int64 // demand without outliers, and with
	for seed := uint64(0); seed < draws(400); seed++ {
		r := rand.New(rand.NewPCG(seed, 91))
		streams, p := drawShape(r)
		if streams[0].Rows == streams[0].Windows {
			continue
		}
		free += b.runShared(t, p, streams, "lru", p.topk).Demand
		b.prefetch, b.staging = setting.PrefetchNothing, 0
		if p.ranks && p.m > p.topk && r.IntN(3) == 0 {
			b.prefetch, b.staging = setting.PrefetchCandidates, 1+r.IntN(p.topk)
		}
		p.opt.Outliers = setting.Outliers{Source: []setting.OutlierSource{setting.OutliersWindows, setting.OutliersUnlisted}[r.IntN(8)/7], Count: 1 + r.IntN(2*p.topk)}
		for _, name := range exactNames {
			spec, _ := all.Table().Parse(name)
			if p.whyUnfit(spec, policies.NeedsOf(spec.Make())) != "" {
				continue
			}
			counts := b.runShared(t, p, streams, name, 1+r.IntN(2*p.topk))
			if name == "lru" {
				kept += counts.Demand
			}
		}
		b.prefetch, b.staging = setting.PrefetchNothing, 0
		if t.Failed() {
			t.Fatalf("seed %d: %d heads, layout %+v, outliers %v", seed, len(streams), p.layout, p.opt.Outliers)
		}
	}
	if kept >= free*4/5 {
		t.Errorf("demand %d with outliers, %d without: they should hold a good part of it", kept, free)
	}
}

// Rows with outliers do not depend on the number of workers or on sweeps. They count the memory of
// the outliers. Outliers from windows need prompt windows in the trace.
func TestRunOfOutliers(t *testing.T) {
	f := manyStreams(t)
	o := everyCell(t, PerStream, 1)
	plain := mustRun(t, f, o)
	o.Outliers, o.Shape.BlockTokens = setting.Outliers{Source: setting.OutliersWindows, Count: 3}, 4
	want := mustRun(t, f, o)
	o.Workers, o.oneByOne = 3, true
	if got := mustRun(t, f, o); !reflect.DeepEqual(got, want) {
		t.Fatal("three workers and no sweeps give other rows")
	}
	o.Referee = true
	mustRun(t, f, o)
	for i := range want {
		if want[i].Outliers != "windows:3" || want[i].PinnedPeakEntries < 3*4 || plain[i].Outliers != "" {
			t.Fatalf("outliers %q with %d pinned entries", want[i].Outliers, want[i].PinnedPeakEntries)
		}
	}
}

func TestOutlierErrors(t *testing.T) {
	for text, want := range map[string]string{"48": "windows:48", "windows": "as in windows:48", "windows:0": "1 to", "windows:x": "1 to", "window:48": "did you mean windows", "unlisted:-1": "as in unlisted:48"} {
		if o, err := setting.ParseOutliers(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("outliers %q read as %v, %v", text, o, err)
		}
	}
	for _, text := range []string{"", "windows:48", "unlisted:1"} {
		if o, err := setting.ParseOutliers(text); err != nil || o.String() != text {
			t.Errorf("outliers %q read as %v, %v", text, o, err)
		}
	}
	f, err := trace.Open("../../datasets/bundled/smollm2_niah_multikey_3_4k.parquet")
	fatal.If(t, err)
	defer f.Close()
	o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Outliers: setting.Outliers{Source: setting.OutliersWindows, Count: 4}}
	if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), "need prompt windows") {
		t.Errorf("a trace without windows: %v", err)
	}
	p := plan{opt: &o, meta: &trace.Meta{Selector: "shadowkv"}}
	if err := p.checkOutliers(); err == nil || !strings.Contains(err.Error(), "unlisted:N") {
		t.Errorf("a trace of ShadowKV: %v", err)
	}
	o = Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Outliers: setting.Outliers{Source: setting.OutliersUnlisted, Count: 4}}
	for _, r := range mustRun(t, f, o) {
		if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "only shadowkv is known") }) {
			t.Errorf("unlisted outliers of a trace of no such selector: %q", r.Warnings)
		}
	}
}
