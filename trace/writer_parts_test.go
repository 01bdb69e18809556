package trace_test

import (
	"bytes"
	"errors"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// inParts yields the rows of s in parts of the given sizes, in memory that it reuses.
func inParts(s *trace.Stream, size func() int) iter.Seq2[*trace.Stream, error] {
	return func(yield func(*trace.Stream, error) bool) {
		var part trace.Stream
		for from := 0; from < s.Rows; {
			part.Reset(trace.StreamInfo{Key: s.Key, PromptLen: s.PromptLen})
			for n := size(); n > 0 && from < s.Rows; n-- {
				part.Append(s.Row(from))
				from++
			}
			if !yield(&part, nil) {
				return
			}
		}
	}
}

// A stream written in parts has the digest of the whole. Its bytes are equal if the parts have a
// multiple of RowsPerWrite rows.
func TestWriteParts(t *testing.T) {
	defer trace.SetPageBytes(1 << 12)()
	defer trace.SetRowGroupIndices(1 << 14)()
	for seed := uint64(0); seed < 32; seed++ {
		r := rand.New(rand.NewPCG(seed, 8))
		var streams []*trace.Stream
		for layer := range int32(3) {
			key := trace.Key{Request: "r", Layer: layer, Head: trace.NoHead}
			streams = append(streams, randomStream(r, key, 20+r.IntN(300), -5, 1+r.IntN(200), 1+r.IntN(100), columnsOf(seed)))
		}
		whole := writeTrace(t, testMeta, streams...)
		checkDigest(t, writeParts(t, streams, func() int { return 1 + r.IntN(40) }), whole)
		a, err := os.ReadFile(writeParts(t, streams, func() int { return (1 + r.IntN(2)) * trace.RowsPerWrite }))
		fatal.If(t, err)
		if b, err := os.ReadFile(whole); err != nil || !bytes.Equal(a, b) {
			t.Fatalf("seed %d: parts of so many rows as are written together make another file (%v)", seed, err)
		}
	}
}

// writeParts writes a file of streams in parts.
func writeParts(t *testing.T, streams []*trace.Stream, size func() int) string {
	t.Helper()
	return writeFile(t, func(path string) (*trace.Writer, error) { return trace.Create(path, testMeta) }, func(w *trace.Writer) error {
		for _, s := range streams {
			if err := w.WriteParts(s.StreamInfo, inParts(s, size)); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkDigest checks that two files hold the same trace and that the first has its stored digest.
func checkDigest(t *testing.T, path, other string) {
	t.Helper()
	if _, err := trace.Validate(t.Context(), path, func(e *trace.Error) bool { t.Error(e); return true }); err != nil {
		t.Fatal(err)
	}
	var digests [2]string
	for i, path := range []string{path, other} {
		f, err := trace.Open(path)
		fatal.If(t, err)
		defer f.Close()
		if digests[i], err = f.Digest(); err != nil || digests[i] != f.StoredDigest() {
			t.Fatalf("digest %s of the content, stored %s, %v", digests[i], f.StoredDigest(), err)
		}
	}
	if digests[0] != digests[1] {
		t.Fatalf("digest %s, expected %s", digests[0], digests[1])
	}
}

// Parts that do not make up the stream are refused.
func TestWritePartsRefuses(t *testing.T) {
	info := trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: 2, Rows: 2}
	part := func(info trace.StreamInfo, rows ...trace.Row) *trace.Stream {
		s := &trace.Stream{}
		s.Reset(info)
		for _, row := range rows {
			s.Append(row)
		}
		return s
	}
	first, second := trace.Row{Indices: []int32{1}}, trace.Row{Step: 1, Indices: []int32{1}}
	other := info
	other.Layer = 1
	broken := errors.New("the source is broken")
	for text, c := range map[string]struct {
		parts []*trace.Stream
		err   error
	}{
		"stream has 1 rows, expected 2":     {parts: []*trace.Stream{part(info, first)}},
		"stream has 3 rows, expected 2":     {parts: []*trace.Stream{part(info, first), part(info, second, trace.Row{Step: 2, Indices: []int32{1}})}},
		"stream has 0 rows, expected 2":     {},
		"stream has 2 rows, 0 steps":        {parts: []*trace.Stream{part(info)}},
		`has request "r" layer 1`:           {parts: []*trace.Stream{part(info, first), part(other, second)}},
		"step 0 after step 0":               {parts: []*trace.Stream{part(info, first), part(info, first)}},
		"and 2 prompt masses":               {parts: []*trace.Stream{part(info, first), part(info, trace.Row{Step: 1, Indices: []int32{1}, PromptMass: []float32{1, 1}})}},
		"differ from the first stream":      {parts: []*trace.Stream{part(info, first), part(info, trace.Row{Step: 1, Indices: []int32{1}, Scores: []float32{1}})}},
		"topk_indices[0] = 7, expected 0 ≤": {parts: []*trace.Stream{part(info, first), part(info, trace.Row{Step: 1, Indices: []int32{7}})}},
		broken.Error():                      {parts: []*trace.Stream{part(info, first)}, err: broken},
	} {
		w, err := trace.Create(filepath.Join(t.TempDir(), "w.parquet"), trace.Meta{Order: trace.OrderRank, TopK: 1, BlockTokens: 1})
		fatal.If(t, err)
		err = w.WriteParts(info, func(yield func(*trace.Stream, error) bool) {
			for _, s := range c.parts {
				if !yield(s, nil) {
					return
				}
			}
			if c.err != nil {
				yield(nil, c.err)
			}
		})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, expected %q", err, text)
		}
		if err := w.Close(); err == nil {
			t.Errorf("after %q the file is closed", text)
		}
	}
}
