package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
)

// drawn returns traces with random chunks.
func drawn(r *rand.Rand) (traces []Trace, chunks [][]int64) {
	for i := range 1 + r.IntN(30) {
		list := make([]int64, 1+r.IntN(1<<r.IntN(9)))
		for u := range list {
			list[u] = r.Int64N(1 << r.IntN(20))
		}
		chunks = append(chunks, list)
		traces = append(traces, Trace{Path: fmt.Sprintf("t%d.parquet", i), Bytes: 1 + r.Int64N(1<<30), Digest: fmt.Sprint(i), Chunks: len(list), Work: sumOf(list)})
	}
	return traces, chunks
}

// The shards have every chunk of every trace once, the largest shard first. None is above the limit,
// unless it is one chunk. They are a few times as many as the work needs, because the last ones are small.
func TestCut(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		traces, chunks := drawn(r)
		most := 1 + r.Int64N(1<<(10+r.IntN(14)))
		shards := cut(traces, chunks, most)
		b := &Batch{Traces: traces, Shards: shards}
		if err := b.check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !slices.IsSortedFunc(shards, func(a, b Shard) int { return int(min(1, max(-1, b.Work-a.Work))) }) {
			t.Errorf("seed %d: not the largest first", seed)
		}
		total, largest := int64(0), int64(0)
		for _, s := range shards {
			work := int64(0)
			for _, p := range s.Parts {
				work += sumOf(chunks[p.Trace][p.From:p.To])
			}
			if work != s.Work || work > most && s.chunks() > 1 {
				t.Errorf("seed %d: a shard of %d chunks has %d work and states %d, the limit is %d", seed, s.chunks(), work, s.Work, most)
			}
			total += work
		}
		for _, list := range chunks {
			largest = max(largest, slices.Max(list))
		}
		if bound := 6 + 4*total/most; largest < most/4 && int64(len(shards)) > bound+int64(len(traces))/4 {
			t.Errorf("seed %d: %d shards, expected at most %d", seed, len(shards), bound)
		}
		if again := cut(traces, chunks, most); !reflect.DeepEqual(again, shards) {
			t.Errorf("seed %d: another cut the second time", seed)
		}
	}
}

// A batch file reads back. A flipped bit anywhere makes it unreadable.
func TestBatchFile(t *testing.T) {
	traces, chunks := drawn(rand.New(rand.NewPCG(1, 2)))
	b := &Batch{Arguments: []string{"--policy", "lru,<opt>"}, Engine: replay.EngineVersion, Traces: traces, Shards: cut(traces, chunks, 1<<16)}
	path := filepath.Join(t.TempDir(), "b.batch")
	fatal.If(t, b.Write(path))
	back, err := Read(path)
	if err != nil || !reflect.DeepEqual(back, b) {
		t.Fatalf("read %+v, %v", back, err)
	}
	text := b.encode()
	for at := 0; at < len(text); at += 1 + len(text)/500 {
		flipped := bytes.Clone(text)
		flipped[at] ^= 1 << (at % 8)
		if _, err := decode(flipped); err == nil {
			t.Errorf("byte %d flipped: no error", at)
		}
	}
}

// A batch file replaces no other file, and no batch that has packs. An equal one may be written again.
func TestWriteReplacesNoOther(t *testing.T) {
	traces, chunks := drawn(rand.New(rand.NewPCG(1, 2)))
	planned := func(most int64) *Batch {
		b := &Batch{Engine: replay.EngineVersion, Traces: traces, Shards: cut(traces, chunks, most)}
		b.encode()
		return b
	}
	dir := t.TempDir()
	first, second := planned(1<<16), planned(1<<14)
	for _, text := range []string{"PAR1", "# Text\n", `{"schema":1,"engine":"x"}`} {
		path := filepath.Join(dir, "other")
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		var refused *files.TargetError
		if err := first.Write(path); !errors.As(err, &refused) || !strings.Contains(err.Error(), "other is no batch file. Choose another name") {
			t.Errorf("over %q: %v", text, err)
		}
		if left, _ := os.ReadFile(path); string(left) != text {
			t.Errorf("%q became %q", text, left)
		}
	}
	path := filepath.Join(dir, "b.batch")
	fatal.If(t, errors.Join(first.Write(path), second.Write(path), first.Write(path))) // no packs yet
	at, err := openPlace(path + ".packs")
	fatal.If(t, err)
	text, err := encodePack(begunName(3), &pack{packHeader{Schema: Schema, Batch: first.digest, Shard: 3, Engine: first.Engine},
		map[int]*replay.Checkpoint{0: {Chunks: []int{first.Shards[3].Parts[0].From}}}})
	fatal.If(t, errors.Join(err, at.put(begunName(3), text)))
	if err := second.Write(path); err == nil || !strings.Contains(err.Error(), "b.batch is another batch, and "+path+".packs has packs of 1 shard. Choose another name, or remove both") {
		t.Errorf("over a batch with packs: %v", err)
	}
	if err := first.Write(path); err != nil {
		t.Errorf("an equal batch: %v", err)
	}
}

// A slow attempt at a shard does not replace the counts of a faster one.
func TestSaveKeepsMoreChunks(t *testing.T) {
	b := &Batch{Engine: replay.EngineVersion, Traces: []Trace{{Path: "a", Chunks: 3}}, Shards: []Shard{{Parts: []Part{{0, 0, 3}}}}}
	b.encode()
	at, err := openPlace(filepath.Join(t.TempDir(), "packs"))
	fatal.If(t, err)
	for _, c := range []struct {
		chunks []int
		want   int
	}{{[]int{0}, 1}, {[]int{0, 2}, 2}, {[]int{1}, 2}, {[]int{0, 1}, 2}} {
		w := b.newAttempt(Attempt{}, at, nil)
		w.pack.counts[0] = &replay.Checkpoint{Chunks: c.chunks}
		fatal.If(t, w.save())
		saved, err := b.readPack(at, begunName(0), 0)
		if fatal.If(t, err); saved.chunks() != c.want {
			t.Errorf("after %v: %d chunks saved, expected %d", c.chunks, saved.chunks(), c.want)
		}
	}
}

// Files that are sealed, but whose shards do not fit the traces, are refused.
func TestBatchFileIsChecked(t *testing.T) {
	traces := []Trace{{Path: "a", Chunks: 4}, {Path: "b", Chunks: 2}}
	part := func(trace, from, to int) Shard { return Shard{Parts: []Part{{trace, from, to}}} }
	for want, shards := range map[string][]Shard{
		"count chunk 2 of a twice or never": {part(0, 0, 2), part(0, 3, 4), part(1, 0, 2)},
		"count chunk 1 of a twice or never": {part(0, 0, 2), part(0, 1, 4), part(1, 0, 2)},
		"count 0 of 2 chunks of b":          {part(0, 0, 4)},
		"count 3 of 2 chunks of b":          {part(0, 0, 4), part(1, 0, 3)},
		"has the part":                      {part(0, 0, 4), part(2, 0, 2)},
	} {
		for i := range shards {
			shards[i].Number = i
		}
		b := &Batch{Traces: traces, Shards: shards}
		if _, err := decode(b.encode()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	traces, chunks := drawn(rand.New(rand.NewPCG(3, 2)))
	b := &Batch{Traces: traces, Shards: cut(traces, chunks, 1<<14)}
	text := b.encode()
	f.Add(bytes.TrimSuffix(text, files.Seal(sealName, text)))
	f.Add([]byte(`{"schema":1,"traces":-1,"shards":9223372036854775807}`))
	f.Add([]byte(`{"schema":1,"traces":1,"shards":9223372036854775807}`)) // the sum overflows
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := decode(append(text, files.Seal(sealName, text)...)) // otherwise the seal refuses all
		if err == nil && b.check() != nil {
			t.Errorf("read a batch with the error %v", b.check())
		}
	})
}

func FuzzDecodePack(f *testing.F) {
	const name = "shard-000000.jsonl.zst"
	p := &pack{packHeader: packHeader{Schema: Schema}, counts: map[int]*replay.Checkpoint{0: {Chunks: []int{0, 1}}}}
	packed, err := encodePack(name, p)
	fatal.If(f, err)
	f.Add(packed, true)
	text, _ := decompressor.DecodeAll(packed, nil)
	f.Add(text[:bytes.LastIndexByte(text[:len(text)-1], '\n')+1], false)
	b := &Batch{Traces: []Trace{{Chunks: 2}}, Shards: []Shard{{Parts: []Part{{0, 0, 2}}}}}
	f.Fuzz(func(t *testing.T, text []byte, whole bool) {
		if !whole {
			text = compressor.EncodeAll(append(text, files.Seal(name, text)...), nil)
		}
		if p, err := decodePack(name, text); err == nil && b.checkParts(p, 0) == nil && p.chunks() > 2 {
			t.Errorf("%d chunks of 2", p.chunks())
		}
	})
}

// Two hosts with different counts of a shard are a defect of one of them. Run keeps both packs, and
// neither is merged.
func TestDifferentCounts(t *testing.T) {
	dir := t.TempDir()
	lru, err := all.Table().Parse("lru")
	fatal.If(t, err)
	capacity, err := replay.ParseCapacity("2x")
	fatal.If(t, err)
	in := Planning{Path: filepath.Join(dir, "b.batch"), Traces: []string{"../../datasets/bundled/smollm2_multi_news_8k.parquet"}, Hours: 1, Rate: 1}
	in.Options.Policies, in.Options.Capacities = append(in.Options.Policies, lru), []replay.Capacity{capacity}
	p, err := Make(context.Background(), in)
	fatal.If(t, err)
	fatal.If(t, p.Write(in.Path))
	packs := filepath.Join(dir, "packs")
	a := Attempt{Packs: packs, Options: in.Options}
	at, err := openPlace(packs)
	fatal.If(t, err)
	w := p.newAttempt(a, at, nil)
	fatal.If(t, w.count(t.Context(), 0))
	if _, err := p.Run(t.Context(), a); err != nil { // another attempt is faster
		t.Fatal(err)
	}
	if err := w.finish(); err != nil {
		t.Errorf("equal counts: %v", err)
	}
	w.pack.counts[0].Tallies[0].Counts.Misses++
	if err := w.finish(); err == nil || !strings.Contains(err.Error(), "computes wrongly") {
		t.Errorf("different counts: %v", err)
	}
	status, err := p.Status(packs)
	if err != nil || len(status.Missing()) != 1 || !strings.Contains(status.Shards[0].Problem, "differs from") {
		t.Errorf("status %+v, %v", status, err)
	}
	wrong := *p.Batch
	wrong.Engine = "0"
	if _, err := wrong.Run(t.Context(), a); err == nil || !strings.Contains(err.Error(), "engine version 0, this program has version") {
		t.Errorf("another engine: %v", err)
	}
	if err := wrong.Merge(t.Context(), Merging{Packs: packs}); err == nil || !strings.Contains(err.Error(), "engine version 0") {
		t.Errorf("another engine: %v", err)
	}
}

// A pod opens objects, and files below the folder of the batch file. Its manifest has a secret for objects.
func TestReaches(t *testing.T) {
	local, remote := Submission{Batch: "/shared/grid.batch"}, Submission{Batch: "s3://bucket/grid.batch"}
	for path, want := range map[string][2]bool{ // of a batch file in a folder, and of one in an object store
		"t.parquet":          {true, true},
		"traces/t.parquet":   {true, true},
		"../t.parquet":       {false, true},
		"/shared/packs":      {true, false},
		"/shared2/packs":     {false, false},
		"/scratch/t.parquet": {false, false},
		"s3://bucket/packs":  {true, true},
	} {
		if got := [2]bool{local.Reaches(path), remote.Reaches(path)}; got != want {
			t.Errorf("%s: %v, expected %v", path, got, want)
		}
	}
	for _, s := range []Submission{local, remote} {
		manifest := s.Kubernetes(1)
		if !strings.Contains(manifest, "secretRef: {name: kvreplay-grid, optional: true}") || strings.Contains(manifest, "mountPath: \"/shared\"") != (s == local) {
			t.Errorf("%s has the manifest\n%s", s.Batch, manifest)
		}
	}
}

func TestArrays(t *testing.T) {
	s := Submission{Batch: "/d/my grid.batch", Packs: "/p", Cores: 4}
	got := s.Slurm([]int{0, 1, 2, 999, 1000, 1001, 3002})
	const rest = " --cpus-per-task=4 --requeue --open-mode=append --signal=B:TERM@60 --wrap "
	for i, want := range []string{"sbatch --array=0-2,999" + rest, "sbatch --array=0-1" + rest, "sbatch --array=2" + rest} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) || strings.Contains(got[i], " --offset "+[]string{"0", "1000", "3000"}[i]) != (i > 0) {
			t.Errorf("line %d of %q, expected %q", i, got, want)
		}
	}
	if got[0] != "sbatch --array=0-2,999"+rest+`'exec kvreplay batch run '\''/d/my grid.batch'\'' --packs /p'` {
		t.Errorf("quoted: %s", got[0])
	}
}

// With equal tasks that lose nothing and read at once, the simulation is exact.
func TestSimulation(t *testing.T) {
	p := &Plan{Batch: &Batch{}, Rate: 1}
	for range 64 {
		p.Shards = append(p.Shards, Shard{Work: 3600e9})
	}
	c := DefaultCluster()
	c.Workers = 1
	one := p.Simulate(c)
	if perfect := one.Ideal + 64*startUp.Hours(); math.Abs(one.Makespan-perfect) > 1e-6*perfect || one.Bottleneck() != "compute" {
		t.Errorf("one task: %+v, expected %g h", one, perfect)
	}
	c.Workers = 128
	if many := p.Simulate(c); many.Efficiency() > 0.7 || many.Bottleneck() == "compute" {
		t.Errorf("more tasks than shards: %+v", many)
	}
	c.Workers, c.Store = 8, 1e4
	p.Traces = []Trace{{Bytes: 64e7}}
	for i := range p.Shards {
		p.Shards[i].Bytes = 1e7
	}
	if slow := p.Simulate(c); slow.Bottleneck() != "reading the traces" {
		t.Errorf("slow storage: %+v", slow)
	}
	c = DefaultCluster()
	c.Workers, c.Lost = 8, 4
	p.Traces = nil
	for i := range p.Shards {
		p.Shards[i].Bytes = 0
	}
	if lossy := p.Simulate(c); lossy.Wasted == 0 || lossy.Makespan < 8 {
		t.Errorf("lost tasks: %+v", lossy)
	}
	for _, bad := range []string{"", "workers", "workers=0", "workers=x", "link=0", "nodes=3", "lost=-1", "lost=NaN"} {
		if _, err := ParseCluster(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	if c, err := ParseCluster("workers=10,link=1GB,store=20GB/s,lost=8"); err != nil || c.Workers != 10 || c.Link != 1e9 || c.Store != 20e9 || c.Lost != 8 {
		t.Errorf("%+v, %v", c, err)
	}
}
