package run

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/fifo"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// mechanismOptions returns options of every mechanism for the trace of manyStreams.
func mechanismOptions(t *testing.T, f *trace.File) map[string]Options {
	exact := Options{Policies: specs(t, "lru", "lookahead", "opt", "window:2"), Capacities: capacities(t, "1x", "2x", "0.2ctx"), Per: PerRequest}
	with := func(change func(*Options)) Options {
		o := exact
		change(&o)
		return o
	}
	few := func(names ...string) func(*Options) { return func(o *Options) { o.Policies = specs(t, names...) } }
	return map[string]Options{
		"cells":    everyCell(t, PerCell, 2),
		"streams":  everyCell(t, PerStream, 2),
		"lossy":    with(few("streamingllm", "score-ewma")),
		"pool":     with(func(o *Options) { o.Pool = setting.PoolRequest }),
		"heads":    with(func(o *Options) { o.Shape.ShareHeads = true }),
		"steps":    with(func(o *Options) { o.Shape.StepTokens = 2 }),
		"blocks":   with(func(o *Options) { o.Shape.BlockTokens = 4 }),
		"outliers": with(func(o *Options) { o.Outliers = setting.Outliers{Source: setting.OutliersWindows, Count: 2} }),
		"prefetch": with(func(o *Options) { o.Policies, o.Prefetch = specs(t, "lru", "opt"), prefetch(t, "candidates:4") }),
		"tiers":    with(func(o *Options) { o.Tiers = tiers(t, "dram=lru@2x", "cxl=lru@2x") }),
		"growth":   with(func(o *Options) { o.Policies, o.Capacities = specs(t, "lru", "opt"), capacities(t, "1x+2x@16") }),
		"clusters": with(func(o *Options) {
			o.Policies, o.Clusters = specs(t, "lru", "window:1"), mustClusters(t, clusterFile(t, f))
		}),
		"allocation": with(func(o *Options) {
			o.Policies, o.Capacities, o.Allocation = specs(t, "lru", "opt"), nil, uniformPlan(t)
		}),
		"reallocation": with(func(o *Options) {
			o.Policies, o.Capacities, o.Allocation, o.Reallocation = specs(t, "lru"), nil, uniformPlan(t), reallocation(t, "4")
		}),
		"importance": with(func(o *Options) {
			o.Policies = specs(t, "lru", "lookahead")
			o.Warmup = setting.Warmup{Kind: setting.WarmupImportance, Windows: 3, Scope: setting.ScopeRequest}
		}),
	}
}

// Chunks that are counted apart, in random order and with interruptions, have the rows of one run.
func TestPartsMakeTheRowsOfOneRun(t *testing.T) {
	f := manyStreams(t)
	for name, o := range mechanismOptions(t, f) {
		t.Run(name, func(t *testing.T) {
			want := mustRun(t, f, o)
			o.chunk = 1 // each cache is a chunk
			for seed := range uint64(3) {
				r := rand.New(rand.NewPCG(seed, 5))
				o.Workers = 1 + r.IntN(3)
				job, err := Plan(f, o)
				fatal.If(t, err)
				chunks := len(job.Chunks())
				all := new(Checkpoint)
				for from := 0; from < chunks; {
					to := from + 1 + r.IntN(chunks-from)
					fatal.If(t, all.Add(throughJSON(t, countWithStops(t, r, job, from, to))))
					from = to
				}
				merged, err := job.Merge(all)
				if err != nil || !reflect.DeepEqual(merged.Rows, want) {
					t.Fatalf("seed %d: other rows (%v)", seed, err)
				}
			}
		})
	}
}

// countWithStops counts chunks. It stops at random moments and continues from the saved counts.
func countWithStops(t *testing.T, r *rand.Rand, job *Job, from, to int) *Checkpoint {
	t.Helper()
	var begun *Checkpoint
	for {
		saves, stopAt := 0, r.IntN(6)
		ctx, stop := context.WithCancel(t.Context())
		c := Counting{From: from, To: to, Begun: begun, Every: time.Nanosecond, Save: func(c *Checkpoint) error {
			if saves++; saves == stopAt {
				begun = throughJSON(t, c)
				stop()
			}
			return nil
		}}
		counts, err := job.Count(ctx, c)
		stop()
		var stopped *Interrupted
		switch {
		case err == nil:
			return counts
		case !errors.As(err, &stopped) || !stopped.Kept:
			t.Fatal(err)
		case r.IntN(2) == 0:
			begun = counts // otherwise it was killed after the save
		}
	}
}

func throughJSON(t *testing.T, c *Checkpoint) *Checkpoint {
	t.Helper()
	text, err := json.Marshal(c)
	fatal.If(t, err)
	back := new(Checkpoint)
	fatal.If(t, json.Unmarshal(text, back))
	return back
}

// Merge refuses counts that lack chunks, have some twice, or are of other policies or cells.
func TestMergeRefuses(t *testing.T) {
	f := manyStreams(t)
	o := Options{Policies: specs(t, "lru", "opt"), Capacities: capacities(t, "2x"), chunk: 1}
	count := func(o Options, from, to int) *Checkpoint {
		job, err := Plan(f, o)
		fatal.If(t, err)
		c, err := job.Count(t.Context(), Counting{From: from, To: to})
		fatal.If(t, err)
		return c
	}
	job, err := Plan(f, o)
	fatal.If(t, err)
	n := len(job.Chunks())
	twice := count(o, 0, n)
	fatal.If(t, twice.Add(count(o, 3, 4)))
	other := o
	other.Policies = specs(t, "lru", "fifo")
	fewer := count(o, 0, n)
	fewer.Cells = fewer.Cells[1:]
	for want, c := range map[string]*Checkpoint{
		"lack 1 of 24 chunks, the first is 23": count(o, 0, n-1),
		"chunk 3 is counted twice":             twice,
		"policies that decide differently":     count(other, 0, n),
		"lack cell 0":                          fewer,
	} {
		if _, err := job.Merge(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	if err := count(o, 0, 1).Add(count(other, 1, 2)); err == nil {
		t.Error("counts of different policies were pooled")
	}
	for _, c := range []Counting{{From: -1, To: 1}, {From: 2, To: 2}, {From: 0, To: n + 1}} {
		if _, err := job.Count(t.Context(), c); err == nil {
			t.Errorf("chunks %d to %d were counted", c.From, c.To)
		}
	}
	again := Plan
	if p, err := again(f, other); err != nil || p.Pass() == job.Pass() {
		t.Errorf("other policies have the same pass (%v)", err)
	}
}

// failing is FIFO that fails in one stream, the first time.
type failing struct {
	fifo.Policy
	resets *int
	at     int
}

func (p *failing) Reset(s *policies.Scope) error {
	if *p.resets++; *p.resets == p.at {
		return errors.New("failed once")
	}
	return p.Policy.Reset(s)
}

// A run that fails within a chunk keeps no counts of it. The next run has the rows of a calm one.
func TestFailedUnitIsNotKept(t *testing.T) {
	f := manyStreams(t)
	calm := mustRun(t, f, Options{Policies: specs(t, "lru", "fifo"), Capacities: capacities(t, "2x"), Per: PerCell})
	for at := range 8 {
		store, err := OpenStore(filepath.Join(t.TempDir(), "store"))
		fatal.If(t, err)
		resets := 0
		o := Options{Policies: specs(t, "lru", "fifo"), Capacities: capacities(t, "2x"), Per: PerCell, Store: store, Checkpoint: time.Nanosecond}
		o.chunk = 2 * 2 * 48 * 32 // a few streams
		o.Policies[1].Make = func() policies.Policy { return &failing{resets: &resets, at: 2 + at} }
		bad, err := Plan(f, o)
		fatal.If(t, err)
		resets = 0
		if _, err := bad.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "failed once") {
			t.Fatalf("the run did not fail: %v", err)
		}
		o.Policies = specs(t, "lru", "fifo")
		kept, _ := filepath.Glob(filepath.Join(store.dir, "partial", "*"))
		job, err := Plan(f, o)
		fatal.If(t, err)
		for _, dir := range kept { // the failing policy has other fingerprints than fifo
			use(t, dir, job)
		}
		if rows, err := job.Run(t.Context()); err != nil || !reflect.DeepEqual(rows.Rows, calm) {
			t.Errorf("failed at reset %d: the next run has other rows (%v)", 2+at, err)
		}
	}
}

// A worker that fails keeps the chunks that it has finished, even if no checkpoint was due.
func TestFailureKeepsFinishedChunks(t *testing.T) {
	f, _ := manyChunks(t)
	resets := -1 << 20 // the policy does not fail while its fingerprint is computed
	o := Options{Policies: specs(t, "fifo"), Capacities: capacities(t, "2x"), Workers: 1, Checkpoint: time.Hour}
	o.Policies[0].Make = func() policies.Policy { return &failing{resets: &resets, at: 3} }
	job, err := Plan(f, o)
	fatal.If(t, err)
	job.Pass()
	resets = 0
	c, err := job.Count(t.Context(), Counting{From: 0, To: 3})
	if err == nil || c == nil || !reflect.DeepEqual(c.Chunks, []int{0, 1}) || c.Tallies[0].Counts.Streams != 2 {
		t.Errorf("Count failed in the third chunk (%v) and returned %+v, expected the first two", err, c)
	}
	o.Store, err = OpenStore(t.TempDir())
	fatal.If(t, err)
	job, err = Plan(f, o)
	fatal.If(t, err)
	resets = 0
	_, err = job.Run(t.Context())
	kept, _ := filepath.Glob(filepath.Join(o.Store.dir, "partial", "*", "*.json"))
	if err == nil || len(kept) != 1 {
		t.Fatalf("Run failed in the third chunk (%v) and kept %v, expected one file", err, kept)
	}
	replayed := 0
	o.Progress = func(int) { replayed++ }
	if mustRun(t, f, o); replayed != 1 {
		t.Errorf("the next run replays %d streams, expected the third", replayed)
	}
}

// use makes the counts in a folder those of the job's policies.
func use(t *testing.T, dir string, job *Job) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		fatal.If(t, err)
		var c Checkpoint
		line, _, _ := strings.Cut(string(text), "\n")
		fatal.If(t, json.Unmarshal([]byte(line), &c))
		c.Policies = job.plan.behaviourDigest()
		fatal.If(t, saveCheckpoint(path, &c))
	}
}
