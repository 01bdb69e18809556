package importer

import (
	"bytes"
	"encoding/json"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

func TestHalf(t *testing.T) {
	for bits, want := range map[uint16]float32{
		0: 0, 0x0001: 0x1p-24, 0x03ff: 0x1.ff8p-15, 0x0400: 0x1p-14, 0x3555: 0.333251953125, 0x3c00: 1, 0x3c01: 1.0009765625,
		0x7bff: 65504, 0xc000: -2, 0x8001: -0x1p-24, 0x7c00: float32(math.Inf(1)), 0xfc00: float32(math.Inf(-1)),
	} {
		if got := half(bits); got != want {
			t.Errorf("half of %#04x is %v, expected %v", bits, got, want)
		}
	}
	if got := half(0x7c01); got == got {
		t.Errorf("half of 0x7c01 is %v, expected NaN", got)
	}
	for bits := range uint16(0x7c00) {
		if half(bits) >= half(bits+1) || half(bits|0x8000) != -half(bits) {
			t.Fatalf("half of %#04x is %v, of the next %v, of its negative %v", bits, half(bits), half(bits+1), half(bits|0x8000))
		}
	}
}

// Scores that pyarrow wrote as float16, here all subnormal, are read exactly. A column of type null
// counts as absent. The files hold step 0 of the lines, each score divided by 2¹⁶ and rounded.
func TestPyarrowHalves(t *testing.T) {
	type line struct {
		Layer   int32     `json:"layer_id"`
		Step    int32     `json:"step_idx"`
		Indices []int32   `json:"selected_token_pos"`
		Scores  []float64 `json:"scores_topk"`
	}
	want := map[int32]line{}
	for dec := json.NewDecoder(bytes.NewReader(unzip(t, read(t, "testdata/news.jsonl.gz")))); dec.More(); {
		var l line
		fatal.If(t, dec.Decode(&l))
		if l.Step == 0 {
			want[l.Layer] = l
		}
	}
	for _, name := range []string{"pyarrow_half.parquet", "pyarrow_half.arrow"} {
		_, streams := importAll(t, Options{}, filepath.Join("testdata", name))
		if len(streams) != len(want) {
			t.Fatalf("%s: %d streams, expected %d", name, len(streams), len(want))
		}
		for _, s := range streams {
			l := want[s.Layer]
			if s.Head != trace.NoHead || !slices.Equal(s.List(0), l.Indices) {
				t.Fatalf("%s: layer %d head %d: another list", name, s.Layer, s.Head)
			}
			for i, score := range s.ScoreList(0) {
				if expected := math.RoundToEven(l.Scores[i]*0x1p8) * 0x1p-24; float64(score) != expected {
					t.Fatalf("%s: layer %d score %d: %v, expected %v", name, s.Layer, i, score, expected)
				}
			}
		}
	}
}

// Every finite half-precision value is read exactly from every encoding that pyarrow writes.
func TestPythonHalves(t *testing.T) {
	python := tracetest.Python(t, tracetest.Interop("../.."))
	folder := t.TempDir()
	out, err := exec.CommandContext(t.Context(), python, "../../scripts/interop/halves.py", folder).Output()
	fatal.If(t, err)
	var want struct {
		Files   []string    `json:"files"`
		Lists   [][]int32   `json:"lists"`
		Scores  [][]float32 `json:"scores"`
		Covered []float32   `json:"covered"`
	}
	fatal.If(t, json.Unmarshal(out, &want))
	for _, name := range want.Files {
		_, streams := importAll(t, Options{}, filepath.Join(folder, name))
		if len(streams) != 1 || streams[0].Rows != len(want.Lists) || len(want.Lists) != 248 {
			t.Fatalf("%s: %d streams of another shape than %d rows", name, len(streams), len(want.Lists))
		}
		s := streams[0]
		for i, list := range want.Lists {
			if !slices.Equal(s.List(i), list) || !slices.Equal(s.ScoreList(i), want.Scores[i]) || s.CoveredMass[i] != want.Covered[i] {
				t.Fatalf("%s: step %d has other values", name, i)
			}
		}
	}
}
