package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// drawClusters puts tokens in clusters of random sizes, and some in none.
func drawClusters(r *rand.Rand, s *trace.Stream) *demand.Clusters {
	page := 1 + r.IntN(4)
	of := make([]int32, r.IntN(s.MaxSeqLen()+5))
	for t := range of {
		of[t] = int32(r.IntN(1+len(of)/3)) - 1
	}
	return demand.NewClusters(map[trace.Key][]int32{s.Key: of}, page)
}

// drawClustered draws a stream whose units are clusters, with one or several positions per step.
func drawClustered(r *rand.Rand, pinned float64) (*trace.Stream, *plan) {
	o := replaytest.Medium(r)
	o.BlockTokens, o.Pinned = 1, pinned
	s, p := draw(r, o)
	if p.warmup.Kind != setting.WarmupRun {
		p.warmup = setting.Warmup{Kind: setting.WarmupCold}
	}
	p.opt.Clusters = drawClusters(r, s)
	p.layout.Clustered, p.layout.Positions = true, 1+r.IntN(3)
	return s, p
}

// The engine and the referee agree on clusters, with every policy that supports them.
func TestClustersAgreeWithReferee(t *testing.T) {
	var b bench
	var total cache.Counts
	for seed := uint64(0); seed < draws(350); seed++ {
		r := rand.New(rand.NewPCG(seed, 94))
		s, p := drawClustered(r, []float64{0, 0.3, 1}[r.IntN(3)])
		if s.Rows == s.Windows {
			continue
		}
		for _, name := range exactNames {
			spec, _ := all.Table().Parse(name)
			if p.whyUnfit(spec, policies.NeedsOf(spec.Make())) != "" {
				continue
			}
			counts := b.run(t, p, s, name, 1+r.IntN(6*p.topk))
			total.Add(&counts)
		}
		if t.Failed() {
			t.Fatalf("seed %d: clusters %v", seed, p.opt.Clusters)
		}
	}
	if total.Overflow < int64(draws(250)) || total.Evictions < int64(draws(2500)) || total.Moved < 2*total.Missed {
		t.Errorf("%+v: the draw no longer covers what it should", total)
	}
}

// Clusters of one token give the same counts as entries, with every policy that supports clusters.
func TestClustersOfOne(t *testing.T) {
	b := bench{alone: true}
	ran := 0
	for _, e := range all.Table() {
		spec, err := all.Table().Parse(strings.TrimSuffix(e.Name+":"+e.Example, ":"))
		fatal.If(t, err)
		if spec.Entry.Traits.Lossy || spec.Entry.Traits.Windowed || setting.Unfit(spec, setting.UseClusters) != "" {
			continue
		}
		ran++
		for seed := uint64(0); seed < draws(100); seed++ {
			r := rand.New(rand.NewPCG(seed, 95))
			s, p := drawClustered(r, 0) // no pinned tokens: lists of clusters leave them out, other lists do not
			if s.Rows == s.Windows || policies.NeedsOf(spec.Make())&policies.NeedScores != 0 && len(s.Scores) == 0 || policies.NeedsOf(spec.Make())&policies.NeedCandidates != 0 && !p.ranks {
				continue
			}
			capacity := 1 + r.IntN(3*p.topk)
			p.layout.Positions, p.opt.Clusters = 1, demand.NewClusters(map[trace.Key][]int32{s.Key: nil}, 1)
			got := b.run(t, p, s, spec.Name(), capacity)
			p.layout.Clustered, p.opt.Clusters = false, nil
			want := b.run(t, p, s, spec.Name(), capacity)
			want.Picked, want.Missed = want.Demand, want.Misses
			if got != want {
				t.Fatalf("%s, seed %d: clusters of one token count %+v, entries %+v", spec.Name(), seed, got, want)
			}
		}
	}
	if ran < 8 {
		t.Errorf("%d policies run on clusters", ran)
	}
}

// demanding is a policy that needs the whole demand but does not use it.
type demanding struct{ policies.Policy }

func (demanding) Needs() policies.Needs { return policies.NeedDemand }

// A policy that needs the whole demand has the same counts as the same policy without this need.
// A cluster larger than the capacity is kept out whole, and later clusters are kept.
func TestClustersOfDemandingPolicy(t *testing.T) {
	b := bench{runners: map[string]*cache.Cell{"lru": cache.NewCell(demanding{specs(t, "lru")[0].Make()})}}
	var total cache.Counts
	for seed := uint64(0); seed < draws(300); seed++ {
		r := rand.New(rand.NewPCG(seed, 98))
		s, p := drawClustered(r, []float64{0, 0.3, 1}[r.IntN(3)])
		if s.Rows == s.Windows {
			continue
		}
		counts := b.run(t, p, s, "lru", 1+r.IntN(5))
		total.Add(&counts)
	}
	if total.Overflow < int64(draws(250)) || total.Overflow > total.Demand*9/10 || total.Evictions < int64(draws(250)) {
		t.Errorf("%+v: the draw no longer covers what it should", total)
	}
}

// clusterFile writes a file of clusters of about three tokens for every stream of a trace.
func clusterFile(t testing.TB, f *trace.File) string {
	t.Helper()
	var text []byte
	r := rand.New(rand.NewPCG(7, 97))
	for _, s := range f.Streams() {
		row := map[string]any{"request_id": s.Request, "layer_id": s.Layer}
		if s.Head != trace.NoHead {
			row["head"] = s.Head
		}
		var clusters []int32
		for range s.PromptLen {
			clusters = append(clusters, int32(r.IntN(int(s.PromptLen)/3)))
		}
		row["token_clusters"] = clusters
		line, err := json.Marshal(row)
		fatal.If(t, err)
		text = append(append(text, line...), '\n')
	}
	path := filepath.Join(t.TempDir(), "clusters.jsonl")
	fatal.If(t, os.WriteFile(path, text, 0o644))
	return path
}

func mustClusters(t testing.TB, text string) *demand.Clusters {
	t.Helper()
	c, err := demand.ParseClusters(text)
	fatal.If(t, err)
	return c
}

// The rows of a run on a file of clusters do not depend on the number of workers. They agree with
// the referee, and they state the file's digest.
func TestRunOfClusters(t *testing.T) {
	f := manyStreams(t)
	o := Options{Policies: specs(t, "lru", "lookahead", "lfu", "window:2"), Capacities: capacities(t, "2x", "0.3ctx"), Per: PerStream, Workers: 1}
	o.Clusters = mustClusters(t, clusterFile(t, f)+",page=4")
	want := mustRun(t, f, o)
	o.Workers = 3
	if got := mustRun(t, f, o); !reflect.DeepEqual(got, want) {
		t.Fatal("three workers give other rows")
	}
	o.Referee = true
	if got := mustRun(t, f, o); !reflect.DeepEqual(got, want) {
		t.Fatal("the referee's run gives other rows")
	}
	for i := range want {
		r := &want[i]
		if !strings.HasPrefix(r.Clusters, "sha256:") || !strings.HasSuffix(r.Clusters, ",page=4") || r.MovedEntries < *r.MissedEntries || r.Misses > 0 && r.MovedEntries < 4*r.Misses/2 {
			t.Fatalf("clusters %q: %d misses, %d entries of them, %d moved", r.Clusters, r.Misses, *r.MissedEntries, r.MovedEntries)
		}
		if r.Capacity != nil && r.ResidentPeak > *r.CapacityEntries {
			t.Fatalf("%d entries resident at a capacity of %d", r.ResidentPeak, *r.CapacityEntries)
		}
	}
}

// A run refuses mechanisms that do not combine with clusters.
func TestClusterErrors(t *testing.T) {
	f := manyStreams(t)
	c := mustClusters(t, clusterFile(t, f))
	lists := mustClusters(t, "lists")
	few := demand.NewClusters(map[trace.Key][]int32{{Request: "a", Layer: 9}: {0}}, 1)
	for want, o := range map[string]Options{
		"--block-tokens":            {Clusters: c, Shape: setting.Shape{BlockTokens: 4}},
		"--share-heads":             {Clusters: c, Shape: setting.Shape{ShareHeads: true}},
		"--clusters and --outliers": {Clusters: c, Outliers: setting.Outliers{Source: setting.OutliersWindows, Count: 3}},
		"--clusters and --warmup":   {Clusters: c, Warmup: setting.Warmup{Kind: setting.WarmupStaging}},
		"show no clusters, those of retroinfer and kvdrive do. Name a file": {Clusters: lists},
		"no clusters of request":           {Clusters: few},
		"optimum for blocks":               {Clusters: c, Policies: specs(t, "opt")},
		"counts blocks of one size":        {Clusters: c, Policies: specs(t, "arc")},
		"chooses among blocks of one size": {Clusters: c, Policies: specs(t, "none")},
	} {
		o.Capacities = capacities(t, "2x")
		if o.Policies == nil {
			o.Policies = specs(t, "lru")
		}
		if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected an error with %q, got %v", want, err)
		}
	}
}

// The steps of a profile add up to the row. Listed entries are those that the row counts.
func TestClusterProfile(t *testing.T) {
	f := manyStreams(t)
	path := filepath.Join(t.TempDir(), "profile.parquet")
	p, err := CreateProfile(path, false)
	fatal.If(t, err)
	o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Clusters: mustClusters(t, clusterFile(t, f)), Per: PerStream, Profile: p}
	rows := mustRun(t, f, o)
	fatal.If(t, p.Close())
	steps, err := parquet.ReadFile[ProfileRow](path)
	fatal.If(t, err)
	var listed, demand, misses, moved, picked, demanded, missed, fetched int64
	for i := range steps {
		listed += steps[i].Listed
		demand += int64(steps[i].Demand)
		misses += int64(steps[i].Misses)
		moved += steps[i].Moved
		if steps[i].MissRuns != steps[i].Misses {
			t.Fatalf("%+v: each cluster is a run", steps[i])
		}
	}
	for i := range rows {
		picked += *rows[i].DemandEntries
		demanded += rows[i].Demand
		missed += rows[i].Misses
		fetched += rows[i].MovedEntries
	}
	if listed != picked || demand != demanded || misses != missed || moved != fetched || listed <= demand {
		t.Errorf("the profile sums to %d entries in %d clusters, %d misses and %d moved entries, the rows to %d, %d, %d and %d",
			listed, demand, misses, moved, picked, demanded, missed, fetched)
	}
	if o.Profile, err = CreateProfile(filepath.Join(t.TempDir(), "profile.parquet"), true); err != nil {
		t.Fatal(err)
	}
	defer o.Profile.Abort()
	if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), "leave out --profile-indices") {
		t.Errorf("indices of clusters: %v", err)
	}
}

// WriteClusters writes the clusters that `--clusters lists` uses. A run on the file of a capture of
// RetroInfer gives the same rows, except for the name of the clusters.
func TestWriteClusters(t *testing.T) {
	f, err := trace.Open("../../datasets/corpus/selectors_qa_text.retroinfer.parquet")
	fatal.If(t, err)
	defer f.Close()
	path := filepath.Join(t.TempDir(), "clusters.jsonl")
	file, err := os.Create(path)
	fatal.If(t, err)
	fatal.If(t, errors.Join(demand.WriteClusters(context.Background(), file, f), file.Close()))
	o := Options{Policies: specs(t, "lru", "window:1"), Capacities: capacities(t, "4x"), Per: PerStream}
	o.Clusters = mustClusters(t, "lists,page=8")
	lists := mustRun(t, f, o)
	o.Clusters = mustClusters(t, path+",page=8")
	given := mustRun(t, f, o)
	tokens, clusters := 0, map[[2]any]bool{}
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	for stream, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var row struct {
			Clusters []int32 `json:"token_clusters"`
		}
		fatal.If(t, json.Unmarshal(line, &row))
		for _, c := range row.Clusters {
			if c >= 0 {
				tokens++
				clusters[[2]any{stream, c}] = true
			}
		}
	}
	if n := float64(tokens) / float64(len(clusters)); n < 4 || n > 64 {
		t.Errorf("%d clusters of %.1f tokens, RetroInfer makes one a 16 tokens", len(clusters), n)
	}
	for i := range given {
		given[i].Clusters = "lists,page=8"
	}
	if !reflect.DeepEqual(given, lists) {
		t.Errorf("rows of a file of clusters: %+v, of the lists: %+v", given, lists)
	}
	if many := manyStreams(t); demand.WriteClusters(context.Background(), io.Discard, many) == nil {
		t.Error("clusters of a trace that ranks tokens")
	}
}
