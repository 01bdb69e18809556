package trace_test

import (
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// randomStream draws a stream that keeps every rule of the format.
func randomStream(r *rand.Rand, key trace.Key, prompt, first, rows, m int, columns trace.Columns) *trace.Stream {
	s := &trace.Stream{}
	s.Reset(trace.StreamInfo{Key: key, PromptLen: int32(prompt)})
	step := int32(first)
	for range rows {
		ctx := prompt + int(step) + 1
		row := trace.Row{Step: step}
		for _, x := range r.Perm(ctx)[:min(m, ctx)] {
			row.Indices = append(row.Indices, int32(x))
		}
		if columns&trace.ReadScores != 0 {
			for range row.Indices {
				row.Scores = append(row.Scores, r.Float32())
			}
			slices.Sort(row.Scores)
			slices.Reverse(row.Scores)
		}
		if columns&trace.ReadMasses != 0 {
			c := r.Float32()
			row.CoveredMass = &c
			for range row.Indices {
				row.AttentionMass = append(row.AttentionMass, r.Float32())
			}
		}
		if columns&trace.ReadPredicted != 0 {
			row.Predicted = []int32{}
			for _, x := range r.Perm(ctx)[:r.IntN(min(ctx, 9))] {
				row.Predicted = append(row.Predicted, int32(x))
			}
		}
		s.Append(row)
		step += 1 + int32(r.IntN(8)/7)
	}
	if columns&trace.ReadPromptMass != 0 {
		for range prompt {
			s.PromptMass = append(s.PromptMass, 3*r.Float32())
		}
	}
	return s
}

func intPtr(v int) *int { return &v }

var testMeta = trace.Meta{Order: trace.OrderRank, TopK: 8, BlockTokens: 1, Sink: intPtr(4), Local: intPtr(2), EntryBytes: 656}

func writeTrace(t testing.TB, meta trace.Meta, streams ...*trace.Stream) string {
	t.Helper()
	return writeFile(t, func(path string) (*trace.Writer, error) { return trace.Create(path, meta) }, func(w *trace.Writer) error {
		for _, s := range streams {
			if err := w.Write(s); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeFile writes a file of its own and returns its path.
func writeFile(t testing.TB, create func(path string) (*trace.Writer, error), write func(*trace.Writer) error) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.parquet")
	w, err := create(path)
	fatal.If(t, err)
	fatal.If(t, write(w))
	fatal.If(t, w.Close())
	return path
}

// columnsOf returns the optional columns of a seed's streams. A few dozen seeds cover every set.
func columnsOf(seed uint64) trace.Columns {
	columns := trace.Columns(seed) & (trace.ReadScores | trace.ReadMasses | trace.ReadPredicted)
	if seed%3 == 0 {
		columns |= trace.ReadPromptMass
	}
	return columns
}

func clone(s *trace.Stream) *trace.Stream {
	c := *s
	c.Steps, c.Offsets, c.Indices = slices.Clone(s.Steps), slices.Clone(s.Offsets), slices.Clone(s.Indices)
	c.Scores, c.CoveredMass, c.AttentionMass = slices.Clone(s.Scores), slices.Clone(s.CoveredMass), slices.Clone(s.AttentionMass)
	c.Predicted, c.PredictedOffsets, c.PromptMass = slices.Clone(s.Predicted), slices.Clone(s.PredictedOffsets), slices.Clone(s.PromptMass)
	return &c
}

// The reader returns the written values, in any order of reading and for every set of columns.
func TestRoundTrip(t *testing.T) {
	for seed := uint64(0); seed < 40; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		columns := columnsOf(seed)
		var streams []*trace.Stream
		for layer := range int32(3) {
			for head := int32(-1); head < 2; head++ {
				streams = append(streams, randomStream(r, trace.Key{Request: "r", Layer: layer, Head: head}, 20+r.IntN(300), -5, 1+r.IntN(60), 1+r.IntN(40), columns))
			}
		}
		path := writeTrace(t, testMeta, streams...)
		f, err := trace.Open(path)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if f.HasScores() != (columns&trace.ReadScores != 0) || f.HasPredicted() != (columns&trace.ReadPredicted != 0) || f.HasPromptMass() != (columns&trace.ReadPromptMass != 0) {
			t.Fatalf("seed %d: scores %v predicted %v, columns %b", seed, f.HasScores(), f.HasPredicted(), columns)
		}
		reader := f.NewReader(trace.ReadAll)
		var got trace.Stream
		order := r.Perm(len(streams))
		if seed%2 == 0 {
			slices.Sort(order)
		}
		for _, i := range order {
			if err := reader.Read(i, &got); err != nil {
				t.Fatalf("seed %d stream %d: %v", seed, i, err)
			}
			want := clone(streams[i])
			want.StreamInfo = got.StreamInfo
			if want.Key != streams[i].Key || want.Rows != streams[i].Rows {
				t.Fatalf("seed %d: directory says %+v, wrote %+v", seed, got.StreamInfo, streams[i].StreamInfo)
			}
			compare(t, seed, clone(&got), want)
		}
		reader.Close()
		if err := f.Verify(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		f.Close()
	}
}

func compare(t *testing.T, seed uint64, got, want *trace.Stream) {
	t.Helper()
	g, w := reflect.ValueOf(got).Elem(), reflect.ValueOf(want).Elem()
	for i := range g.NumField() {
		a, b := g.Field(i), w.Field(i)
		if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
			continue
		}
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			t.Fatalf("seed %d %v: %s differs:\n got %v\nwant %v", seed, got.Key, g.Type().Field(i).Name, a, b)
		}
	}
}

// List ends have 31 bits. A stream with more values is refused anywhere in the file, and a stream
// with exactly the limit is read.
func TestMostValues(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	short := randomStream(r, trace.Key{Request: "a"}, 40, 0, 9, 8, trace.ReadScores)
	long := randomStream(r, trace.Key{Request: "b"}, 40, 0, 10, 8, trace.ReadScores)
	for last, streams := range map[string][]*trace.Stream{"long": {short, long}, "short": {func() *trace.Stream { long := *long; long.Request = "A"; return &long }(), short}} {
		path := writeTrace(t, testMeta, streams...)
		for most, refused := range map[int]bool{72: true, 79: true, 80: false} {
			restore := trace.SetMostValues(most)
			var said string
			_, err := trace.Validate(t.Context(), path, func(e *trace.Error) bool { said += e.Error(); return true })
			restore()
			if err != nil || strings.Contains(said, "of the stream have 80 values, expected at most") != refused || refused == (said == "") {
				t.Errorf("%s last, %d values at most: %q, %v", last, most, said, err)
			}
		}
	}
}
