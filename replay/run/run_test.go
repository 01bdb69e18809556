package run

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// manyStreams returns a trace of three requests with prompts of different lengths, four layers and
// two heads. It has several row groups.
func manyStreams(t *testing.T) *trace.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "many.parquet")
	writeStreams(t, path, 7)
	f, err := trace.Open(path)
	fatal.If(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// writeStreams writes the trace of manyStreams, drawn from a seed.
func writeStreams(t *testing.T, path string, seed uint64) {
	t.Helper()
	sink, local := 2, 3
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 24, Candidates: 32, BlockTokens: 1, EntryBytes: 100, Sink: &sink, Local: &local})
	fatal.If(t, err)
	r := rand.New(rand.NewPCG(seed, 7))
	for i, request := range []string{"a", "b", "c"} {
		for layer := range int32(4) {
			for head := range int32(2) {
				s := replaytest.Stream(r, replaytest.Options{Prompt: 200 + 40*i, Steps: 40, Windows: 8, M: 32, Locality: 0.95, Scores: true, Sink: 2, Local: 3, Pinned: 0.3})
				s.Key = trace.Key{Request: request, Layer: layer, Head: head}
				fatal.If(t, w.Write(s))
			}
		}
	}
	fatal.If(t, w.Close())
}

func everyCell(t *testing.T, per Detail, workers int) Options {
	return Options{Policies: specs(t, "lru", "lookahead", "opt", "window:2", "none"), Capacities: capacities(t, "1x", "2x", "0.2ctx", "30"), Per: per, Workers: workers}
}

func mustRun(t *testing.T, f *trace.File, o Options) []result.Row {
	t.Helper()
	r, err := Run(context.Background(), f, o)
	fatal.If(t, err)
	for i := range r.Rows {
		fatal.If(t, r.Rows[i].Check())
	}
	return r.Rows
}

// Rows do not depend on the number of workers.
func TestRowsAtAnyParallelism(t *testing.T) {
	f := manyStreams(t)
	for _, per := range []Detail{PerCell, PerRequest, PerLayer, PerStream} {
		want := mustRun(t, f, everyCell(t, per, 1))
		for workers := 2; workers <= 5; workers++ {
			if got := mustRun(t, f, everyCell(t, per, workers)); !reflect.DeepEqual(got, want) {
				t.Fatalf("per %s: %d workers give other rows", per, workers)
			}
		}
	}
}

// Several instances of every policy run at the same time. The race detector then finds memory that
// they share. The tests of a policy run one instance at a time.
func TestEveryPolicyInParallel(t *testing.T) {
	f := manyStreams(t)
	var named []string
	lossy := 0 // number of lossy policies. The trace lacks columns that most of them need
	for _, e := range all.Table() {
		named = append(named, strings.TrimSuffix(e.Name+":"+e.Example, ":"))
		if e.Traits.Lossy {
			lossy++
		}
	}
	run := func(workers int) []result.Row {
		return mustRun(t, f, Options{Policies: specs(t, named...), Capacities: capacities(t, "1x", "2x"), Per: PerStream, Workers: workers, SkipUnable: true})
	}
	want := run(1)
	ran := map[string]bool{}
	for _, r := range want {
		ran[r.Policy] = true
	}
	if len(ran) < len(named)-lossy {
		t.Errorf("of %d policies, %d of them lossy, %d ran: %v", len(named), lossy, len(ran), ran)
	}
	if got := run(4); !reflect.DeepEqual(got, want) {
		t.Error("4 workers give other rows")
	}
}

// The counts of requests, layers and streams add up to the counts of the cell.
func TestDetailSumsToTheCell(t *testing.T) {
	f := manyStreams(t)
	whole := map[string]result.Row{}
	name := func(r result.Row) string {
		if r.Capacity == nil {
			return r.Policy
		}
		return r.Policy + " " + *r.Capacity
	}
	for _, r := range mustRun(t, f, everyCell(t, PerCell, 2)) {
		whole[name(r)] = r
	}
	for per, parts := range map[Detail]int{PerRequest: 3, PerLayer: 4, PerStream: 24} {
		rows := mustRun(t, f, everyCell(t, per, 2))
		if len(rows) != parts*len(whole) {
			t.Fatalf("per %s: %d rows for %d cells, expected %d each", per, len(rows), len(whole), parts)
		}
		sums := map[string]result.Row{}
		for _, r := range rows {
			s := sums[name(r)]
			s.Streams, s.Steps, s.Demand, s.Misses = s.Streams+r.Streams, s.Steps+r.Steps, s.Demand+r.Demand, s.Misses+r.Misses
			s.Evictions, s.Births, s.Overflow = s.Evictions+r.Evictions, s.Births+r.Births, s.Overflow+r.Overflow
			sums[name(r)] = s
		}
		for cell, s := range sums {
			w := whole[cell]
			if s.Streams != w.Streams || s.Steps != w.Steps || s.Demand != w.Demand || s.Misses != w.Misses || s.Evictions != w.Evictions || s.Births != w.Births || s.Overflow != w.Overflow {
				t.Errorf("per %s: %s sums to %+v, the cell has %+v", per, cell, s, w)
			}
		}
	}
}

// A selection of layers or requests gives the same rows as a run on all streams has for them.
func TestSelectionsGiveTheSameRows(t *testing.T) {
	f := manyStreams(t)
	o := everyCell(t, PerStream, 2)
	o.Layers, o.Requests = []int32{1, 3}, []string{"b"}
	got := mustRun(t, f, o)
	want := slices.DeleteFunc(mustRun(t, f, everyCell(t, PerStream, 2)), func(r result.Row) bool {
		return *r.RequestID != "b" || *r.LayerID%2 == 0
	})
	for i := range got {
		got[i].Layers, got[i].Requests = "", ""
		if of := result.ParseLabels(want[i].Labels).With(result.LabelOneRequest).String(); got[i].Labels != of {
			t.Errorf("row %d: labels %q, expected %q", i, got[i].Labels, of)
		}
		got[i].Labels = want[i].Labels
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%d rows of the selection differ from the %d of the whole", len(got), len(want))
	}
}

// LRU and OPT run at the peak of every window:N of the run, stream by stream.
func TestPeakCompanions(t *testing.T) {
	f := manyStreams(t)
	byCell := map[string]result.Row{}
	for _, r := range mustRun(t, f, everyCell(t, PerStream, 1)) {
		if *r.RequestID == "a" && *r.LayerID == 2 && *r.Head == 1 {
			capacity := ""
			if r.Capacity != nil {
				capacity = *r.Capacity
			}
			byCell[r.Policy+" "+capacity] = r
		}
	}
	window, lru, opt := byCell["window:2 "], byCell["lru peak:window:2"], byCell["opt peak:window:2"]
	if lru.CapacityEntries == nil || *lru.CapacityEntries != window.ResidentPeak || *opt.CapacityEntries != window.ResidentPeak {
		t.Fatalf("window:2 peaks at %d, LRU was given %v, OPT %v", window.ResidentPeak, lru.CapacityEntries, opt.CapacityEntries)
	}
	if lru.Misses > window.Misses || opt.Misses > lru.Misses {
		t.Errorf("misses of window:2 %d, LRU at its peak %d, OPT %d, expected falling", window.Misses, lru.Misses, opt.Misses)
	}
}

// The steps of a profile add up to the rows of the same run. The bytes of the profile do not depend
// on the number of workers.
func TestProfileSumsToRows(t *testing.T) {
	f := manyStreams(t)
	var first []ProfileRow
	for workers := 1; workers <= 3; workers++ {
		path := filepath.Join(t.TempDir(), "profile.parquet")
		p, err := CreateProfile(path, true)
		fatal.If(t, err)
		o := everyCell(t, PerStream, workers)
		o.Profile = p
		rows := mustRun(t, f, o)
		fatal.If(t, p.Close())
		steps, err := parquet.ReadFile[ProfileRow](path)
		fatal.If(t, err)
		if workers == 1 {
			first = steps
			sumsToRows(t, steps, rows)
		} else if !reflect.DeepEqual(steps, first) {
			t.Fatalf("%d workers give another profile", workers)
		}
	}
}

// If writing a profile fails, Failing is called at once and no file remains. The rows are those of a
// run without a profile, and Close returns the error.
func TestProfileThatFails(t *testing.T) {
	f, dir := manyStreams(t), t.TempDir()
	o := everyCell(t, PerStream, 2)
	want := mustRun(t, f, o)
	p, err := CreateProfile(filepath.Join(dir, "profile.parquet"), false)
	fatal.If(t, err)
	p.writer = parquet.NewGenericWriter[ProfileRow](full{}, parquet.MaxRowsPerRowGroup(16), parquet.WriteBufferSize(0))
	told := 0
	p.Failing = func(err error) {
		if left, _ := os.ReadDir(dir); len(left) > 0 || !strings.Contains(err.Error(), "write profile "+dir) {
			t.Errorf("%v, with %v there", err, left)
		}
		told++
	}
	o.Profile = p
	if rows := mustRun(t, f, o); !reflect.DeepEqual(rows, want) {
		t.Error("the rows are others than without the profile")
	}
	if err := p.Close(); told != 1 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("told %d times, closed with %v", told, err)
	}
}

// full is a disk that is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// The metadata of a profile states the block size, and the pins and outliers that are outside the
// capacity.
func TestProfileMeta(t *testing.T) {
	f := manyStreams(t)
	o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Workers: 1, Outliers: setting.Outliers{Source: setting.OutliersWindows, Count: 3}}
	o.Shape.BlockTokens = 4
	sink, local := 2, 5
	o.Sink, o.Local = &sink, &local
	var err error
	path := filepath.Join(t.TempDir(), "profile.parquet")
	if o.Profile, err = CreateProfile(path, false); err != nil {
		t.Fatal(err)
	}
	rows := mustRun(t, f, o)
	fatal.If(t, o.Profile.Close())
	file, err := os.Open(path)
	fatal.If(t, err)
	defer file.Close()
	info, err := file.Stat()
	fatal.If(t, err)
	profile, err := parquet.OpenFile(file, info.Size())
	fatal.If(t, err)
	text, _ := profile.Lookup("kvreplay.profile")
	var got ProfileMeta
	fatal.If(t, json.Unmarshal([]byte(text), &got))
	r := &rows[0]
	want := ProfileMeta{Schema: ProfileSchema, Setting: r.Setting, ListTokens: 1,
		Labels: result.ParseLabels(r.Labels), Fingerprints: map[string]string{r.Policy: r.PolicyFingerprint}}
	if !reflect.DeepEqual(got, want) || got.Outliers != "windows:3" || got.Sink != 2 || got.Local != 5 || got.BlockTokens != 4 {
		t.Errorf("%+v, expected %+v", got, want)
	}
}

func sumsToRows(t *testing.T, steps []ProfileRow, rows []result.Row) {
	t.Helper()
	type cell struct {
		request          string
		layer, head      int32
		policy, capacity string
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	type sum struct{ steps, demand, misses, births int64 }
	sums := map[cell]sum{}
	for _, s := range steps {
		if int(s.Misses) != len(s.MissedIndices) || !slices.IsSorted(s.MissedIndices) || int(s.MissRuns) != countRuns(s.MissedIndices) {
			t.Fatalf("%+v: misses, runs and indices disagree", s)
		}
		k := cell{s.RequestID, s.LayerID, *s.Head, s.Policy, text(s.Capacity)}
		v := sums[k]
		sums[k] = sum{v.steps + 1, v.demand + int64(s.Demand), v.misses + int64(s.Misses), v.births + int64(s.Births)}
	}
	for _, r := range rows {
		got := sums[cell{*r.RequestID, *r.LayerID, *r.Head, r.Policy, text(r.Capacity)}]
		if want := (sum{r.Steps, r.Demand, r.Misses, r.Births}); got != want {
			t.Errorf("%s %s: the profile sums to %+v, the row says %+v", r.Policy, text(r.Capacity), got, want)
		}
	}
}

// countRuns counts runs of adjacent blocks: a block begins a run if the block before it is absent.
func countRuns(blocks []int32) (n int) {
	for _, x := range blocks {
		if !slices.Contains(blocks, x-1) {
			n++
		}
	}
	return n
}

// A run takes finished cells from the store and replays damaged ones. It never takes cells of another
// engine version or setting.
func TestStoreRecallsOnlyWhatFits(t *testing.T) {
	f := manyStreams(t)
	dir := t.TempDir()
	run := func(change func(*Options)) *Result {
		store, err := OpenStore(dir)
		fatal.If(t, err)
		o := everyCell(t, PerRequest, 2)
		o.Store = store
		change(&o)
		r, err := Run(context.Background(), f, o)
		fatal.If(t, err)
		return r
	}
	first := run(func(*Options) {})
	cells := len(first.Rows) / 3
	if first.FromStore != 0 {
		t.Fatalf("%d cells from an empty folder", first.FromStore)
	}
	if again := run(func(*Options) {}); again.FromStore != cells || !reflect.DeepEqual(again.Rows, first.Rows) {
		t.Fatalf("%d of %d cells from the store, or other rows", again.FromStore, cells)
	}
	if _, err := os.Stat(filepath.Join(dir, "profiles")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder of profiles is there, and none was asked for (%v)", err)
	}
	if more := run(func(o *Options) { o.Policies = append(o.Policies, specs(t, "fifo")...) }); more.FromStore != cells {
		t.Errorf("with one more policy %d of %d cells from the store", more.FromStore, cells)
	}
	for name, change := range map[string]func(*Options){
		"seed": func(o *Options) { o.Seed = 1 }, "top-k": func(o *Options) { o.TopK = 20 }, "per": func(o *Options) { o.Per = PerLayer },
		"layers": func(o *Options) { o.Layers = []int32{0} }, "warm-up": func(o *Options) { o.Warmup = setting.Warmup{Kind: setting.WarmupCold} },
	} {
		if r := run(change); r.FromStore != 0 {
			t.Errorf("another %s: %d cells from the store", name, r.FromStore)
		}
	}
	damageCells(t, dir)
	if healed := run(func(*Options) {}); healed.FromStore != 0 || !reflect.DeepEqual(healed.Rows, first.Rows) {
		t.Errorf("damaged cells: %d from the store, or other rows", healed.FromStore)
	}
}

// Rows without demand warn of it and state the pins.
func TestWarnsOfNoDemand(t *testing.T) {
	f := manyStreams(t)
	many := 100000
	for want, change := range map[string]func(*Options){
		"no demand: all selected blocks are pinned (sink 100000, local 3, blocks of 1 tokens)": func(o *Options) { o.Sink = &many },
		"no demand: all selected blocks are pinned (sink 2, local 100000, blocks of 1 tokens)": func(o *Options) { o.Local = &many },
		"no demand: all selected blocks are pinned (sink 2, local 3, blocks of 100000 tokens)": func(o *Options) { o.Shape.BlockTokens = many },
	} {
		o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x")}
		change(&o)
		if rows := mustRun(t, f, o); rows[0].Demand != 0 || !slices.Contains(rows[0].Warnings, want) {
			t.Errorf("demand %d, warnings %q; want %q", rows[0].Demand, rows[0].Warnings, want)
		}
	}
}

// Run calls the function of BeforeEnd once, before its end, if work remains.
func TestBeforeEnd(t *testing.T) {
	f := manyStreams(t)
	store, err := OpenStore(t.TempDir())
	fatal.If(t, err)
	for _, want := range []int64{1, 0} { // the second time, the store has the cell
		j, err := Plan(f, Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Workers: 3, Store: store, chunk: 1})
		fatal.If(t, err)
		var calls atomic.Int64
		j.BeforeEnd(func() { calls.Add(1); j.Expect() })
		if _, err := j.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if calls.Load() != want {
			t.Errorf("%d calls, expected %d", calls.Load(), want)
		}
		if _, err := j.WriteRows(); err != nil {
			t.Fatal(err)
		}
	}
}
