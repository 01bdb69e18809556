package operator

import (
	"math"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline/pipelinetest"
)

// An exchange of a model with 6 experts a token and 2048 numbers of 2 B.
func TestExchangedBytes(t *testing.T) {
	m := pipelinetest.Model(t, "deepseek-v2-lite")
	x := NewExchange(m, nil, 2, 0, false)
	near(t, "BF16 weights", x.dispatch, 6*2048*2)
	near(t, "combine", x.combine, x.dispatch)
	four := *m
	four.NVFP4, four.BytesPerParameter.Value = true, hardware.NVFP4Bytes
	x = NewExchange(&four, nil, 2, 0, false)
	near(t, "NVFP4 weights", x.dispatch, 6*2048*0.5625)
	near(t, "combine of NVFP4 weights", x.combine, 6*2048*2)
}

// The sampler reads the logits of all GPUs, and the kernel model prices the part of the products.
func TestSampledLogits(t *testing.T) {
	machine, m := parts(t, "h100", "llama-2-70b")
	part := *m
	part.Vocabulary.Value /= 8
	output := func(c Config) float64 {
		c.Machine = machine
		s, err := New(c, kernel.Fitted(pipelinetest.Library(t)))
		fatal.If(t, err)
		seconds, err := s.Output(16)
		fatal.If(t, err)
		return seconds
	}
	whole, few := output(Config{Model: m}), output(Config{Model: &part})
	divided := output(Config{Model: &part, Group: &Group{GPUs: 8, Vocabulary: float64(m.Vocabulary.Value)}})
	if !(few < divided && divided < whole) {
		t.Errorf("output takes %g s on one GPU, %g s on 8, %g s with an eighth of the logits", whole, divided, few)
	}
}

// TensorRT-LLM measured its tokens of 32 GPUs, and of 36 with a load balancer. The greatest is 2.56 and 1.115 times
// the mean. The second ones have 288 experts, some of them twice. Source: examples/wide_ep/ep_load_balancer/README.md,
// https://github.com/NVIDIA/TensorRT-LLM.
func TestBusiest(t *testing.T) {
	if have := busiest(engineOf(t, "trtllm-pytorch").Skew, 32, 256); math.Abs(have/2.564-1) > 0.12 {
		t.Errorf("%g, measured 2.564", have)
	}
	if have := busiest(53.976442/1024*math.Sqrt(8), 36, 288); math.Abs(have/1.115-1) > 0.01 {
		t.Errorf("%g with a load balancer, measured 1.115", have)
	}
	near(t, "even experts", busiest(0, 8, 128), 1)
}
