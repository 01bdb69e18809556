package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/pipelinetest"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// realProfile replays a bundled trace and returns the profile's path.
func realProfile(t testing.TB, tiers ...string) string {
	t.Helper()
	return pipelinetest.Replay(t, []string{"lru", "lookahead"}, tiers...)
}

// read returns the LRU cell of the profile at path.
func read(t testing.TB, path string) *Profile {
	t.Helper()
	p, err := readProfile(t.Context(), path, Cell{"lru", "2x"})
	fatal.If(t, err)
	return p
}

// options prices SmolLM2 on an H100. The nearest profiled layer stands for each layer.
func options(t testing.TB, p *Profile, text string) Options {
	t.Helper()
	machine, m := parts(t, "h100", "smollm2-135m")
	scaling, err := NewScaling(p, m, "nearest", 0)
	fatal.If(t, err)
	selection, err := operator.ParseSelection("auto", m)
	fatal.If(t, err)
	return Options{Machine: machine, Model: m, Scaling: scaling, Selection: selection, Schedule: scheduleOf(t, text), Batch: 1, Threads: 16, Reserve: 0.1}
}

func priced(t testing.TB, p *Profile, o Options) *Result {
	t.Helper()
	r, err := Price(t.Context(), p, o)
	fatal.If(t, err)
	return r
}

// rowsOf reads a profile's rows without this package.
func rowsOf(t *testing.T, path string) []replay.ProfileRow {
	rows, err := parquet.ReadFile[replay.ProfileRow](path)
	fatal.If(t, err)
	return rows
}

// The bytes of a step are the rows' entries, each layer weighted by the layer map. The nearest of
// layers 0, 5, …, 25 stands for each of 30. If two are equally near, the first does.
func TestBytesAreTheProfiles(t *testing.T) {
	path := realProfile(t)
	times := map[int32]float64{0: 3, 5: 5, 10: 5, 15: 5, 20: 5, 25: 7}
	var entries, steps float64
	for _, r := range rowsOf(t, path) {
		if r.Policy == "lru" {
			entries += times[r.LayerID] * float64(r.Moved)
			if r.LayerID == 0 {
				steps++
			}
		}
	}
	p := read(t, path)
	r := priced(t, p, options(t, p, "sequential"))
	near(t, "bytes a step", r.H2D, entries*768/steps)
	near(t, "bytes back", r.D2H, 30*768)
	near(t, "time by cause", r.Causes[schedule.Compute]+r.Causes[schedule.Selecting]+r.Causes[schedule.Lookup]+r.Causes.Transfers()+r.Causes[schedule.OnHost], r.Mean)
	near(t, "OTPS", r.OTPS, 1/r.Mean)
	if r.Steps != int(steps) || r.P50 > r.P95 || r.P95 > r.P99 {
		t.Errorf("%d steps, p50 %g, p95 %g, p99 %g; expected %g ascending", r.Steps, r.P50, r.P95, r.P99, steps)
	}
	if r.Mean < r.H2D/64e9 {
		t.Errorf("a step takes %g s, less than its %g B over the link", r.Mean, r.H2D)
	}
}

// A request drawn eight times misses eight times as much.
func TestBatchAddsUp(t *testing.T) {
	p := read(t, realProfile(t))
	one := options(t, p, "da")
	eight := one
	eight.Batch = 8
	a, b := priced(t, p, one), priced(t, p, eight)
	near(t, "bytes", b.H2D, 8*a.H2D)
	near(t, "cache", b.Memory.Cache, 8*a.Memory.Cache)
	near(t, "tokens/s", b.Tokens, 8*b.OTPS)
	if b.Mean <= a.Mean || b.Tokens <= a.Tokens {
		t.Errorf("a batch of 8 takes %g s at %g tokens/s, one request %g s at %g", b.Mean, b.Tokens, a.Mean, a.Tokens)
	}
	if again := priced(t, p, eight); !reflect.DeepEqual(again, b) {
		t.Error("the same input gives another result")
	}
}

// A schedule that hides more takes no longer, and none is faster than keeping all KV on the GPU.
func TestSchedulesOnRealMisses(t *testing.T) {
	p := read(t, realProfile(t))
	mean := map[string]float64{}
	for _, name := range exactNames(t) {
		o := options(t, p, name)
		o.Batch = 16
		r := priced(t, p, o)
		mean[name] = r.Mean
		near(t, name+" by cause", r.Causes[schedule.Compute]+r.Causes[schedule.Selecting]+r.Causes[schedule.Lookup]+r.Causes.Transfers()+r.Causes[schedule.OnHost], r.Mean)
	}
	order := []string{"gpu", "da", "sequential", "flexgen"}
	for i := 1; i < len(order); i++ {
		if mean[order[i-1]] > mean[order[i]] {
			t.Errorf("%s takes %g, longer than %s, %g", order[i-1], mean[order[i-1]], order[i], mean[order[i]])
		}
	}
	if mean["layerwise"] > min(mean["da"], mean["dba"])+1e-12 {
		t.Errorf("layer by layer %g, da %g, dba %g", mean["layerwise"], mean["da"], mean["dba"])
	}
	if mean["kvpr"] < mean["gpu"] {
		t.Errorf("kvpr takes %g, less than without transfers, %g", mean["kvpr"], mean["gpu"])
	}
}

// Wrongly predicted blocks also move. The first layer of a step is not predicted.
func TestWrongPrefetchMoves(t *testing.T) {
	path := realProfile(t)
	first, steps := 0., 0.
	for _, r := range rowsOf(t, path) {
		if r.Policy == "lru" && r.LayerID == 0 {
			first, steps = first+768*float64(r.Moved), steps+1
		}
	}
	p := read(t, path)
	right, wrong := priced(t, p, options(t, p, "prefetch")), priced(t, p, options(t, p, "prefetch:accuracy=0.75"))
	if first == 0 {
		t.Fatal("layer 0 moves nothing")
	}
	near(t, "bytes", wrong.H2D, right.H2D+0.25*(right.H2D-first/steps))
	if wrong.Mean <= right.Mean {
		t.Errorf("with wrong predictions a step takes %g s, with right ones %g", wrong.Mean, right.Mean)
	}
}

// Misses of the tier below come from the SSD and also pass the link.
func TestTierIsTheSSD(t *testing.T) {
	p := read(t, realProfile(t, "dram=lru@8x"))
	q := read(t, realProfile(t))
	tiered, plain := priced(t, p, options(t, p, "sequential")), priced(t, q, options(t, q, "sequential"))
	near(t, "bytes to the GPU", tiered.H2D, plain.H2D)
	if tiered.SSD <= 0 || tiered.SSD >= tiered.H2D || tiered.Causes[schedule.Drive] <= 0 || tiered.Mean <= plain.Mean {
		t.Errorf("of %g B, %g from the SSD in %g s; a step takes %g, without SSD %g", tiered.H2D, tiered.SSD, tiered.Causes[schedule.Drive], tiered.Mean, plain.Mean)
	}
	if tiered.Memory.Host >= plain.Memory.Host || tiered.Memory.SSD != plain.Memory.Host {
		t.Errorf("host %g, SSD %g; without SSD the host has %g", tiered.Memory.Host, tiered.Memory.SSD, plain.Memory.Host)
	}
}

// ESS's memory: 54.3 requests of 32K tokens fill 85.5 GB with latent and indexer entries.
func TestESSMemory(t *testing.T) {
	p := read(t, realProfile(t))
	o := options(t, p, "gpu")
	var err error
	o.Machine, o.Model = parts(t, "h200", "deepseek-v3.2")
	if o.Scaling, err = NewScaling(p, o.Model, "stretch", 0); err != nil {
		t.Fatal(err)
	}
	o.Selection, _ = operator.ParseSelection("auto", o.Model)
	o.Context, o.Experts, o.Steps = 32768, 32, 1
	o.Batch = 54
	r := priced(t, p, o)
	if got, want := r.Memory.Cache+r.Memory.Index, 54.*32768*788*61; got != want {
		t.Errorf("cache and index have %g B, expected %g", got, want)
	}
	if !r.Fits() {
		t.Errorf("54 requests do not fit: %s", r.Memory.Verdict)
	}
	o.Batch = 96
	if r := priced(t, p, o); r.Fits() {
		t.Errorf("96 requests fit into %g B of %g", r.Memory.GPU, r.Memory.GPUHas)
	}
}

func TestTimelineFile(t *testing.T) {
	p := read(t, realProfile(t))
	var text bytes.Buffer
	o := options(t, p, "dba")
	fatal.If(t, WriteTimeline(t.Context(), &text, p, o))
	var file struct {
		TraceEvents []struct {
			Name, Ph string
			Ts, Dur  float64
		}
	}
	fatal.If(t, json.Unmarshal(text.Bytes(), &file))
	end, fetches := 0., 0
	for _, e := range file.TraceEvents {
		end = max(end, e.Ts+e.Dur)
		if e.Name == "fetch" {
			fetches++
		}
	}
	if r := priced(t, p, o); math.Abs(end-r.P50*1e6) > 1e-6*end || fetches == 0 {
		t.Errorf("the timeline ends at %g us with %d fetches, the median step takes %g s", end, fetches, r.P50)
	}
}

// All written figures are rounded, including any field added later. Processors that fuse
// multiplication and addition differ in the last digits.
func TestFiguresAreRounded(t *testing.T) {
	p := read(t, realProfile(t))
	figures := reflect.ValueOf(*priced(t, p, options(t, p, "layerwise")))
	var check func(name string, v reflect.Value)
	check = func(name string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				check(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case reflect.Float64:
			if x := v.Float(); x != rounded(x) {
				t.Errorf("%s is %v, expected %v", name, x, rounded(x))
			}
		}
	}
	check("result", figures)
}

func TestBadOptions(t *testing.T) {
	p := read(t, realProfile(t))
	for want, change := range map[string]func(*Options){
		"batch 0":                        func(o *Options) { o.Batch = 0 },
		"into 2 parts":                   func(o *Options) { o.Schedule = scheduleOf(t, "tbo") },
		"accept 2":                       func(o *Options) { o.Accept = 2 },
		"accept NaN":                     func(o *Options) { o.Accept = math.NaN() },
		"read-ahead NaN":                 func(o *Options) { o.Ahead.Accuracy = math.NaN() },
		"reserve NaN":                    func(o *Options) { o.Reserve = math.NaN() },
		`path "dma"`:                     func(o *Options) { o.Path = "dma" },
		"reserve 1":                      func(o *Options) { o.Reserve = 1 },
		"steps -1":                       func(o *Options) { o.Steps = -1 },
		"context 1, expected at least K": func(o *Options) { o.Context = 1 },
		"context -1":                     func(o *Options) { o.Context = -1 },
		"positions -1":                   func(o *Options) { o.Positions = -1 },
		"has no routed experts":          func(o *Options) { o.Experts = 2 },
		"threads 4097":                   func(o *Options) { o.Threads = mostThreads + 1 },
		"reads in flight -1":             func(o *Options) { o.Depth = -1 },
		"expert GPUs -1":                 func(o *Options) { o.Experts = -1 },
		"batch 1048577":                  func(o *Options) { o.Batch = MostRequests + 1 },
		"context 1073741825":             func(o *Options) { o.Context = mostContext + 1 },
		"positions 1025":                 func(o *Options) { o.Positions, o.Accept = mostPositions+1, 1 },
		"fragments 1025":                 func(o *Options) { o.Fragments = mostFragments + 1 },
	} {
		o := options(t, p, "da")
		change(&o)
		if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

// K is at most the stated context, or else the model's, with every schedule that selects. Dense
// attention has no K.
func TestLargestK(t *testing.T) {
	p := read(t, realProfile(t))
	for _, c := range []struct {
		schedule      string
		topk, context int64
		fits          bool
	}{
		{"da", 8192, 0, true}, {"da", 8193, 0, false}, {"da", 8193, 8193, true}, {"da", 2048, 2047, false},
		{"gpu", 2048, 2047, false}, {"gpu", 8193, 65536, true}, {"dense", 2048, 2047, true},
	} {
		o := options(t, p, c.schedule)
		o.Steps, o.Context = 1, c.context
		var err error
		if o.Scaling, err = NewScaling(p, o.Model, "nearest", int(c.topk)); err != nil {
			t.Fatal(err)
		}
		if _, err := Price(t.Context(), p, o); c.fits != (err == nil) || err != nil && !strings.Contains(err.Error(), "expected at least K") {
			t.Errorf("%s, K %d, context %d: %v, expected that it fits: %v", c.schedule, c.topk, c.context, err, c.fits)
		}
	}
}

func TestScaling(t *testing.T) {
	p := read(t, realProfile(t))
	_, m := parts(t, "h100", "smollm2-135m")
	for _, topk := range []int{-5, mostContext + 1} {
		if _, err := NewScaling(p, m, "nearest", topk); err == nil || !strings.Contains(err.Error(), "expected 1 to 1073741824") {
			t.Errorf("K %d: %v", topk, err)
		}
	}
	for text, want := range map[string]string{"": "--layer-map", "near": "expected nearest", "0-29=7": "layer 7 is not profiled", "0-28=5": "layer 29 of 30", "0-30=5": "0 to 29", "0-29=5,3=5": "layer 3 of the model is named twice"} {
		if _, err := NewScaling(p, m, text, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
	// K counts entries of the trace's lists, for any block size of the replay.
	chunks := *p
	chunks.Meta.BlockTokens, chunks.Meta.ListTokens = 4, 1
	if s, err := NewScaling(&chunks, m, "nearest", 512); err != nil || s.Factor != 2 {
		t.Errorf("K = 256 in blocks of 4 is scaled to 512 by %v, %v, expected 2", s, err)
	}
	// Lists of blocks state K in blocks.
	lists := *p
	lists.Meta.BlockTokens, lists.Meta.ListTokens, lists.Meta.TopK = 16, 0, 16
	if s, err := NewScaling(&lists, m, "nearest", 512); err != nil || s.Factor != 2 {
		t.Errorf("K = 16 blocks of 16 is scaled to 512 by %v, %v, expected 2", s, err)
	}
	// Four heads that share a cache stand for the model's eight, each with its own entries.
	_, llama := parts(t, "h100", "llama-3-8b")
	shared := *p
	shared.Heads, shared.Meta.SharedHeads, shared.Meta.EntryBytes = 1, 4, nil
	if s, err := NewScaling(&shared, llama, "nearest", 0); err != nil || s.Factor != 2 || s.Heads != 8 || s.EntryBytes != 512 {
		t.Errorf("four heads of eight: %+v, %v", s, err)
	}
	s, err := NewScaling(p, m, "0-9=5,10-29=25", 512)
	fatal.If(t, err)
	if s.LayerOf[9] != 1 || s.LayerOf[10] != 5 || s.Factor != 2 || !strings.Contains(strings.Join(s.Notes, "\n"), "from K = 256 to 512") {
		t.Errorf("scaling %+v", s)
	}
}

func TestChoose(t *testing.T) {
	cells, err := Cells(t.Context(), realProfile(t))
	fatal.If(t, err)
	if c, err := Choose(cells, "lru", ""); err != nil || c != (Cell{"lru", "2x"}) {
		t.Errorf("lru is %v: %v", c, err)
	}
	for _, c := range []struct{ policy, capacity, want string }{{"", "", "2 cells: choose one"}, {"lur", "", "it has: lru @ 2x, lookahead @ 2x"}, {"lru", "3x", "the profile has no cell lru @ 3x"}} {
		if _, err := Choose(cells, c.policy, c.capacity); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s @ %s: %v, expected %q", c.policy, c.capacity, err, c.want)
		}
	}
}

// writeRows writes a profile by hand.
func writeRows(t *testing.T, rows []replay.ProfileRow, meta string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.parquet")
	f, err := os.Create(path)
	fatal.If(t, err)
	defer f.Close()
	w := parquet.NewGenericWriter[replay.ProfileRow](f)
	w.SetKeyValueMetadata("kvreplay.profile", meta)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, w.Close())
	return path
}

// Profiles with holes or negative counts, and other files, are refused.
func TestBadProfiles(t *testing.T) {
	rows := rowsOf(t, realProfile(t))
	write := func(rows []replay.ProfileRow, meta string) string { return writeRows(t, rows, meta) }
	negative := append([]replay.ProfileRow{}, rows...)
	negative[3].Misses = -1
	excess := append([]replay.ProfileRow{}, rows...)
	excess[3].Misses = excess[3].Demand + 1
	for path, want := range map[string]string{
		write(rows[1:], `{"schema":3,"topk":256}`):                     "96 in layer 5",
		write(negative, `{"schema":3,"topk":256}`):                     "row 3: a negative count",
		write(excess, `{"schema":3,"topk":256}`):                       "misses in",
		write(rows, `{"schema":3}`):                                    "expected K of at least 1",
		write(rows, `{"schema":9}`):                                    "schema 9",
		write(rows, `{"schema":3,"topk":256,"labels":["\u001b[2J"]}`):  "are not printable",
		write(rows, `{"schema":3,"topk":256,"oracles":["\u001b[2J"]}`): "are not printable",
		write(rows, `{`):                 "metadata kvreplay.profile",
		filepath.Join(t.TempDir(), "no"): "no such file",
		"price_test.go":                  "profile price_test.go",
	} {
		if _, err := readProfile(t.Context(), path, Cell{"lru", "2x"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	path := realProfile(t)
	p := read(t, path)
	o := options(t, p, "da")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Price(ctx, p, o); !errors.Is(err, context.Canceled) {
		t.Errorf("price: %v", err)
	}
	if _, err := readProfile(ctx, path, p.Cell); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
}

// FuzzReadProfile checks that a broken file gives an error or a profile that can be priced.
func FuzzReadProfile(f *testing.F) {
	text, err := os.ReadFile(realProfile(f))
	fatal.If(f, err)
	f.Add(text)
	f.Add(text[:len(text)/2])
	for _, at := range []int{4, 100, len(text) / 3, len(text) - 200, len(text) - 20} {
		broken := bytes.Clone(text)
		broken[at] ^= 0xff
		f.Add(broken)
	}
	o := options(f, read(f, realProfile(f)), "da")
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "f.parquet")
		fatal.If(t, os.WriteFile(path, text, 0o644))
		p, err := readProfile(t.Context(), path, Cell{"lru", "2x"})
		if err != nil {
			return
		}
		o := o
		if o.Scaling, err = NewScaling(p, o.Model, "nearest", 0); err != nil {
			return
		}
		if r, err := Price(t.Context(), p, o); err == nil && !(r.Mean >= 0) {
			t.Errorf("a step takes %g", r.Mean)
		}
	})
}

// Heads with separate rows are added up. A model with more heads moves proportionally more.
func TestHeads(t *testing.T) {
	var rows []replay.ProfileRow
	capacity, moved := "2x", 0.
	for head := range int32(2) {
		for step := range int32(3) {
			r := replay.ProfileRow{RequestID: "a", Head: &head, Policy: "lru", Capacity: &capacity, Step: step, SeqLen: 1001 + step,
				Demand: 100, Misses: 10*head + step + 1, MissRuns: 1, Resident: 200, Moved: int64(10*head + step + 1), Positions: 1}
			moved += float64(r.Moved) / 3
			rows = append(rows, r)
		}
	}
	p := read(t, writeRows(t, rows, `{"schema":3,"topk":100,"local":4}`))
	o := options(t, read(t, realProfile(t)), "da")
	var err error
	_, o.Model = parts(t, "h100", "llama-3-8b")
	if _, err = NewScaling(p, o.Model, "", 0); err == nil || !strings.Contains(err.Error(), "2 heads per layer, llama-3-8b has 8") {
		t.Errorf("%v, expected that the heads differ", err)
	}
	if o.Scaling, err = NewScaling(p, o.Model, "0-31=0", 0); err != nil {
		t.Fatal(err)
	}
	r := priced(t, p, o)
	const heads, layers, entry = 8, 32, 512
	near(t, "bytes", r.H2D, moved*heads/2*entry*layers)
	near(t, "written back", r.D2H, heads*entry*layers)
	near(t, "cache", r.Memory.Cache, heads*(200+4)*entry*layers)
	if p.Heads != 2 || r.Steps != 3 {
		t.Errorf("%d heads, %d steps", p.Heads, r.Steps)
	}
}

// exactNames returns the schedules that decode with a policy that drops nothing.
func exactNames(t testing.TB) []string {
	return slices.DeleteFunc(schedule.Names(), func(name string) bool { return !Decodes(scheduleOf(t, name), new(Profile)) })
}

// Operators can take no time. No machine's file makes them so.
func TestStepOfNoTime(t *testing.T) {
	p := read(t, realProfile(t))
	o := options(t, p, "gpu")
	o.Override = func(usual operator.Pricer) operator.Pricer { return timeless{usual} }
	if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), "the operators give a step of 0 s") {
		t.Errorf("%v, expected an error about the time", err)
	}
}

// timeless are operators that take no time.
type timeless struct{ operator.Pricer }

func (timeless) Layer(int, *operator.Load) (operator.Times, error) { return operator.Times{}, nil }

func (timeless) Output(float64) (float64, error) { return 0, nil }
