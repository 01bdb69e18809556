package hardware

import (
	"math"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

func TestGPUBytes(t *testing.T) {
	m, err := load(t, "").Model("deepseek-v3.2")
	fatal.If(t, err)
	// Of 671.9 B weights, 2 × 129280 × 7168 are those of embeddings and logits, in BF16. Routers have 0.1 B.
	if all := m.GPUBytes(1); math.Abs(all/674.0e9-1) > 5e-4 {
		t.Errorf("weights of %g B, expected 674 GB", all)
	}
	if m.GPUBytes(32) >= m.GPUBytes(16) {
		t.Error("more GPUs do not make a GPU's weights less")
	}
}
