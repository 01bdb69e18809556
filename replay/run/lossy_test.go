package run

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// lossyNames are the lossy policies, with options that have an effect on small streams.
var lossyNames = []string{"streamingllm:sink=2", "h2o", "h2o:recent=0.3,scores=ranks", "snapkv:window=2,kernel=3", "snapkv:window=0,kernel=5,pooling=avg",
	"pyramidkv:window=1,kernel=3,beta=4", "adakv:window=2,kernel=1,alpha=0.3", "duoattention:full=0.6,stream=0.3,sink=2,recent=3"}

// lossyFile writes a trace of one or two requests with a few layers and heads, with attention masses.
func lossyFile(t *testing.T, r *rand.Rand, small bool) *trace.File {
	t.Helper()
	kind := replaytest.Medium
	if small {
		kind = replaytest.Small
	}
	o := kind(r)
	o.Steps, o.Ascending = max(2, o.Steps), false
	path := filepath.Join(t.TempDir(), "lossy.parquet")
	meta := o.Meta(1 + r.IntN(o.M))
	meta.Selector, meta.Notes = "quest", map[string]string{"exact.recall": "0.25"}
	w, err := trace.Create(path, meta)
	fatal.If(t, err)
	heads := 1 + r.IntN(3)
	for request := range 1 + r.IntN(2) {
		for layer := range 1 + r.IntN(3) {
			for head := range heads {
				s := replaytest.Stream(r, o)
				replaytest.Masses(r, s, o.BlockTokens)
				s.Key = trace.Key{Request: fmt.Sprint("r", request), Layer: int32(3 * layer), Head: int32(head)}
				fatal.If(t, w.Write(s))
			}
		}
	}
	return reopen(t, w, path)
}

// The engine and the referee agree on every step of every lossy policy. The random requests have
// blocks, gaps, pins, windows and ties. The figures of rows add up.
func TestLossyAgreesWithReferee(t *testing.T) {
	for seed := uint64(0); seed < draws(40); seed++ {
		r := rand.New(rand.NewPCG(seed, 53))
		f := lossyFile(t, r, seed%2 == 0)
		o := Options{Policies: specs(t, lossyNames...), Capacities: capacities(t, "1x", "2x", "0.5ctx"), Per: PerStream, SkipUnable: true, Referee: true}
		if r.IntN(3) == 0 {
			o.Warmup = setting.Warmup{Kind: setting.WarmupCold}
		}
		result, err := Run(context.Background(), f, o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(result.Rows) != 3*len(lossyNames)*len(f.Streams()) {
			t.Fatalf("seed %d: %d rows; %q", seed, len(result.Rows), result.Notes)
		}
		checkLossyRows(t, seed, result.Rows)
	}
}

// checkLossyRows checks the sum of the budgets of each request, and the range of shares.
func checkLossyRows(t *testing.T, seed uint64, rows []result.Row) {
	t.Helper()
	given := map[string]int64{} // blocks of a request at a capacity, by policy
	for i := range rows {
		r := &rows[i]
		if err := r.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !r.Lossy || r.Misses != 0 || r.MovedEntries != 0 || r.SelectorRecall == nil || *r.SelectorRecall != 0.25 {
			t.Fatalf("seed %d: %+v", seed, r)
		}
		if r.KeptMass == nil || *r.KeptMass > *r.CoveredMass+1e-9 {
			t.Fatalf("seed %d: mass %v of %v", seed, r.KeptMass, r.CoveredMass)
		}
		if r.ResidentPeak*int64(r.BlockTokens) > *r.CapacityEntries {
			t.Fatalf("seed %d: %s holds %d blocks of a budget of %d", seed, r.Policy, r.ResidentPeak, *r.CapacityEntries)
		}
		given[*r.RequestID+" "+*r.Capacity+" "+r.Policy] += *r.CapacityEntries
	}
	for key, sum := range given {
		request, rest, _ := strings.Cut(key, " ")
		capacity, _, _ := strings.Cut(rest, " ")
		if equal := given[request+" "+capacity+" "+rows[0].Policy]; sum > equal {
			t.Fatalf("seed %d: %s has budgets of %d in all, equal ones are %d", seed, key, sum, equal)
		}
	}
}

// Shares of a budget are computed in decimal, as in the referee: 0.7 of 90 blocks are 63. The
// floating-point product is below 63.
func TestLossyShares(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shares.parquet")
	o, r := replaytest.Options{Prompt: 150, Steps: 60, Windows: 4, M: 12, Locality: 0.5}, rand.New(rand.NewPCG(1, 54))
	w, err := trace.Create(path, o.Meta(12))
	fatal.If(t, err)
	s := replaytest.Stream(r, o)
	replaytest.Masses(r, s, 1)
	fatal.If(t, w.Write(s))
	mustRun(t, reopen(t, w, path), Options{Policies: specs(t, "h2o:recent=0.7,scores=ranks"), Capacities: capacities(t, "90"), Referee: true})
}

// A lossy policy with room for all blocks loses none and keeps the whole recorded mass.
func TestLossyWithRoomForAll(t *testing.T) {
	f := lossyFile(t, rand.New(rand.NewPCG(5, 6)), false)
	for _, r := range mustRun(t, f, Options{Policies: specs(t, lossyNames...), Capacities: capacities(t, "100000")}) {
		if r.Lost != 0 || *r.Recall != 1 || math.Abs(*r.KeptMass-*r.CoveredMass) > 1e-12 || r.Evictions != 0 {
			t.Errorf("%s: lost %d, recall %v, mass %v of %v, %d dropped", r.Policy, r.Lost, *r.Recall, *r.KeptMass, *r.CoveredMass, r.Evictions)
		}
	}
}

// Sinks and local window are outside the budget of a lossy policy, as they are outside the capacity
// of an exact one.
func TestLossyPinsAsMuch(t *testing.T) {
	for seed := range uint64(8) {
		f := lossyFile(t, rand.New(rand.NewPCG(seed, 8)), seed%2 == 0)
		pinned := map[string]int64{} // by stream, from the first policy that has a row of it
		for _, r := range mustRun(t, f, Options{Policies: specs(t, append([]string{"lru"}, lossyNames...)...), Capacities: capacities(t, "2x"), Per: PerStream, SkipUnable: true}) {
			stream := fmt.Sprint(*r.RequestID, *r.LayerID, *r.Head)
			if _, there := pinned[stream]; !there {
				pinned[stream] = r.PinnedPeakEntries
			}
			if r.PinnedPeakEntries == 0 || r.PinnedPeakEntries != pinned[stream] {
				t.Fatalf("seed %d: %s pins %d entries at most, the first policy %d", seed, r.Policy, r.PinnedPeakEntries, pinned[stream])
			}
		}
	}
}

// Rows do not depend on the number of workers or on the other policies of the run.
func TestLossyAtAnyParallelism(t *testing.T) {
	f := lossyFile(t, rand.New(rand.NewPCG(8, 6)), false)
	o := Options{Policies: specs(t, lossyNames...), Capacities: capacities(t, "1x", "3x"), Per: PerStream, Workers: 1}
	want := mustRun(t, f, o)
	o.Workers = 4
	if got := mustRun(t, f, o); !reflect.DeepEqual(got, want) {
		t.Error("four workers give other rows")
	}
	o.Policies = specs(t, "lru", "adakv:window=2,kernel=1,alpha=0.3", "opt")
	for _, r := range mustRun(t, f, o) {
		if r.Lossy && !containsRow(want, r) {
			t.Errorf("%s at %s: other rows beside exact policies", r.Policy, *r.Capacity)
		}
	}
}

func containsRow(rows []result.Row, r result.Row) bool {
	for i := range rows {
		if reflect.DeepEqual(rows[i], r) {
			return true
		}
	}
	return false
}

// Rows state the selector recall that the capture noted, if the selector is approximate and the
// note is a number from 0 to 1. A recall measured at another K has a warning.
func TestSelectorRecall(t *testing.T) {
	for _, c := range []struct {
		selector, note string
		want           string // the recall, "-" for none, and a warning
	}{
		{"quest", "0.25", "0.25"}, {"quest", "0", "0"}, {"quest", "1", "1"},
		{"quest", "", "-"}, {"quest", "most", "-"}, {"quest", "NaN", "-"}, {"quest", "-0.5", "-"}, {"quest", "1.5", "-"}, {"quest", "25 %", "-"},
		{"exact", "1", "-"}, {"", "0.25", "-"},
	} {
		for _, topk := range []int{8, 4} {
			meta := trace.Meta{Order: trace.OrderRank, TopK: 8, Candidates: 8, BlockTokens: 1, Selector: c.selector, Notes: map[string]string{"exact.recall": c.note}}
			r := mustRun(t, withMeta(t, meta), Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), TopK: topk})[0]
			got := "-"
			if r.SelectorRecall != nil {
				got = fmt.Sprint(*r.SelectorRecall)
			}
			warned := strings.Contains(strings.Join(r.Warnings, "\n"), "measured at K = 8, not at 4")
			if got != c.want || warned != (c.want != "-" && topk == 4) || r.Selector != c.selector {
				t.Errorf("%q of %q at K = %d: %s, warnings %q, expected %s", c.note, c.selector, topk, got, r.Warnings, c.want)
			}
		}
	}
}

func TestLossyRefuses(t *testing.T) {
	plain := manyStreams(t) // the scores have no kind, and the trace has no masses
	masses := lossyFile(t, rand.New(rand.NewPCG(2, 6)), false)
	for _, c := range []struct {
		file   *trace.File
		policy string
		change func(*Options)
		want   string
	}{
		{plain, "h2o", nil, "h2o:scores=ranks"},
		{plain, "snapkv", nil, "it needs prompt_mass"},
		{plain, "duoattention", func(o *Options) { o.Warmup = setting.Warmup{Kind: setting.WarmupCold} }, "it needs prompt windows or prompt_mass"},
		{masses, "snapkv", func(o *Options) { o.Shape.StepTokens = 2 }, "--mtp do not combine"},
		{masses, "snapkv", func(o *Options) { o.Outliers = setting.Outliers{Source: setting.OutliersUnlisted, Count: 1} }, "--outliers do not combine"},
		{masses, "snapkv", func(o *Options) { o.Prefetch = prefetch(t, "candidates:1") }, "--prefetch do not combine"},
		{masses, "snapkv", func(o *Options) { o.Tiers = tiers(t, "dram=lru@8x") }, "--tier do not combine"},
		{masses, "snapkv", func(o *Options) { o.Warmup = setting.Warmup{Kind: setting.WarmupStaging} }, "compresses the prompt itself"},
		{masses, "adakv", func(o *Options) { o.Capacities = capacities(t, "peak:window:2") }, "divides the memory of a whole request"},
		{masses, "snapkv", func(o *Options) { o.Capacities = capacities(t, "1x+2x@4") }, "built for one capacity"},
	} {
		o := Options{Policies: specs(t, c.policy), Capacities: capacities(t, "1x")}
		if c.change != nil {
			c.change(&o)
		}
		if _, err := Plan(c.file, o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.policy, err, c.want)
		}
	}
	oneWindow := Options{Policies: specs(t, "duoattention"), Capacities: capacities(t, "1x"), Warmup: setting.Warmup{Kind: setting.WarmupRun, Windows: 1}}
	if _, err := Plan(plain, oneWindow); err != nil {
		t.Errorf("one window is a history: %v", err)
	}
	none := Options{Policies: specs(t, "snapkv", "h2o"), Capacities: capacities(t, "1x"), Pool: setting.PoolRequest, SkipUnable: true}
	if _, err := Plan(plain, none); err == nil || !strings.Contains(err.Error(), "sets its own budgets") {
		t.Errorf("no policy that can: %v", err)
	}
}

// withMeta returns a trace of one stream with the given metadata.
func withMeta(t *testing.T, meta trace.Meta) *trace.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "meta.parquet")
	w, err := trace.Create(path, meta)
	fatal.If(t, err)
	s := replaytest.Stream(rand.New(rand.NewPCG(1, 2)), replaytest.Options{Prompt: 20, Steps: 3, M: 8, Locality: 0.9, Local: 1})
	s.Key = trace.Key{Request: "r", Head: trace.NoHead}
	fatal.If(t, w.Write(s))
	return reopen(t, w, path)
}
