package synthetic

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// Hand-worked: five times end after 1, 1, 2, 3, 4 steps. One is cut at 3, when it was known to
// exceed 2. Six are at risk of ending at 1, and 2 do: 4/6. Four are at risk at 2: × 3/4. At 3 the
// cut one no longer counts. Two are at risk and one ends: × 1/2.
func TestCurve(t *testing.T) {
	var s survival
	for range fewest { // repeated so often that there are enough
		for _, steps := range []int{1, 1, 2, 3, 4} {
			s.add(steps, false)
		}
		s.add(3, true)
	}
	got, want := s.curve(), []float64{4.0 / 6, 4.0 / 6 * 3 / 4, 4.0 / 6 * 3 / 4 / 2, 0}
	if len(got) != len(want) {
		t.Fatalf("curve %v, expected %v", got, want)
	}
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Errorf("curve %v, expected %v", got, want)
		}
	}
}

// A log-logistic curve gives back its median and shape.
func TestFitLogLogistic(t *testing.T) {
	for _, c := range [][2]float64{{4.5, 0.7}, {0.7, 1.2}, {30, 2}} {
		var curve []float64
		for x := 1; x <= 90; x++ {
			curve = append(curve, 1/(1+math.Pow(float64(x)/c[0], c[1])))
		}
		m, shape, ok := fitLogLogistic(curve)
		if !ok || math.Abs(m/c[0]-1) > 1e-3 || math.Abs(shape/c[1]-1) > 1e-3 {
			t.Errorf("median %v, shape %v, %v, expected %v", m, shape, ok, c)
		}
	}
	if _, _, ok := fitLogLogistic([]float64{0.5, 0.4}); ok {
		t.Error("fitted a curve of two points")
	}
}

// Values of a class that are alike correlate, values of no class in particular do not.
func TestCorrelation(t *testing.T) {
	var same, mixed, few classes
	for i := range 40 {
		for j := range 10 {
			same.add(i, float64(i))
			mixed.add(i, float64(j))
		}
	}
	few.add(0, 1)
	if same.correlation() != 1 || mixed.correlation() > 0 || few.correlation() != 0 {
		t.Errorf("correlations %v, %v, %v, expected 1, none, 0", same.correlation(), mixed.correlation(), few.correlation())
	}
}

// Each dial moves its estimate. Estimates of a trace drawn from dials are near them.
func TestEstimates(t *testing.T) {
	base := Default()
	base.Layers, base.Context, base.Steps, base.TopK, base.Candidates, base.Requests = 1, 8192, 160, 256, 320, 2
	base.Overlap, base.Heat, base.Company = 0.72, 0.3, 0
	for name, c := range map[string]struct{ low, high, tolerance float64 }{
		"overlap":    {0.6, 0.8, 0.02},
		"burst":      {0.1, 0.5, 0.1}, // 0.44 ± 0.02 of 0.5
		"run_shape":  {1, 1.5, 0.2},
		"gap_median": {3, 9, 0.25}, // relative
		"gap_shape":  {0.6, 1, 0.1},
		"heat":       {0.2, 0.6, 0.1},
		"company":    {0, 0.1, 0.06},
		"near":       {0.1, 0.3, 0.1},
		"neighbours": {0.05, 0.25, 0.1},
	} {
		dial, err := FindDial(name)
		fatal.If(t, err)
		var got [2]float64
		for i, v := range []float64{c.low, c.high} {
			d := base
			*dial.At(&d.Locality) = v
			e := measureTwin(&d).estimate(&base.Locality)
			got[i] = *dial.At(&e.Locality)
			near := math.Abs(got[i] - v)
			if name == "gap_median" {
				near /= v
			}
			if near > c.tolerance {
				t.Errorf("%s: estimate %.3f of a trace drawn with %v", name, got[i], v)
			}
		}
		if got[1] < got[0]+0.3*(c.high-c.low) {
			t.Errorf("%s: estimates %.3f and %.3f of %v and %v", name, got[0], got[1], c.low, c.high)
		}
	}
}

func opened(t *testing.T, path string) *trace.File {
	t.Helper()
	f, err := trace.Open(path)
	fatal.If(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// written writes a trace of the dials and opens it.
func written(t *testing.T, d *Dials) *trace.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.parquet")
	fatal.If(t, Write(context.Background(), path, d, Options{}))
	return opened(t, path)
}

// Fitting a synthetic trace finds its extent and its dials again, at any parallelism.
func TestFit(t *testing.T) {
	d := Default()
	d.Layers, d.LayerIDs, d.Heads, d.Context, d.Steps, d.TopK, d.Candidates, d.Requests = 2, []int32{3, 8}, 2, 4096, 96, 128, 160, 2
	d.Scores, d.EntryBytes, d.HeadSpread = 1.3, 656, 0.2
	d.ByLayer = map[string]Values{"overlap": {0.6, 0.8}, "gap_median": {8, 3}}
	f := written(t, &d)
	var first []byte
	for _, workers := range []int{1, 4} {
		got, err := Fit(context.Background(), f, FitOptions{Workers: workers})
		fatal.If(t, err)
		text, err := got.Encode()
		fatal.If(t, err)
		if first == nil {
			first = text
		}
		if !bytes.Equal(text, first) {
			t.Errorf("%d workers fit other dials than one", workers)
		}
		if got.Requests != 2 || got.Layers != 2 || got.LayerIDs[1] != 8 || got.Heads != 2 || got.Context != 4096 || got.Steps != 96 ||
			got.Windows != 32 || got.TopK != 128 || got.Candidates != 160 || got.EntryBytes != 656 || math.Abs(got.Scores-1.3) > 0.01 {
			t.Errorf("extent %s", text)
		}
		for name, near := range map[string]float64{"overlap": 0.06, "heat": 0.2, "run_shape": 0.3, "gap_shape": 0.2, "near": 0.08} {
			dial, _ := FindDial(name)
			for stream := range 4 {
				a, b := d.spread(stream/2, stream%2), got.spread(stream/2, stream%2)
				if want, is := *dial.At(&a), *dial.At(&b); math.Abs(want-is) > near {
					t.Errorf("layer %d, head %d: %s fitted as %.3f, drawn with %.3f", stream/2, stream%2, name, is, want)
				}
			}
		}
	}
}

// Dials at the end of their range stay in it when they are rounded: traces of which all but
// the newest token stays, and of a demand of one.
func TestFitExtremes(t *testing.T) {
	for _, k := range []int{1, 2, 3, 7, 32} {
		d := small()
		d.Requests, d.Layers, d.Heads, d.Steps, d.TopK, d.Candidates, d.Recent = 1, 2, 0, 60, k, k+2, 0
		d.LayerSpread, d.HeadSpread, d.Overlap = 0, 0, 1-1/float64(k)
		if _, err := Fit(context.Background(), written(t, &d), FitOptions{}); err != nil {
			t.Errorf("K = %d: %v", k, err)
		}
	}
}

// Pinned tokens are in no list, and the metadata names them. Fitting finds them, and the share of
// the tokens leaving the local window that are demanded at once.
func TestPins(t *testing.T) {
	d := small()
	d.Sink, d.Local, d.Skipped, d.Steps = 4, 64, 0.6, 100
	f := written(t, &d)
	sink, local, stated := f.Meta().Pins()
	if sink != 4 || local != 64 || !stated {
		t.Errorf("sink %d, local %d, stated %v", sink, local, stated)
	}
	r := f.NewReader(0)
	defer r.Close()
	var s trace.Stream
	for i := range f.Streams() {
		fatal.If(t, r.Read(i, &s))
		for row := range s.Rows {
			for _, x := range s.List(row) {
				if x < 4 || int(x) >= s.SeqLen(row)-64 {
					t.Fatalf("stream %d, row %d names %d of %d tokens", i, row, x, s.SeqLen(row))
				}
			}
		}
	}
	got, err := Fit(context.Background(), f, FitOptions{})
	fatal.If(t, err)
	if got.Sink != 4 || got.Local != 64 || math.Abs(got.Skipped-0.6) > 0.05 {
		t.Errorf("fitted sink %d, local %d, skipped %v", got.Sink, got.Local, got.Skipped)
	}
}

// A trace that cannot be fitted gives an error with the reason.
func TestCannotFit(t *testing.T) {
	d := small()
	d.Steps = 4
	if _, err := Fit(context.Background(), written(t, &d), FitOptions{}); err == nil || !strings.Contains(err.Error(), "streams of 4 steps") {
		t.Errorf("a short trace: %v", err)
	}
	d = small()
	f := written(t, &d)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Fit(ctx, f, FitOptions{}); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("a stopped fit: %v", err)
	}
	path := filepath.Join(t.TempDir(), "blocks.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 2, BlockTokens: 4})
	fatal.If(t, err)
	var s trace.Stream
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: 100})
	s.Append(trace.Row{Indices: []int32{1, 2}})
	fatal.If(t, w.Write(&s))
	fatal.If(t, w.Close())
	g, err := trace.Open(path)
	fatal.If(t, err)
	defer g.Close()
	if _, err := Fit(context.Background(), g, FitOptions{}); err == nil || !strings.Contains(err.Error(), "block_tokens is 4") {
		t.Errorf("a trace of blocks: %v", err)
	}
	if _, err := Fit(context.Background(), whole(t), FitOptions{}); err == nil || !strings.Contains(err.Error(), "M = 8, but the first list has only 7 tokens") {
		t.Errorf("lists of all that is not pinned: %v", err)
	}
}

// whole is a trace that demands all of a prompt of K tokens at every step, and states pins.
func whole(t *testing.T) *trace.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "whole.parquet")
	sink, local := 0, 1
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 8, Candidates: 8, BlockTokens: 1, Sink: &sink, Local: &local})
	fatal.If(t, err)
	var s trace.Stream
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: 8})
	for step := range int32(2 * fewestSteps) {
		s.Append(trace.Row{Step: step, Indices: []int32{7, 6, 5, 4, 3, 2, 1, 0}})
	}
	fatal.If(t, w.Write(&s))
	fatal.If(t, w.Close())
	return opened(t, path)
}

// Equal values do not vary, though their mean is rounded.
func TestVariation(t *testing.T) {
	for n := range 200 {
		if v := variation(slices.Repeat([]float64{float64(n%7 + 1)}, n)); v != 0 {
			t.Errorf("%d equal values vary by %v", n, v)
		}
	}
	if v := variation([]float64{1, 3}); math.Abs(v-math.Sqrt2/2) > 1e-12 {
		t.Errorf("1 and 3 vary by %v", v)
	}
}

// Dials are rounded to four digits.
func TestRound(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, 1: 1, 0.123456: 0.1235, 12345.6: 12350, 99999: 100000, 0.000123456: 0.0001235, -1.00006: -1} {
		if got := round(v); got != want {
			t.Errorf("round(%v) = %v, expected %v", v, got, want)
		}
	}
}
