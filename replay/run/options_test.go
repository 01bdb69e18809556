package run

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// Plan refuses values of Options that no text can state.
func TestOptionsOfNoText(t *testing.T) {
	f := withWindows(t, []int{8})
	for want, change := range map[string]func(*Options){
		`warm-up "lrv:4": expected auto`:      func(o *Options) { o.Warmup = setting.Warmup{Kind: "lrv", Windows: 4} },
		`warm-up "lru": expected auto`:        func(o *Options) { o.Warmup = setting.Warmup{Kind: setting.WarmupRun} },
		`warm-up "cold:2": expected auto`:     func(o *Options) { o.Warmup = setting.Warmup{Kind: setting.WarmupCold, Windows: 2} },
		`rows per "head": expected cell`:      func(o *Options) { o.Per = "head" },
		`pool "model": expected layer`:        func(o *Options) { o.Pool = "model" },
		`prefetch "candidate:64": expected`:   func(o *Options) { o.Prefetch = setting.Prefetch{Source: "candidate", Staging: capacities(t, "64")[0]} },
		`prefetch "predicted:": expected a S`: func(o *Options) { o.Prefetch = setting.Prefetch{Source: setting.PrefetchPredicted} },
		`outliers "windows:0": expected 1 to`: func(o *Options) { o.Outliers = setting.Outliers{Source: setting.OutliersWindows} },
	} {
		o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x")}
		change(&o)
		if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

// Plan refuses numbers out of range, with an error that names them.
func TestOptionsOutOfBounds(t *testing.T) {
	f := withWindows(t, []int{8})
	minus, none := -1, 0
	for want, change := range map[string]func(*Options){
		"top-k -1 and candidates 12, expected at least 1":         func(o *Options) { o.TopK = -1 },
		"top-k 8 and candidates -1, expected at least 1":          func(o *Options) { o.Candidates = -1 },
		"candidates M = 13, the trace lists at most 12":           func(o *Options) { o.Candidates = 13 },
		"top-k K = 8 exceeds candidates M = 7":                    func(o *Options) { o.Candidates = 7 },
		"sink -1 and local 1, expected at least 0 and 1":          func(o *Options) { o.Sink = &minus },
		"sink 0 and local 0, expected at least 0 and 1":           func(o *Options) { o.Local = &none },
		"entry bytes 0, expected at least 1":                      func(o *Options) { o.EntryBytes = &none },
		"warm-up lru:9 needs 9 prompt windows":                    func(o *Options) { o.Warmup = setting.Warmup{Kind: setting.WarmupRun, Windows: 9} },
		"warm-up importance:1 needs scores, the trace has none":   func(o *Options) { o.Warmup = setting.Warmup{Kind: setting.WarmupImportance, Windows: 1} },
		"policy score-ewma:decay=0.8 cannot run: it needs scores": func(o *Options) { o.Policies = specs(t, "score-ewma") },
		"capacity peak:window:2: this run has no policy window:2": func(o *Options) { o.Capacities = capacities(t, "peak:window:2") },
		"prefetch predicted:4 needs predicted_indices, the trace has": func(o *Options) {
			o.Prefetch = setting.Prefetch{Source: setting.PrefetchPredicted, Staging: capacities(t, "4")[0]}
		},
		"tier dram=score-ewma:decay=0.8@4x cannot run: it needs":        func(o *Options) { o.Tiers = tiers(t, "dram=score-ewma@4x") },
		"tier dram=arc@1x+2x@4: the policy is built for one capacity":   func(o *Options) { o.Tiers = tiers(t, "dram=arc@1x+2x@4") },
		"policy arc cannot run: the policy is built for one capacity":   func(o *Options) { o.Policies, o.Capacities = specs(t, "arc"), capacities(t, "1x+2x@4") },
		"layer 3 is not in the trace, expected one of 0":                func(o *Options) { o.Layers = []int32{3} },
		"capacity 1KiB is in bytes, but the trace states no entry size": func(o *Options) { o.Capacities = capacities(t, "1KiB") },
	} {
		o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x")}
		change(&o)
		if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

// With SkipUnable, a run leaves out the cells that cannot run, with a note. If no cell is left, the
// error states why.
func TestSkipUnable(t *testing.T) {
	f := withWindows(t, []int{8})
	o := Options{Policies: specs(t, "arc", "score-ewma", "lru"), Capacities: capacities(t, "2x", "1x+2x@4"), SkipUnable: true}
	r, err := Run(context.Background(), f, o)
	fatal.If(t, err)
	var ran []string
	for _, row := range r.Rows {
		ran = append(ran, row.Policy+"@"+*row.Capacity)
	}
	if got := strings.Join(ran, " "); got != "arc@2x lru@2x lru@1x+2x@4" {
		t.Errorf("ran %s", got)
	}
	for _, want := range []string{"arc left out at 1x+2x@4: the policy is built for one capacity", "score-ewma:decay=0.8 left out: it needs scores"} {
		if !slices.ContainsFunc(r.LeftOut, func(l LeftOut) bool { return strings.HasPrefix(l.String(), want) }) {
			t.Errorf("left out %q, expected %q", r.LeftOut, want)
		}
	}
	if got, want := SummaryOf(r.LeftOut), "2 policies left out: the policy is built for one capacity (arc at 1x+2x@4), needs scores (score-ewma)"; got != want {
		t.Errorf("summary %q, expected %q", got, want)
	}
	o.Policies = o.Policies[1:2]
	if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), "no policy can replay this trace: score-ewma:decay=0.8 left out") {
		t.Errorf("of one that cannot: %v", err)
	}
}

// RunStream refuses the warm-up auto, and importance for a stream without scores.
func TestRunStreamSettles(t *testing.T) {
	var s trace.Stream
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "a", Head: trace.NoHead}, PromptLen: 10})
	for i := range int32(4) {
		s.Append(trace.Row{Step: i - 2, Indices: []int32{1, 2}})
	}
	m := trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: 2, Candidates: 2, BlockTokens: 1}
	for want, w := range map[string]setting.Warmup{
		"warm-up auto, expected one other than auto": {Kind: setting.WarmupAuto},
		"warm-up importance:2, expected":             {Kind: setting.WarmupImportance, Windows: 2},
		`warm-up "lrv:1": expected auto`:             {Kind: "lrv", Windows: 1},
	} {
		if _, err := new(Engine).RunStream(&s, &m, new(lru.Policy), StreamOptions{Capacity: 3, Warmup: w}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

// needy is LRU with additional needs.
type needy struct {
	lru.Policy
	needs policies.Needs
}

func (p *needy) Needs() policies.Needs { return p.needs }

// RunStream refuses a stream that lacks a column that the policy needs.
func TestRunStreamNeeds(t *testing.T) {
	var s trace.Stream
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "a", Head: trace.NoHead}, PromptLen: 10})
	for i := range int32(4) {
		s.Append(trace.Row{Step: i, Indices: []int32{1, 2}})
	}
	m := trace.Meta{Version: trace.Version, Order: trace.OrderIndex, TopK: 2, Candidates: 2, BlockTokens: 1}
	lossy := func(name string) policies.Policy { return specs(t, name)[0].Make() }
	for want, p := range map[string]policies.Policy{
		"cannot run: it needs ranks":            &needy{needs: policies.NeedCandidates},
		"cannot run: it needs scores":           &needy{needs: policies.NeedScores},
		"cannot run: it needs prompt_mass":      lossy("snapkv"),
		"cannot run: it needs attention masses": lossy("h2o"),
	} {
		if _, err := new(Engine).RunStream(&s, &m, p, StreamOptions{Capacity: 3}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	if _, err := new(Engine).RunStream(&s, &m, lossy("duoattention"), StreamOptions{Capacity: 3}); err != nil {
		t.Errorf("no windows, as the warm-up says: %v", err)
	}
}

// Closing a profile to which no run has written is an error and leaves no file.
func TestProfileOfNoRun(t *testing.T) {
	dir := t.TempDir()
	p, err := CreateProfile(filepath.Join(dir, "p.parquet"), false)
	fatal.If(t, err)
	if err := p.Close(); err == nil || !strings.Contains(err.Error(), "no run was recorded") {
		t.Errorf("%v, expected that no run was recorded", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
