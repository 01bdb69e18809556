package replay

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/trace"
)

// TestOptionsOfNoText: what a program puts into Options and no text stands for is refused, and
// not replayed as something else under its name.
func TestOptionsOfNoText(t *testing.T) {
	f := withWindows(t, []int{8})
	for want, change := range map[string]func(*Options){
		`warm-up "lrv:4": expected auto`:            func(o *Options) { o.Warmup = Warmup{Kind: "lrv", Windows: 4} },
		`warm-up "lru": expected auto`:              func(o *Options) { o.Warmup = Warmup{Kind: WarmupRun} },
		`warm-up "cold:2": expected auto`:           func(o *Options) { o.Warmup = Warmup{Kind: WarmupCold, Windows: 2} },
		`rows per "head": expected cell`:            func(o *Options) { o.Per = "head" },
		`pool "model": expected layer`:              func(o *Options) { o.Pool = "model" },
		`prefetch "candidate:64": expected`:         func(o *Options) { o.Prefetch = Prefetch{"candidate", capacities(t, "64")[0], false} },
		`prefetch "predicted:": capacity ""`:        func(o *Options) { o.Prefetch = Prefetch{Source: PrefetchPredicted} },
		`outliers "windows:0": expected the number`: func(o *Options) { o.Outliers = Outliers{Source: OutliersWindows} },
	} {
		o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x")}
		change(&o)
		if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

// TestRunStreamSettles: a stream in memory has nothing to settle an open warm-up against, and
// without scores no importance.
func TestRunStreamSettles(t *testing.T) {
	var s trace.Stream
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "a", Head: trace.NoHead}, PromptLen: 10})
	for i := range int32(4) {
		s.Append(trace.Row{Step: i - 2, Indices: []int32{1, 2}})
	}
	m := trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: 2, Candidates: 2, BlockTokens: 1}
	for want, w := range map[string]Warmup{
		"warm-up auto, expected one that is settled": {Kind: WarmupAuto},
		"warm-up importance:2, expected":             {Kind: WarmupImportance, Windows: 2},
		`warm-up "lrv:1": expected auto`:             {Kind: "lrv", Windows: 1},
	} {
		if _, err := new(Engine).RunStream(&s, &m, new(lru.Policy), StreamOptions{Capacity: 3, Warmup: w}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

// TestProfileOfNoRun: a profile that no run has written to is none, and leaves no file.
func TestProfileOfNoRun(t *testing.T) {
	dir := t.TempDir()
	p, err := CreateProfile(filepath.Join(dir, "p.parquet"), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err == nil || !strings.Contains(err.Error(), "no run was recorded") {
		t.Errorf("%v, expected that no run was recorded", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
