package ellm

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// schedule holds what partial caching, overlap and fusion do to a step.
func (s *study) schedule() (section reproduce.Section, err error) {
	const batch = 60 // fills the GPU
	section = reproduce.Section{Name: "schedule", Covers: []string{"Fig. 3", "Fig. 4", "Fig. 5", "Fig. 8", "Fig. 13"}, Title: "Figures 3 to 5, 8 and 13: partial caching, overlap, fusion",
		Method: fmt.Sprintf("kvreplay time --schedule ellm:choose=idle, the paper's choice of groups, %d requests of %d tokens, Llama2-13B on an A100; the schedule's closed form and its events agree to 1e-9 (replay/pipeline).", batch, length)}
	price := func(text string) (*pipeline.Result, error) { return s.decode(batch, text).Price(s.ctx) }
	var mean []float64
	var cache []float64
	for _, text := range []string{
		"ellm:uncached=0", fmt.Sprintf("ellm:uncached=%g,swap=0,recompute=1", uncached), fmt.Sprintf("ellm:uncached=%g,choose=idle", uncached),
		fmt.Sprintf("ellm:uncached=%g,choose=idle,fused=yes", uncached), "ellm:uncached=0.05,choose=idle", fmt.Sprintf("ellm:uncached=%g,swap=1,recompute=0", uncached),
	} {
		r, err := price(text)
		if err != nil {
			return section, err
		}
		mean, cache = append(mean, 1e3*r.Mean), append(cache, r.Memory.Cache)
	}
	cached, again, overlapped, fusedStep, few := mean[0], mean[1], mean[2], mean[3], mean[4]
	saved := reproduce.Statement("36 % uncached saves 36 % of the KV's GPU memory (section 6.2: over 36 %)", "% less", 100*(1-cache[2]/cache[0]), 1-cache[2]/cache[0] >= uncached)
	flat := reproduce.Statement("a share at which the time per token hardly rises (Fig. 4); ours at 5 %, of that without", "", few/cached, few < 1.1*cached)
	section.Lines = []reproduce.Line{
		saved.Unless("the paper's saving is one less the cached share. Two groups' buffers (M_o) take back a part of it"),
		reproduce.Statement("swapping beside recomputation shortens the step (Fig. 13, without overlap 1.6 instead of 2 to 3 times); step with, of without", "", overlapped/again, overlapped < again),
		reproduce.Statement("fused kernels shorten the step (Fig. 5b: up to 25 %); at most, by ours", "%", 100*(1-fusedStep/overlapped), fusedStep < overlapped),
		flat.Unless("at this batch the step computes longer with the first recomputed tokens. Recomputing 5 % of all tokens exceeds the GPU's idle units"),
		reproduce.Statement("the more is uncached, the longer the step; step at 36 %, of that without", "", overlapped/cached, overlapped > few && few > cached),
	}
	return section, nil
}
