package kernel

import (
	"bytes"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

var update = flag.Bool("update", false, "rewrite data/parameters.csv")

var library = sync.OnceValue(func() *hardware.Library {
	lib, err := hardware.Load("")
	if err != nil {
		panic(err)
	}
	return lib
})

func published(t testing.TB) []Point {
	t.Helper()
	points, err := Bundled(library())
	fatal.If(t, err)
	return points
}

// The file of parameters has those that a fit to the published measurements finds.
func TestParametersCurrent(t *testing.T) {
	if testing.Short() && !*update {
		t.Skip("fits all measurements")
	}
	points := published(t)
	names, all := []string{shared}, []Parameters{Fit(points, Start())}
	for _, name := range slice.Distinct(points, func(p *Point) string { return p.Measurement.Device }) {
		mine, _ := slice.Partition(points, func(p *Point) bool { return p.Measurement.Device == name })
		names, all = append(names, name), append(all, Fit(mine, all[0]))
	}
	var b bytes.Buffer
	fatal.If(t, writeParameters(&b, names, all))
	if *update {
		fatal.If(t, os.WriteFile("data/parameters.csv", b.Bytes(), 0o644))
		return
	}
	want, err := readParameters(&b)
	fatal.If(t, err)
	have, err := bundledParameters()
	fatal.If(t, err)
	for name := range want {
		for i := range Definitions {
			// other processors may round the steps of the search differently
			if a, b := have[name][i], want[name][i]; math.Abs(a-b) > 0.02*b {
				t.Errorf("%s %s: file %g, fit %g: run go test ./replay/kernel -update", name, Definitions[i].Name, a, b)
			}
		}
	}
}

// ERRORS.md has the errors on left-out parts, and they stay below limits. On devices left out the
// aims are a median of 8 % and a 95th percentile of 20 %. On shapes left out the median's is 4 %.
// README.md says where they fail.
func TestJudge(t *testing.T) {
	if testing.Short() && !*update {
		t.Skip("fits many times")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if all, err := Judge(ended, published(t), true); err != context.Canceled || all != nil {
		t.Errorf("after an interruption: %d errors, %v", len(all), err)
	}
	all, err := Judge(t.Context(), published(t), true)
	fatal.If(t, err)
	limits := map[Split]map[string][2]float64{ // median, 95th percentile
		LeaveDevice: {"products": {0.06, 0.22}, "layer": {0.06, 0.17}, "decode attention": {0.05, 0.33},
			"prefill attention": {0.1, 0.2}},
		LeaveModel: {"products": {0.06, 0.19}, "layer": {0.05, 0.12}, "selection": {0.08, 0.19}, "sparse attention": {0.17, 0.3}},
		LeaveShape: {"products": {0.05, 0.195}, "layer": {0.03, 0.11}, "decode attention": {0.045, 0.26},
			"prefill attention": {0.03, 0.14}, "routed experts": {0.03, 0.12}, "selection": {0.04, 0.11}, "sparse attention": {0.1, 0.65}},
	}
	few := map[string][2]float64{"rtx-a6000": {0.05, 0.32}} // products at 12 numbers of tokens
	seen := 0
	for _, e := range all {
		limit, ok := limits[e.Split][e.Operator]
		if !ok {
			continue
		}
		seen++
		if bound, ok := few[e.Left]; ok && e.Split == LeaveShape {
			limit = bound
		}
		if !(e.Median <= limit[0] && e.P95 <= limit[1]) {
			t.Errorf("%s %s left out, %s: median %.3f, 95th percentile %.3f, expected at most %v", e.Split, e.Left, e.Operator, e.Median, e.P95, limit)
		}
	}
	if seen != 48 {
		t.Errorf("%d lines have limits, expected 48", seen)
	}
	compareErrors(t, all)
}

// compareErrors compares ERRORS.md, or writes it.
func compareErrors(t *testing.T, all []Errors) {
	t.Helper()
	text := "# Errors of the kernel model\n\nThis reference is the table of `kvreplay hardware check --each-operator`. " +
		"It is for users who check the [kernel model](README.md). A test holds it current.\n\n" + ErrorTable(all).Markdown()
	if *update {
		fatal.If(t, os.WriteFile("ERRORS.md", []byte(text), 0o644))
		return
	}
	have, err := os.ReadFile("ERRORS.md")
	fatal.If(t, err)
	if runtime.GOARCH == "amd64" && string(have) != text { // others round differently
		t.Error("ERRORS.md is out of date: run go test ./replay/kernel -update")
	}
}

// A fit recovers the constants of times that the formulas made, on each device alone.
func TestFitRecovers(t *testing.T) {
	points := published(t)
	points, _ = slice.Partition(points, func(p *Point) bool { return p.Kernel.Kind != Product })
	truth := Start()
	truth[rowLaunch], truth[rowRope], truth[decodeLaunch], truth[prefillShare] = 3e-6, 1.1, 1.4e-5, 0.6
	for i := range points {
		q := &points[i]
		q.Seconds = truth.Seconds(q.Device, &q.Kernel)
	}
	p := Fit(points, Start())
	for i := range points {
		q := &points[i]
		if e := p.Seconds(q.Device, &q.Kernel)/q.Seconds - 1; math.Abs(e) > 0.03 {
			t.Fatalf("%s with %d tokens on %s: error %.3f", q.Operator, q.Tokens, q.Measurement.Device, e)
		}
	}
	for _, i := range []int{rowLaunch, rowRope, decodeLaunch, prefillShare} {
		if math.Abs(p[i]/truth[i]-1) > 0.05 {
			t.Errorf("%s: %g, expected %g", Definitions[i].Name, p[i], truth[i])
		}
	}
}

// A product waits for all loads of its sums if a wait is longer than arithmetic and memory. By hand:
// one wave of tiles, 4096 elements of two bytes, split in 8, are 8 loads of 128 bytes.
func TestWaits(t *testing.T) {
	d := &Device{Matrix: 1e22, Bandwidth: 1e18, SMs: 1e6, Clock: 1e9}
	p := Start()
	p[matrixLatency], p[matrixTilesPerSM] = 1000, 1e-9
	k := NewProduct(16, 1024, 4096, 2)
	if have, want := p.Seconds(d, &k), p[matrixLaunch]+8*1000/d.Clock; math.Abs(have/want-1) > 1e-6 {
		t.Errorf("%g s, expected %g", have, want)
	}
}

// On 100 SMs, 4096 × 1280 outputs are 160 tiles of 256 × 128, whose second wave counts in full. Each takes the time of
// matrix_fill more elements. Small tiles share SMs, but need more operands. All time is arithmetic.
func TestWaves(t *testing.T) {
	d := &Device{Matrix: 100 * fullSM, Bandwidth: 1e18, SMs: 100, Clock: 1e18}
	p := Start()
	p[matrixTile], p[matrixFill], p[matrixShare] = 100, 150, 1
	k := NewProduct(1280, 4096, 500, 2) // too short to split
	depth := 256 * 128 / (256. + 128)
	want := p[matrixLaunch] + 2*2*256*128*(500+150)*(depth+100)/depth/fullSM
	if have := p.Seconds(d, &k); math.Abs(have/want-1) > 1e-6 {
		t.Errorf("%g s, expected %g", have, want)
	}
}

// Routed experts with NVFP4 weights do not wait for loads, and add loads and arithmetic. us are measured times of
// TensorRT-LLM's kernels by tokens. The first are experts of DeepSeek-V3 on one of eight B300. The next are those of Qwen3
// 235B on one of two B200 that divide each expert. The last are those of Kimi K2. Eight B200 divide either each expert or
// the list of experts. Sources: FlashInfer, pull request 5301, column TRTLLM NVFP4,
// https://github.com/flashinfer-ai/flashinfer/pull/5301, and aiconfigurator, campaign_checkpoints/b200_sxm/moe_perf.txt,
// commit 77a06bf6, https://github.com/ai-dynamo/aiconfigurator. README.md has the errors.
func TestFP4Experts(t *testing.T) {
	shared, err := Shared()
	fatal.If(t, err)
	var errors, overlapped []float64
	for _, c := range []struct {
		gpu                         string
		experts, all, hidden, width float64
		pairs                       float64 // on this GPU for each token
		us                          map[float64]float64
	}{
		{"b300", 32, 256, 7168, 2048, 1, map[float64]float64{8: 65.1, 16: 75, 32: 106, 64: 140.2, 128: 143.6, 256: 154, 512: 163.7}},
		{"b200", 128, 128, 4096, 768, 8, map[float64]float64{64: 115.7, 128: 135.2, 256: 170.1, 512: 184.6, 1024: 215.2, 2048: 267.5, 4096: 375.7}},
		{"b200", 384, 384, 7168, 256, 8, map[float64]float64{64: 157.6, 128: 183.3, 256: 215.6, 512: 282.9, 768: 360.9, 1024: 311, 1536: 397.9,
			2048: 376.6, 3072: 486.4, 4096: 490.7, 6144: 647.7, 8192: 726.1, 12288: 984.7, 16384: 1240.7}},
		{"b200", 48, 384, 7168, 2048, 1, map[float64]float64{64: 151.7, 128: 164.3, 256: 178.3, 512: 205.5, 768: 209.8, 1024: 471, 1536: 373.4,
			2048: 329.6, 3072: 379.4, 4096: 400.7, 6144: 470.7, 8192: 536.6, 12288: 732.4, 16384: 917}},
	} {
		item, err := library().Item(hardware.KindGPU, c.gpu)
		fatal.If(t, err)
		d := NewDevice(item.(*hardware.GPU))
		for tokens, us := range c.us {
			chosen := c.experts * (1 - math.Pow(1-8/c.all, tokens))
			k := NewExperts(tokens, tokens*c.pairs, chosen, c.hidden, c.width, 3, hardware.NVFP4Bytes)
			k.FP4 = true
			seconds := shared.Seconds(d, &k)
			errors = append(errors, math.Abs(1e6*seconds/us-1))
			weights := k.In * k.Out * k.Bytes / (shared.reached(d) * shared[expertsMemory])
			arithmetic := 2 * k.Pairs * k.Out / (d.peak(&k) * shared[expertsShare])
			seconds += smooth(shared[expertsSharpness], weights, arithmetic) - weights - arithmetic
			overlapped = append(overlapped, math.Abs(1e6*seconds/us-1))
		}
	}
	slices.Sort(errors)
	slices.Sort(overlapped)
	text, err := os.ReadFile("README.md")
	fatal.If(t, err)
	want := fmt.Sprintf("Of %d published times on B200 and B300 the median |error| is %.1f %%, and the worst %.0f %%. If loads overlapped arithmetic, they would be %.1f and %.0f %%.",
		len(errors), 100*slice.Quantile(errors, 0.5), 100*errors[len(errors)-1], 100*slice.Quantile(overlapped, 0.5), 100*overlapped[len(overlapped)-1])
	if !strings.Contains(string(text), want) {
		t.Errorf("README.md lacks %q", want)
	}
}

// By hand: 8 sequences score 4096 tokens with keys of 100 bytes, which takes longer than 64 heads of 128.
// Rows of 4096 scores cost half of the Top-K if index_half is 4096. Fewer tokens than the Top-K have none.
// Attention of 4 sequences to 2048 entries, 128 heads of 544, is 4 · 4 · 2048 · 128 · 544 FLOP.
func TestIndexAndSparse(t *testing.T) {
	d := &Device{Matrix: 1e14, MatrixLow: 1e15, Bandwidth: 1e12}
	p := Start()
	p[indexLaunch], p[indexMemory], p[indexFirst], p[indexRow], p[indexHalf] = 5e-6, 0.5, 10e-6, 1e-6, 4096
	p[sparseLaunch], p[sparseShare], p[sparseRamp], p[sparseHalf] = 30e-6, 0.5, 100e-6, 4*4*2048*128*544
	scored := 8. * 4096
	for _, c := range []struct {
		kernel Kernel
		want   float64
	}{
		{NewIndex(8, 4096, 100, 64, 128, 2048), 5e-6 + scored*100/0.5e12 + 18e-6/2},
		{NewIndex(8, 4096, 100, 64, 128, 8192), 5e-6 + scored*100/0.5e12},
		{NewIndex(8, 4096, 1, 64, 128, 8192), 5e-6 + scored*2*64*128/1e15},
		{NewSparse(4, 2048, 656, 128, 544), 30e-6 + 4*4*2048*128*544/0.5e14 + 50e-6},
	} {
		if have := p.Seconds(d, &c.kernel); math.Abs(have/c.want-1) > 1e-9 {
			t.Errorf("%+v: %g s, expected %g", c.kernel, have, c.want)
		}
	}
}

// README.md states the time of a product.
func TestExample(t *testing.T) {
	item, err := library().Item(hardware.KindGPU, "h100")
	fatal.If(t, err)
	p, err := Shared()
	fatal.If(t, err)
	k := NewProduct(128, 4096, 14336, 2)
	text, err := os.ReadFile("README.md")
	fatal.If(t, err)
	us := strconv.FormatFloat(1e6*p.Seconds(NewDevice(item.(*hardware.GPU)), &k), 'f', 1, 64)
	if !strings.Contains(string(text), "takes "+us+" µs on H100") {
		t.Errorf("down_proj takes %s µs, README.md states another time", us)
	}
}

// More work never takes less time than half of it, and times are finite, on every GPU of the library.
func TestSane(t *testing.T) {
	for _, it := range library().Items(hardware.KindGPU) {
		g := it.(*hardware.GPU)
		e, err := Estimate(g, library())
		fatal.If(t, err)
		for _, k := range []Kernel{NewProduct(1, 4096, 4096, 2), NewProduct(1, 4096, 4096, 1), NewNorm(1, 4096, true), NewActivation(1, 14336), NewRope(1, 5120),
			NewAdd(1, 4096), NewEmbedding(1, 4096), NewSample(1, 128256), NewDecode(1, 4096, 4096), NewPrefill(1, 4096, 4096, 32, 128),
			NewExperts(1, 8, 8, 2048, 768, 3, 2), NewIndex(1, 65536, 132, 64, 128, 2048), NewSparse(1, 2048, 656, 128, 544)} {
			last := 0.
			for tokens := 1.; tokens <= 1<<16; tokens *= 4 {
				k.Tokens = tokens
				s := e.Parameters.Seconds(e.Device, &k)
				serial := k.Kind == Embedding && tokens == 4*serialRows // the first size above the slow kernel
				if !(s > last/2 || serial) || s > 100 {
					t.Errorf("%s, kind %d, %g tokens: %g s after %g s", g.Name, k.Kind, tokens, s, last)
				}
				last = s
			}
		}
	}
}

// Prices of measured products are closer to the measurement than the formulas, on each device and
// whatever software was measured.
func TestCorrection(t *testing.T) {
	for _, mine := range ByDevice(published(t)) {
		item, err := library().Item(hardware.KindGPU, mine[0].Measurement.Device)
		fatal.If(t, err)
		e, err := Estimate(item.(*hardware.GPU), library())
		fatal.If(t, err)
		var corrected, plain []float64
		for i := range mine {
			q := &mine[i]
			if q.Kernel.Kind != Product {
				continue
			}
			k := NewProduct(q.Kernel.Tokens, q.Kernel.Out, q.Kernel.In, q.Kernel.Bytes) // as pricing asks
			corrected = append(corrected, math.Abs(e.Seconds(k)/q.Seconds-1))
			plain = append(plain, math.Abs(e.Parameters.Seconds(e.Device, &k)/q.Seconds-1))
		}
		slices.Sort(corrected)
		slices.Sort(plain)
		if a, b := slice.Quantile(corrected, 0.5), slice.Quantile(plain, 0.5); !(a < 0.9*b) {
			t.Errorf("%s: median error %.3f with neighbours, %.3f without", e.Device.Name, a, b)
		}
	}
}

// The kinds whose correction ignores Software.Vector have formulas that ignore it, and the others do
// not. Judged times are those that pricing asks for, unless the formula depends on the software.
func TestVectorised(t *testing.T) {
	for _, mine := range ByDevice(published(t)) {
		e := Learn(mine[0].Device, Start(), mine[:len(mine)/2])
		differ := map[Kind]bool{}
		for i := range mine {
			k := mine[i].Kernel
			other := k
			other.Software.Vector = 9 - k.Software.Vector // 1 and 8
			if e.Parameters.Seconds(e.Device, &k) != e.Parameters.Seconds(e.Device, &other) {
				differ[k.Kind] = true
			}
			priced := k
			priced.Software = Current
			if !vectorised(k.Kind) && e.judged(k) != e.Seconds(priced) {
				t.Fatalf("%s, %s with %d tokens: judged %g s, priced %g s", e.Device.Name, mine[i].Operator, mine[i].Tokens,
					e.judged(k), e.Seconds(priced))
			}
		}
		for kind := Product; kind <= Decode; kind++ {
			if differ[kind] && !vectorised(kind) {
				t.Errorf("%s: kind %d depends on the software, but its correction does not", e.Device.Name, kind)
			}
			norms := slices.ContainsFunc(mine, func(p Point) bool { return p.Kernel.Kind == kind })
			if kind == Norm && norms && !differ[kind] {
				t.Errorf("%s: norms do not depend on the software", e.Device.Name)
			}
		}
	}
}

// The fastest way is the one that a comparison of all smooth maxima finds, to the last bit.
func TestFastest(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 20000 {
		sharpness := 1 + 9*r.Float64()
		if r.IntN(4) == 0 {
			sharpness = math.Round(sharpness)
		}
		ways := make([]way, 1+r.IntN(32))
		first := 0
		for i := range ways {
			switch before := ways[r.IntN(i+1)]; { // also equal ways and ways that differ a little
			case i > 0 && r.IntN(3) == 0:
				ways[i] = way{before[0], before[1] * (1 + 1e-15*r.Float64()), before[2]}
			default:
				for j := range ways[i] {
					ways[i][j] = 1e-6 * math.Exp(3*r.NormFloat64())
				}
			}
			if r.IntN(i+1) == 0 {
				first = i
			}
		}
		want := math.Inf(1)
		for _, way := range ways {
			want = min(want, smooth(sharpness, way[:]...))
		}
		if got := fastest(sharpness, ways, first); got != want {
			t.Fatalf("seed %d: fastest of %v with sharpness %g is %g, expected %g", seed, ways, sharpness, got, want)
		}
	}
}

func TestBadCSV(t *testing.T) {
	header := strings.Join(Header, ",") + "\n"
	for _, c := range []struct{ text, want string }{
		{"", "f.csv is empty"},
		{"operator\n", "f.csv:1: columns operator, expected"},
		{header + "norm,m\n", "f.csv: record on line 2"},
		{"# comment\nx" + header, "f.csv:2: columns xoperator"},
		{header, "no measurements"},
		{header + "qkv_prj,m,d,s,1,1,0,0,5\n", `f.csv:2: operator "qkv_prj", did you mean qkv_proj`},
		{header + "# note\nnorm,,d,s,1,1,0,0,5\n", "f.csv:3: model is empty"},
		{header + "norm,m,d,s,0,1,0,0,5\n", `tensor_parallel "0", expected a whole number of 1 to`},
		{header + "norm,m,d,s,1,0,0,0,5\n", `tokens "0"`},
		{header + "norm,m,d,s,1,1,0,-1,5\n", `context "-1"`},
		{header + "norm,m,d,s,1,1,0,0,NaN\n", `time_us "NaN"`},
		{header + "norm,m,d,s,1,1,0,0,0\n", `time_us "0"`},
	} {
		if _, err := ReadCSV(strings.NewReader(c.text), "f.csv"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, expected %q", c.text, err, c.want)
		}
	}
}

func TestBadPoints(t *testing.T) {
	for _, c := range []struct{ row, want string }{
		{"norm,llama-3-8b,h1000,s,1,1,0,0,5", "f.csv:2: "},
		{"norm,llama-9,h100,s,1,1,0,0,5", "f.csv:2: "},
		{"norm,deepseek-v3.2,h100,s,1,1,0,0,5", "has latent attention"},
		{"indexer,llama-3-8b,h100,s,1,1,1,4096,5", "has no indexer"},
		{"attention_sparse,deepseek-v3.2,h100,s,1,1,1,0,5", "state the cached tokens"},
		{"up_proj,qwen3-30b-a3b,h100,s,1,1,0,0,5", "has routed experts"},
		{"experts,llama-3-8b,h100,s,1,1,1,0,5", "has no routed experts"},
		{"experts,qwen3-30b-a3b,h100,s,2,1,65,0,5", "state how many of qwen3-30b-a3b's 128 experts"},
		{"norm,llama-3-8b,h100,s,64,1,0,0,5", "exceeds the 32 query heads"},
		{"attention_prefill,llama-3-8b,h100,s,1,64,2,0,5", "the chunk of one sequence"},
		{"attention_decode,llama-3-8b,h100,s,1,1,0,9,5", "state the number of sequences"},
	} {
		all, err := ReadCSV(strings.NewReader(strings.Join(Header, ",")+"\n"+c.row+"\n"), "f.csv")
		fatal.If(t, err)
		if _, err := Points(all, "f.csv", library()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", c.row, err, c.want)
		}
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add(strings.Join(Header, ",") + "\nnorm,llama-3-8b,h100,s,1,1,0,0,5\n")
	f.Add("# a\n" + strings.Join(Header, ",") + "\nattention_decode,llama-3-8b,4090,s,8,1,1,16384,5e3\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ReadCSV(strings.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		points, err := Points(all, "fuzz", library())
		if err != nil {
			return
		}
		p := Start()
		for i := range points {
			if s := p.Seconds(points[i].Device, &points[i].Kernel); !(s > 0) || math.IsInf(s, 0) {
				t.Fatalf("%+v: %g s", points[i].Kernel, s)
			}
		}
	})
}

// writeParameters writes parameters as CSV: one line each, in their units. names are devices.
func writeParameters(w io.Writer, names []string, all []Parameters) error {
	out := csv.NewWriter(w)
	_ = out.Write(parameterHeader) // Flush returns the error
	for i, name := range names {
		for j := range Definitions {
			d := &Definitions[j]
			_ = out.Write([]string{name, d.Name, strconv.FormatFloat(all[i][j]/d.SI, 'g', 5, 64), d.Unit})
		}
	}
	out.Flush()
	return out.Error()
}

// No kernel of FP4 is fitted. DeepGEMM (pull request 348) and vLLM (pull request 20646, without quantisation of
// activations) publish products on B200. Each has tokens, columns, length of the sums, and TFLOP/s.
func TestFP4Products(t *testing.T) {
	b200, err := library().GPU("b200")
	fatal.If(t, err)
	e, err := Estimate(b200, library())
	fatal.If(t, err)
	var errors []float64
	for _, c := range [][4]float64{{128, 2048, 7168, 328}, {128, 24576, 1536, 980}, {512, 2048, 7168, 1178}, {512, 7168, 2048, 1439},
		{1024, 7168, 2048, 2056}, {4096, 4096, 7168, 5332}, {8192, 8192, 8192, 5702}, {16, 6144, 4096, 71.2}, {64, 6144, 4096, 282},
		{128, 6144, 4096, 549.5}, {256, 6144, 4096, 1102}, {512, 6144, 4096, 2188}, {1024, 6144, 4096, 2895}, {2048, 6144, 4096, 3411},
		{4096, 6144, 4096, 3646}, {8192, 6144, 4096, 3779}, {16384, 6144, 4096, 3904}} {
		k := NewProduct(c[0], c[1], c[2], hardware.NVFP4Bytes)
		k.FP4 = true
		measured := 2 * c[0] * c[1] * c[2] / (c[3] * 1e12)
		errors = append(errors, math.Abs(e.Seconds(k)/measured-1))
	}
	slices.Sort(errors)
	if median, worst := slice.Quantile(errors, 0.5), errors[len(errors)-1]; median > 0.2 || worst > 0.4 {
		t.Errorf("products of FP4: the median of |error| is %.1f %% and the worst %.1f %%, and documents state 16 %% and 39 %%", 100*median, 100*worst)
	}
}
