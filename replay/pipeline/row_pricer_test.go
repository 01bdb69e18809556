package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// summed adds up a profile's rows of LRU into a result row.
func summed(t *testing.T, path string) *result.Row {
	t.Helper()
	entry := 768
	r := &result.Row{Setting: result.Setting{Model: "SmolLM2-135M", TopK: 256, Local: 1, BlockTokens: 1, StepTokens: 1, SharedHeads: 1, EntryBytes: &entry}, Policy: "lru"}
	for _, p := range rowsOf(t, path) {
		if p.Policy == "lru" {
			r.Steps++
			r.Demand, r.Misses, r.MovedEntries = r.Demand+int64(p.Demand), r.Misses+int64(p.Misses), r.MovedEntries+p.Moved
			r.ResidentPeak = max(r.ResidentPeak, int64(p.Resident))
		}
	}
	return r
}

func rowPricer(t *testing.T, o Options) *RowPricer {
	t.Helper()
	_, m := parts(t, "h100", "smollm2-135m")
	return &RowPricer{Options: o, Selection: "auto", Find: func(name string) *hardware.Model {
		if name == "SmolLM2-135M" {
			return m
		}
		return nil
	}}
}

// A row's mean step has the bytes of its profile's if every profiled layer stands for equally many.
// It also has nearly its time: to 1e-4 if fetches take one path and nothing overlaps. Times are
// then linear in misses, except for the launches of layers without misses.
func TestRowsAreTheMeanStep(t *testing.T) {
	path := realProfile(t)
	p, row := read(t, path), summed(t, path)
	empty, layers := 0., 0.
	for _, steps := range p.Requests[0].Steps {
		for _, c := range steps {
			layers++
			if c.Fetched == 0 {
				empty++
			}
		}
	}
	for _, c := range []struct {
		name, path string
		within     float64
	}{{"sequential", "kernel", 1e-4}, {"sequential", "fastest", 0.03}, {"da", "fastest", 0.03}} {
		o := options(t, p, c.name)
		o.Batch, o.Context, o.Path = 8, 8192, c.path
		var err error
		if o.Scaling, err = NewScaling(p, o.Model, "stretch", 0); err != nil {
			t.Fatal(err)
		}
		want := priced(t, p, o)
		got, err := rowPricer(t, o).Price(t.Context(), row)
		fatal.If(t, err)
		if math.Abs(got.H2D/want.H2D-1) > 1e-3 || got.D2H != want.D2H {
			t.Errorf("%s: a step moves %g B and %g back, that of the profile %g and %g", c.name, got.H2D, got.D2H, want.H2D, want.D2H)
		}
		if c.path == "kernel" {
			want.TPOT += 30 * empty / layers * float64(o.Machine.Link.HostToDevice.Kernel.Launch.Value)
		}
		if math.Abs(got.TPOT/want.TPOT-1) > c.within {
			t.Errorf("%s: TPOT %g s, that of the profile %g", c.name, got.TPOT, want.TPOT)
		}
	}
}

// Heads that select separately each miss as the mean stream. A layer that shares its selection
// moves as many entries, each of all heads.
func TestRowsOfHeads(t *testing.T) {
	o := options(t, read(t, realProfile(t)), "sequential")
	p := rowPricer(t, o)
	shared, apart := 768, 256
	row := &result.Row{Setting: result.Setting{Model: "SmolLM2-135M", TopK: 100, Local: 1, BlockTokens: 1, StepTokens: 1, SharedHeads: 1, EntryBytes: &shared}, Steps: 10, Demand: 1000, Misses: 40, MovedEntries: 40}
	for _, bytes := range []*int{&shared, &apart, nil} {
		row.EntryBytes = bytes
		r, err := p.Price(t.Context(), row)
		fatal.If(t, err)
		pieces := 3. // pieces per missed token
		if bytes == &shared {
			pieces = 1
		}
		near(t, "bytes", r.H2D, 30*4*768)
		near(t, "pieces", r.Pieces, 30*4*pieces)
		row.Misses, row.Prefetched = 30, 10 // prefetched blocks have moved
		ahead, err := p.Price(t.Context(), row)
		fatal.If(t, err)
		near(t, "bytes, some ahead", ahead.H2D, r.H2D)
		near(t, "pieces, some ahead", ahead.Pieces, r.Pieces)
		row.Misses, row.Prefetched = 40, 0
		row.PinnedPeakEntries = 101
		pinned, err := p.Price(t.Context(), row)
		fatal.If(t, err)
		near(t, "cache", pinned.Memory.Cache-r.Memory.Cache, 30*100*768)
		row.PinnedPeakEntries = 0
	}
	// If the three heads share a cache, its pinned entries are those of all heads.
	row.EntryBytes, row.SharedHeads = &apart, 3
	r, err := p.Price(t.Context(), row)
	fatal.If(t, err)
	row.PinnedPeakEntries = 3 * 101
	pinned, err := p.Price(t.Context(), row)
	fatal.If(t, err)
	near(t, "cache of shared heads", pinned.Memory.Cache-r.Memory.Cache, 30*100*768)
}

func TestRowsRefused(t *testing.T) {
	o := options(t, read(t, realProfile(t)), "da")
	good := result.Row{Setting: result.Setting{Model: "SmolLM2-135M", BlockTokens: 1, StepTokens: 1}, Steps: 1}
	for want, change := range map[string]func(*result.Row, *RowPricer){
		"names no model":           func(r *result.Row, _ *RowPricer) { r.Model = "" },
		"the shape of GPT":         func(r *result.Row, _ *RowPricer) { r.Model = "GPT" },
		"no steps":                 func(r *result.Row, _ *RowPricer) { r.Steps = 0 },
		"have no time model":       func(r *result.Row, _ *RowPricer) { r.Clusters = "lists" },
		"tiers below it":           func(r *result.Row, _ *RowPricer) { r.Tiers = "dram=lru@8x" },
		"decodes 2 positions":      func(r *result.Row, _ *RowPricer) { r.StepTokens = 2 },
		"moves no misses":          func(_ *result.Row, p *RowPricer) { p.Schedule = schedule.OnGPU{} },
		`unknown selection "best"`: func(_ *result.Row, p *RowPricer) { p.Selection = "best" },
		"batch 0, expected 1":      func(_ *result.Row, p *RowPricer) { p.Batch = 0 },
	} {
		r, p := good, rowPricer(t, o)
		change(&r, p)
		if _, err := p.Price(t.Context(), &r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

// A context is at least as long as the tokens that a head selects: K tokens or, if the trace lists
// blocks, K blocks. No row then states the demanded entries.
func TestRowsOfShortContexts(t *testing.T) {
	path := realProfile(t)
	row, o := summed(t, path), options(t, read(t, path), "sequential")
	blocks, grouped := *row, *row
	blocks.TopK, blocks.BlockTokens = 16, 16
	grouped.BlockTokens, grouped.DemandEntries = 16, &grouped.Demand
	for name, row := range map[string]*result.Row{"tokens": row, "lists of blocks": &blocks, "lists of tokens, in blocks": &grouped} {
		for context, ok := range map[int64]bool{255: false, 256: true} {
			o.Context = context
			if _, err := rowPricer(t, o).Price(t.Context(), row); (err == nil) != ok || !ok && !strings.Contains(err.Error(), "at least K, 256 tokens") {
				t.Errorf("%s, context %d: %v", name, context, err)
			}
		}
	}
}

// A RowPricer that has priced other rows gives the result of a new one.
func TestRowPricerKeepsNothingOfRows(t *testing.T) {
	shapes := map[string]*hardware.Model{}
	for _, name := range []string{"smollm2-135m", "llama-3.1-8b", "mixtral-8x7b"} {
		_, shapes[name] = parts(t, "h100", name)
	}
	find := func(name string) *hardware.Model { return shapes[name] }
	p := read(t, realProfile(t))
	for _, schedule := range []string{"sequential", "dba", "sfc"} {
		o := options(t, p, schedule)
		o.Batch = 8
		used := &RowPricer{Options: o, Selection: "auto", Find: find}
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		for range 60 {
			names := []string{"smollm2-135m", "llama-3.1-8b", "mixtral-8x7b", "unknown"}
			r := &result.Row{Setting: result.Setting{Model: names[rng.IntN(len(names))], TopK: 1 + rng.IntN(600), Local: 1, BlockTokens: 1, StepTokens: 1,
				SharedHeads: 1}, Steps: rng.Int64N(20), Demand: 2000, Misses: rng.Int64N(1000), ResidentPeak: rng.Int64N(1000)}
			r.MovedEntries = r.Misses
			got, err := used.Price(t.Context(), r)
			want, fails := (&RowPricer{Options: o, Selection: "auto", Find: find}).Price(t.Context(), r)
			if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(fails) {
				t.Fatalf("seed %d, %s, %+v: %+v, %v, expected %+v, %v", seed, schedule, r, got, err, want, fails)
			}
		}
	}
}
