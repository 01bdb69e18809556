package operator

import (
	"testing"

	"github.com/kvreplay/kvreplay/replay/pipeline/pipelinetest"
)

// DeepSeek-V3 on 8 GPUs, by hand: each has 16 of 128 heads. Projections of 7168 × (512 + 64 + 1536) to the
// latents are whole.
func TestProjectionsOfLatentAttention(t *testing.T) {
	m := *pipelinetest.Model(t, "deepseek-v3")
	m.QueryHeads.Value /= 8
	first, second, out := projections(&m, false)
	near(t, "before attention", parameters(first), 7168*(512+64+1536))
	near(t, "heads", parameters(second)+parameters(out), 16*128*512+1536*16*(128+64)+16*128*(512+7168))
}
