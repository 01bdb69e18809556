package operator

import (
	"math"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline/pipelinetest"
)

// hostMedians are medians of Vidur's cpu_overheads.csv for Llama-2-7B on one A100, in ms: scheduling,
// preparation of inputs, sampler with logits, processing of outputs, and communication.
var hostMedians = map[int][5]float64{
	8:  {0.16513, 0.29317, 0.88781, 0.62438, 0.15646},
	16: {0.27832, 0.43911, 0.94459, 1.13542, 0.21399},
	24: {0.38175, 0.53633, 0.95600, 1.63395, 0.25586},
	32: {0.57984, 0.67099, 1.12637, 2.24566, 0.30507},
	40: {0.61693, 0.79215, 1.07573, 2.65117, 0.34278},
	48: {0.74156, 0.91485, 1.16300, 3.23167, 0.38465},
	56: {0.83946, 1.03977, 1.24732, 3.60745, 0.41489},
	64: {0.95218, 1.16300, 1.37026, 4.10826, 0.45470},
}

// The CPU times of vLLM up to 0.7 are lines through Vidur's medians, less logits and sampling. vLLM 0.6
// processes outputs while the GPU runs.
func TestHostTimes(t *testing.T) {
	machine, m := parts(t, "a100-80", "llama-2-7b")
	priced, err := New(Config{Machine: machine, Model: m}, kernel.Fitted(pipelinetest.Library(t)))
	fatal.If(t, err)
	for name, outputs := range map[string]float64{"vllm-0.5": 1, "vllm-0.6": 0} {
		var n, x, y, xx, xy float64
		for requests, ms := range hostMedians {
			gpu, err := priced.Output(float64(requests))
			fatal.If(t, err)
			seconds := (ms[0]+ms[1]+ms[2]+outputs*ms[3]+ms[4])/1e3 - gpu
			n, x, y = n+1, x+float64(requests), y+seconds
			xx, xy = xx+float64(requests*requests), xy+float64(requests)*seconds
		}
		slope := (n*xy - x*y) / (n*xx - x*x)
		e, err := ParseEngine(name)
		fatal.If(t, err)
		if step := (y - slope*x) / n; math.Abs(step/e.Step-1) > 0.1 || math.Abs(slope/e.Token-1) > 0.02 {
			t.Errorf("%s has %g s and %g s a token, the medians give %g and %g", name, e.Step, e.Token, step, slope)
		}
	}
}

// By hand: layers of Llama have 9 kernels. Those of Qwen3 30B A3B have two norms more, and 8 kernels of experts in
// place of three. DeepSeek-V3 has three layers of 14 and 58 of 23.
func TestLaunches(t *testing.T) {
	for model, want := range map[string]float64{"llama-3.1-8b": 32 * 9, "qwen3-30b-a3b": 48 * 16, "deepseek-v3": deepSeekLaunches} {
		machine, m := parts(t, "b200", model)
		r, sum := NewRoofline(Config{Machine: machine, Model: m}), 0.
		for layer := range int(m.Layers.Value) {
			sum += r.launches(layer)
		}
		near(t, "kernels of "+model, sum, want)
	}
	near(t, "DeepSeek-R1 without graphs", deepSeekLaunches*engineOf(t, "trtllm-pytorch").Eager, 1.22/11.9263)
}

// By hand: with at most 700 requests, the largest graphs are those of 512 and 700. Beyond 8,192 none is captured.
func TestGraph(t *testing.T) {
	e := engineOf(t, "trtllm-pytorch")
	for _, c := range []struct {
		batch, most, tokens int64
		captured            bool
	}{{1, 700, 1, true}, {3, 700, 4, true}, {300, 700, 384, true}, {512, 700, 512, true}, {513, 700, 700, true}, {700, 700, 700, true},
		{513, 4096, 1024, true}, {8193, 9000, 8193, false}} {
		if tokens, captured := e.Graph(c.batch, c.most); tokens != c.tokens || captured != c.captured {
			t.Errorf("%d of at most %d requests: %d tokens, captured %t, expected %d and %t", c.batch, c.most, tokens, captured, c.tokens, c.captured)
		}
	}
}

func engineOf(t *testing.T, name string) *Engine {
	t.Helper()
	e, err := ParseEngine(name)
	fatal.If(t, err)
	return e
}

func TestParseEngine(t *testing.T) {
	if e, err := ParseEngine(DefaultEngine); err != nil || e.Name != "graphs" {
		t.Errorf("%v, %v", e, err)
	}
	if _, err := ParseEngine("graph"); err == nil || !strings.Contains(err.Error(), "did you mean graphs") {
		t.Errorf("%v", err)
	}
}
