package trace_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// drift fills s with rows whose lists share most of their blocks with the row before,
// as real ones do: each step replaces a tenth of the list.
func drift(r *rand.Rand, s *trace.Stream, key trace.Key, prompt, rows, m int, scores bool) {
	s.Reset(trace.StreamInfo{Key: key, PromptLen: int32(prompt)})
	list := make([]int32, m)
	in := make([]bool, prompt)
	for i, x := range r.Perm(prompt)[:m] {
		list[i], in[x] = int32(x), true
	}
	row := trace.Row{}
	if scores {
		row.Scores = make([]float32, m)
	}
	for t := range rows {
		for range m / 10 {
			i, x := r.IntN(m), int32(r.IntN(prompt))
			if !in[x] {
				in[list[i]], in[x], list[i] = false, true, x
			}
		}
		for i := range row.Scores {
			row.Scores[i] = 1 / float32(2+i) * (1 + r.Float32()/float32(3+i))
		}
		row.Step, row.Indices = int32(t), list
		s.Append(row)
	}
}

// benchTrace writes streams of one request, in the layout of a layer-shared selection.
func benchTrace(b testing.TB, streams, rows, prompt, m int, scores bool) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "bench.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: m * 4 / 5, BlockTokens: 1})
	fatal.If(b, err)
	r := rand.New(rand.NewPCG(1, 2))
	var s trace.Stream
	for layer := range streams {
		drift(r, &s, trace.Key{Request: "request-0", Layer: int32(layer), Head: trace.NoHead}, prompt, rows, m, scores)
		fatal.If(b, w.Write(&s))
	}
	fatal.If(b, w.Close())
	return path
}

func benchmarkRead(b *testing.B, columns trace.Columns) {
	f, err := trace.Open(benchTrace(b, 8, 256, 32<<10, 1280, true))
	fatal.If(b, err)
	defer f.Close()
	var s trace.Stream
	indices := 0
	for b.Loop() {
		reader := f.NewReader(columns)
		for i := range f.Streams() {
			fatal.If(b, reader.Read(i, &s))
			indices += len(s.Indices)
		}
		reader.Close()
	}
	b.ReportMetric(float64(indices)/b.Elapsed().Seconds()/1e6, "Mindices/s")
}

func BenchmarkRead(b *testing.B)           { benchmarkRead(b, 0) }
func BenchmarkReadTrustLists(b *testing.B) { benchmarkRead(b, trace.TrustLists) }
func BenchmarkReadScores(b *testing.B)     { benchmarkRead(b, trace.ReadScores) }

func BenchmarkWrite(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var s trace.Stream
	drift(r, &s, trace.Key{Request: "r", Head: trace.NoHead}, 32<<10, 256, 1280, true)
	indices := 0
	for b.Loop() {
		w, err := trace.Create(filepath.Join(b.TempDir(), "w.parquet"), trace.Meta{Order: trace.OrderRank, TopK: 1024, BlockTokens: 1})
		fatal.If(b, err)
		for layer := range int32(4) {
			s.Layer = layer
			fatal.If(b, w.Write(&s))
			indices += len(s.Indices)
		}
		fatal.If(b, w.Close())
	}
	b.ReportMetric(float64(indices)/b.Elapsed().Seconds()/1e6, "Mindices/s")
}

func BenchmarkDigest(b *testing.B) {
	var s trace.Stream
	drift(rand.New(rand.NewPCG(1, 2)), &s, trace.Key{Request: "r", Head: trace.NoHead}, 32<<10, 256, 1280, false)
	d := trace.NewDigester()
	for b.Loop() {
		d.Add(&s)
	}
	b.ReportMetric(float64(b.N*len(s.Indices))/b.Elapsed().Seconds()/1e6, "Mindices/s")
}

// BenchmarkOpenDirectory opens a trace of 410,000 rows: 1600 streams of 256 steps.
func BenchmarkOpenDirectory(b *testing.B) {
	path := benchTrace(b, 1600, 256, 64, 4, false)
	for b.Loop() {
		f, err := trace.Open(path)
		fatal.If(b, err)
		f.Close()
	}
}

// BenchmarkReadOneStream opens a file of 61 streams and reads one in the middle.
func BenchmarkReadOneStream(b *testing.B) {
	path := benchTrace(b, 61, 64, 32<<10, 1280, false)
	for b.Loop() {
		readOne(b, path, 30)
	}
}

func readOne(t testing.TB, path string, stream int) (opened, read int64) {
	f, bytes, err := trace.OpenCounting(path)
	fatal.If(t, err)
	defer f.Close()
	opened = bytes.Load()
	reader := f.NewReader(0)
	defer reader.Close()
	var s trace.Stream
	fatal.If(t, reader.Read(stream, &s))
	return opened, bytes.Load() - opened
}

// Reading one stream uses the page index and does not read the others.
func TestOneStreamReadsLittle(t *testing.T) {
	path := benchTrace(t, 61, 64, 32<<10, 1280, false)
	info, err := os.Stat(path)
	fatal.If(t, err)
	f, err := trace.Open(path)
	fatal.If(t, err)
	if f.RowGroups() > 2 {
		t.Fatalf("%d row groups, the test wants many streams in one", f.RowGroups())
	}
	f.Close()
	for _, stream := range []int{0, 30, 60} {
		// A stream is 80 Ki indices in pages of 128 Ki, about 1.7 bytes each, and the
		// library reads ahead 256 KiB.
		if opened, read := readOne(t, path, stream); opened > 300<<10 || read > 1<<20 {
			t.Errorf("stream %d: %d KiB to open and %d KiB to read of %d", stream, opened>>10, read>>10, info.Size()>>10)
		}
	}
}

// Reading allocates by page, not by row or value.
func TestReadAllocatesByPage(t *testing.T) {
	f, err := trace.Open(benchTrace(t, 16, 1000, 300, 20, true))
	fatal.If(t, err)
	defer f.Close()
	reader := f.NewReader(trace.ReadAll)
	defer reader.Close()
	var s trace.Stream
	i := 0
	next := func() {
		fatal.If(t, reader.Read(i%len(f.Streams()), &s))
		i++
	}
	for range f.Streams() {
		next()
	}
	if perStream := testing.AllocsPerRun(64, next); perStream > 100 {
		t.Errorf("%v allocations to read a stream of %d rows and %d indices", perStream, s.Rows, len(s.Indices))
	}
}

// A Writer that is aborted leaves no file.
func TestAbortLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	w, err := trace.Create(filepath.Join(dir, "a.parquet"), testMeta)
	fatal.If(t, err)
	w.Abort()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left %v, error %v", entries, err)
	}
}
