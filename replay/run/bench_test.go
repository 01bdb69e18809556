package run

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/policies/external"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// The synthetic stream of the speed targets: K = 2048, M = 2560, 90 % overlap, 32K context.
const (
	benchN    = 32 << 10
	benchK    = 2048
	benchM    = 2560
	benchRows = 512
)

// workload is a stream in memory, with K and M.
type workload struct {
	name   string
	stream *trace.Stream
	plan   *plan
}

func synthetic(seed uint64) *trace.Stream {
	return replaytest.Overlapping(seed, benchN, benchK, benchM, benchRows, 0.9)
}

func workloads(b *testing.B) []workload {
	b.Helper()
	meta := &trace.Meta{Version: 1, Order: trace.OrderRank, TopK: benchK, Candidates: benchM, BlockTokens: 1}
	list := []workload{{"synthetic", synthetic(1), testPlan(meta, benchK, benchM, setting.Warmup{Kind: setting.WarmupCold})}}
	f, err := trace.Open(realTrace)
	fatal.If(b, err)
	defer f.Close()
	r := f.NewReader(trace.ReadScores)
	defer r.Close()
	var s trace.Stream
	fatal.If(b, r.Read(3, &s))
	m := *f.Meta()
	return append(list, workload{"real", &s, testPlan(&m, m.TopK, m.Candidates, setting.Warmup{Kind: setting.WarmupRun, Windows: s.Windows})})
}

// realTrace is a bundled trace with ranks and scores.
const realTrace = "../../datasets/bundled/smollm2_multi_news_8k.parquet"

// policies returns the policies to measure. On the synthetic stream, which has no scores, these are
// all exact policies that can run. On the real stream these are a few policies, with score-ewma.
// BenchmarkLossy measures lossy policies.
func (w workload) policies() (list []string) {
	if w.stream.Scores != nil {
		return []string{"echo", "lookahead", "lru", "near-lrfu", "opt", "s3-fifo", "score-ewma"}
	}
	for _, e := range all.Table() {
		name := strings.TrimSuffix(e.Name+":"+e.Example, ":")
		if name != "score-ewma" && !e.Traits.Lossy {
			list = append(list, name)
		}
	}
	return list
}

func (w workload) build(b *testing.B, d *demand.Delta, needs policies.Needs) {
	b.Helper()
	err := d.Build(w.stream, demand.Options{K: w.plan.topk, M: w.plan.m, Pins: w.plan.pins, Meta: w.plan.meta, Windows: w.plan.warmup.Replayed(),
		Members: needs&policies.NeedDemand != 0, NextUses: needs&policies.NeedNext != 0}, nil)
	fatal.If(b, err)
}

// perAccess reports demanded blocks per second.
func perAccess(b *testing.B, accesses int64) {
	b.ReportMetric(float64(accesses)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Maccess/s")
	b.ReportMetric(0, "ns/op")
}

// perRun replays f b.N times and reports the demanded blocks of a cell per second. It returns the
// number of demanded blocks.
func perRun(b *testing.B, f *trace.File, o Options) (demand int64) {
	for range b.N {
		r, err := Run(context.Background(), f, o)
		fatal.If(b, err)
		demand = r.Rows[0].Demand
	}
	perAccess(b, demand)
	return demand
}

func accesses(v demand.View) (n int64) {
	var c demand.Change
	for i := range v.Size().Rows {
		v.Change(i, &c)
		n += int64(c.Demand)
	}
	return n
}

// BenchmarkDelta derives the changes of the demand and checks all rules for lists.
func BenchmarkDelta(b *testing.B) {
	for _, w := range workloads(b) {
		b.Run("trace="+w.name, func(b *testing.B) {
			var d demand.Delta
			w.build(b, &d, 0)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				w.build(b, &d, 0)
			}
			perAccess(b, accesses(&d))
		})
	}
}

// BenchmarkPolicy replays one cell at 2 × K on a finished delta. This is the cost of every further
// cell of a run.
func BenchmarkPolicy(b *testing.B) {
	for _, w := range workloads(b) {
		for _, name := range w.policies() {
			b.Run(fmt.Sprintf("trace=%s/policy=%s", w.name, name), func(b *testing.B) {
				spec, err := all.Table().Parse(name)
				fatal.If(b, err)
				run := cache.NewCell(spec.Make())
				var d demand.Delta
				w.build(b, &d, policies.NeedsOf(run.Policy))
				st := cache.Start{Capacity: 2 * w.plan.topk, Ranks: true}
				if spec.Entry.Traits.Windowed {
					st.Capacity = policies.Unbounded
				}
				if _, err := run.Run(&d, st, nil); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					if _, err := run.Run(&d, st, nil); err != nil {
						b.Fatal(err)
					}
				}
				perAccess(b, accesses(&d))
			})
		}
	}
}

// BenchmarkLRU compares LRU at 2 × K with hashicorp's simplelru. kvreplay reads a Parquet file and
// verifies rules and checksums, simplelru reads from memory. A second file also has the candidates
// behind each demand. LRU does not need them, but kvreplay decodes and checks every index. exec-c and
// exec-numpy are LRU in other programs, with two workers as kvreplay-workers2. The last two hold every
// block that was ever demanded, so no victim is named: exec-nothing has the cost of the protocol alone.
func BenchmarkLRU(b *testing.B) {
	for _, file := range []struct {
		engine string
		m      int
	}{{"kvreplay", benchK}, {fmt.Sprintf("kvreplay-M%d", benchM), benchM}} {
		f := syntheticFile(b, 48, file.m)
		b.Run("engine="+file.engine, func(b *testing.B) {
			o := Options{Policies: specs(b, "lru"), Capacities: capacities(b, "2x")}
			perRun(b, f, o)
		})
		if file.m != benchK {
			continue
		}
		b.Run("engine=kvreplay-workers2", func(b *testing.B) {
			perRun(b, f, Options{Policies: specs(b, "lru"), Capacities: capacities(b, "2x"), Workers: 2})
		})
		inPrograms(b, f)
		b.Run("engine=kvreplay-hold", func(b *testing.B) {
			perRun(b, f, Options{Policies: specs(b, "lru"), Capacities: capacities(b, "1ctx"), Workers: 2})
		})
		b.Run("engine=exec-nothing", func(b *testing.B) {
			if _, err := exec.LookPath("python3"); err != nil {
				b.Skip("python3 not found")
			}
			perRun(b, f, Options{Policies: programs(b, "python3 testdata/nothing.py"), Capacities: capacities(b, "1ctx"), Workers: 2})
		})
	}
	b.Run("engine=simplelru", func(b *testing.B) {
		perPeer(b, func() func(int32) {
			cache, err := simplelru.NewLRU[int32, struct{}](2*benchK, nil)
			fatal.If(b, err)
			return func(x int32) {
				if _, ok := cache.Get(x); !ok {
					cache.Add(x, struct{}{})
				}
			}
		})
	})
	b.Run("engine=golang-lru-2Q", func(b *testing.B) {
		perPeer(b, func() func(int32) {
			cache, err := lru.New2Q[int32, struct{}](2 * benchK)
			fatal.If(b, err)
			return func(x int32) {
				if _, ok := cache.Get(x); !ok {
					cache.Add(x, struct{}{})
				}
			}
		})
	})
	b.Run("engine=Python-OrderedDict", pythonLRU)
}

// BenchmarkLRUShort is BenchmarkLRU on a trace of the corpus, whose steps demand 24 entries each. There the
// cost of a step matters, not that of an access. The board of the corpus has 16 times as many steps.
func BenchmarkLRUShort(b *testing.B) {
	f, err := trace.Open("../../datasets/corpus/deep_vt.parquet")
	fatal.If(b, err)
	defer f.Close()
	b.Run("engine=kvreplay", func(b *testing.B) {
		perRun(b, f, Options{Policies: specs(b, "lru"), Capacities: capacities(b, "2x"), Workers: 2})
	})
	inPrograms(b, f)
}

// inPrograms measures LRU in other programs.
func inPrograms(b *testing.B, f *trace.File) {
	for engine, command := range map[string]func(testing.TB) string{"exec-c": lruInC, "exec-numpy": lruInNumPy} {
		b.Run("engine="+engine, func(b *testing.B) {
			perRun(b, f, Options{Policies: programs(b, command(b)), Capacities: capacities(b, "2x"), Workers: 2})
		})
	}
}

// programs returns the policy of a command. Its fingerprint is computed before the clock starts.
func programs(b *testing.B, command string) []policies.Spec {
	b.Helper()
	spec, err := policies.NewTable(external.Entry).Parse("exec:" + command)
	fatal.If(b, err)
	Fingerprint(spec)
	b.ResetTimer()
	return []policies.Spec{spec}
}

// lruInC compiles LRU over the protocol of package external.
func lruInC(t testing.TB) string {
	program := filepath.Join(t.TempDir(), "lru")
	if out, err := exec.Command("cc", "-O2", "-o", program, "../../policies/external/example/lru.c").CombinedOutput(); err != nil {
		t.Skipf("no C compiler: %v: %s", err, out)
	}
	return program
}

// lruInNumPy is LRU of the Python package.
func lruInNumPy(t testing.TB) string {
	python := tracetest.Python(t, tracetest.PythonPackage("../.."))
	return "env PYTHONPATH=../../scripts/python " + python + " ../../scripts/python/examples/lru.py"
}

// perPeer calls another cache for each access of the synthetic stream, which is in memory.
func perPeer(b *testing.B, fresh func() (access func(int32))) {
	s := synthetic(1)
	var accesses int64
	b.ResetTimer()
	for range b.N {
		access := fresh()
		accesses = 0
		for i := range s.Steps {
			list := s.List(i)[:benchK]
			for _, x := range list {
				access(x)
			}
			accesses += int64(len(list))
		}
	}
	perAccess(b, accesses)
}

// pythonLRU times a simple Python loop over the same accesses.
func pythonLRU(b *testing.B) {
	if _, err := exec.LookPath("python3"); err != nil {
		b.Skip("python3 not found")
	}
	s := synthetic(1)
	var raw []byte
	for i := range s.Steps {
		for _, x := range s.List(i)[:benchK] {
			raw = binary.LittleEndian.AppendUint32(raw, uint32(x))
		}
	}
	path := filepath.Join(b.TempDir(), "accesses.bin")
	fatal.If(b, os.WriteFile(path, raw, 0o644))
	var seconds float64
	for range b.N {
		out, err := exec.Command("python3", "../../scripts/peers/ordereddict.py", path, strconv.Itoa(2*benchK)).Output()
		fatal.If(b, err)
		once, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		fatal.If(b, err)
		seconds += once
	}
	b.ReportMetric(float64(len(raw)/4)*float64(b.N)/seconds/1e6, "Maccess/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDecode reads a file and discards the data. Every run has this cost.
func BenchmarkDecode(b *testing.B) {
	f := syntheticFile(b, 16, benchM)
	b.ResetTimer()
	var indices int64
	for range b.N {
		r := f.NewReader(trace.ReadScores | trace.TrustLists)
		var s trace.Stream
		indices = 0
		for i := range f.Streams() {
			fatal.If(b, r.Read(i, &s))
			indices += int64(len(s.Steps)) * benchK
		}
		r.Close()
	}
	perAccess(b, indices)
}

// BenchmarkCells is a whole run of 56 cells: 14 policies at 4 capacities.
func BenchmarkCells(b *testing.B) {
	f := syntheticFile(b, 4, benchM)
	o := Options{Capacities: capacities(b, "1.25x", "1.5x", "2x", "4x"), Policies: specs(b, "2q", "arc", "clock", "fifo", "lfu", "lfu-decay",
		"lirs", "lookahead", "lrfu", "lru", "opt", "random", "s3-fifo", "sieve")}
	b.ResetTimer()
	demand := perRun(b, f, o)
	b.ReportMetric(float64(demand)*float64(b.N)*56/b.Elapsed().Seconds()/1e6, "Mcellaccess/s")
}

// BenchmarkWorkers compares a run with one worker and with two.
func BenchmarkWorkers(b *testing.B) {
	f := syntheticFile(b, 8, benchM)
	for workers := 1; workers <= 2; workers++ {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			o := Options{Policies: specs(b, "lru", "lookahead", "opt"), Capacities: capacities(b, "1.5x", "2x"), Workers: workers}
			perRun(b, f, o)
		})
	}
}

// syntheticFile writes one synthetic stream per layer, with lists of m entries.
func syntheticFile(b *testing.B, layers, m int) *trace.File {
	b.Helper()
	return windowedFile(b, layers, m, 0)
}

// windowedFile does the same as syntheticFile, but the first rows are prompt windows.
func windowedFile(b *testing.B, layers, m, windows int) *trace.File {
	b.Helper()
	path := filepath.Join(b.TempDir(), "synthetic.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: benchK, Candidates: m, BlockTokens: 1, EntryBytes: 656})
	fatal.If(b, err)
	for layer := range layers {
		s := replaytest.Overlapping(uint64(layer), benchN, benchK, m, benchRows, 0.9)
		s.Layer = int32(layer)
		s.PromptLen += int32(windows)
		for i := range s.Steps {
			s.Steps[i] -= int32(windows)
		}
		fatal.If(b, w.Write(s))
	}
	return reopen(b, w, path)
}

// reopen finishes the trace that w writes at path, and opens it for the test.
func reopen(t testing.TB, w *trace.Writer, path string) *trace.File {
	t.Helper()
	fatal.If(t, w.Close())
	f, err := trace.Open(path)
	fatal.If(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func specs(t testing.TB, names ...string) (list []policies.Spec) {
	t.Helper()
	for _, name := range names {
		spec, err := all.Table().Parse(name)
		fatal.If(t, err)
		list = append(list, spec)
	}
	return list
}

func capacities(t testing.TB, texts ...string) (list []setting.Capacity) {
	t.Helper()
	for _, text := range texts {
		c, err := setting.ParseCapacity(text)
		fatal.If(t, err)
		list = append(list, c)
	}
	return list
}
