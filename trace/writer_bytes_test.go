package trace_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// A Writer does not keep a stream's memory after Write returns. The test covers every set of
// columns and many positions of stream, page and row group ends.
func TestWriterKeepsNoMemory(t *testing.T) {
	seeds := uint64(64)
	if testing.Short() {
		seeds = 16
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 5))
		columns := columnsOf(seed)
		pageBytes, groupIndices := 1<<(8+r.IntN(12)), 1<<(8+r.IntN(14))
		defer trace.SetPageBytes(pageBytes)()
		defer trace.SetRowGroupIndices(groupIndices)()
		var streams []*trace.Stream
		for layer := range int32(1 + r.IntN(5)) {
			for head := int32(-1); head < int32(r.IntN(3)); head++ {
				key := trace.Key{Request: fmt.Sprint("request ", seed), Layer: layer, Head: head}
				s := randomStream(r, key, 20+r.IntN(900), -5, 1+r.IntN(150), 1+r.IntN(200), columns)
				if seed/2%2 == 1 {
					s = shorten(r, s)
				}
				if seed%4 == 3 {
					surround(s)
				}
				streams = append(streams, s)
			}
		}
		got, want := fileOf(t, testMeta, streams, true), fileOf(t, testMeta, streams, false)
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d, columns %b, pages of %d bytes, row groups of %d indices: a reused stream gives another file, of %d bytes and not %d",
				seed, columns, pageBytes, groupIndices, len(got), len(want))
		}
	}
}

// Writing the streams of a committed trace again gives its bytes.
func TestWriterRepeatsCorpus(t *testing.T) {
	for _, name := range []string{"wide_questions", "deep_vt", "ahead_repobench_go"} {
		path := filepath.Join("..", "datasets", "corpus", name+".parquet")
		f, err := trace.Open(path)
		fatal.If(t, err)
		defer f.Close()
		reader := f.NewReader(trace.ReadAll)
		var streams []*trace.Stream
		for i := range f.Streams() {
			s := &trace.Stream{}
			fatal.If(t, reader.Read(i, s))
			streams = append(streams, s)
		}
		want, err := os.ReadFile(path)
		fatal.If(t, err)
		if got := fileOf(t, *f.Meta(), streams, true); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes that differ from the committed %d", name, len(got), len(want))
		}
	}
}

// shorten returns s with lists cut to a random length of at least one.
func shorten(r *rand.Rand, s *trace.Stream) *trace.Stream {
	short := &trace.Stream{}
	short.Reset(s.StreamInfo)
	for i := range s.Rows {
		row := s.Row(i)
		n := 1 + r.IntN(len(row.Indices))
		if row.AttentionMass != nil {
			row.AttentionMass = row.AttentionMass[:n]
		}
		if row.Indices = row.Indices[:n]; row.Scores != nil {
			row.Scores = row.Scores[:n]
		}
		short.Append(row)
	}
	short.PromptMass = s.PromptMass
	return short
}

// fileOf writes streams and returns the file. With reuse it copies each stream into the same memory
// first.
func fileOf(t *testing.T, meta trace.Meta, streams []*trace.Stream, reuse bool) []byte {
	t.Helper()
	path := writeFile(t, func(path string) (*trace.Writer, error) { return trace.Create(path, meta) }, func(w *trace.Writer) error {
		var memory trace.Stream
		for _, s := range streams {
			if reuse {
				overwrite(&memory, s)
				s = &memory
			}
			if err := w.Write(s); err != nil {
				return err
			}
		}
		if reuse {
			overwrite(&memory, streams[0])
		}
		return nil
	})
	file, err := os.ReadFile(path)
	fatal.If(t, err)
	return file
}

// overwrite copies src into the memory of dst.
func overwrite(dst, src *trace.Stream) {
	dst.StreamInfo = src.StreamInfo
	dst.Steps, dst.Offsets, dst.Indices = append(dst.Steps[:0], src.Steps...), append(dst.Offsets[:0], src.Offsets...), append(dst.Indices[:0], src.Indices...)
	dst.Scores, dst.CoveredMass, dst.AttentionMass = append(dst.Scores[:0], src.Scores...), append(dst.CoveredMass[:0], src.CoveredMass...), append(dst.AttentionMass[:0], src.AttentionMass...)
	dst.Predicted, dst.PredictedOffsets, dst.PromptMass = append(dst.Predicted[:0], src.Predicted...), append(dst.PredictedOffsets[:0], src.PredictedOffsets...), append(dst.PromptMass[:0], src.PromptMass...)
}

// surround puts an index before the first list and one after the last.
func surround(s *trace.Stream) {
	s.Indices = append(append([]int32{-1}, s.Indices...), -1)
	for _, column := range []*[]float32{&s.Scores, &s.AttentionMass} {
		if len(*column) > 0 {
			*column = append(append([]float32{-1}, *column...), -1)
		}
	}
	for i := range s.Offsets {
		s.Offsets[i]++
	}
}
