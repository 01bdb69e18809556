package ellm

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// serving lists what was measured under load: nothing of it follows from what is printed.
func (s *study) serving() (section reproduce.Section, err error) {
	const load = "measured under load against other systems; the points behind it are not printed, and no model of the paper gives it"
	section = reproduce.Section{Name: "serving", Covers: []string{"Fig. 10", "Fig. 12", "Fig. 13"}, Title: "Sections 6.2 to 6.6: serving under load",
		Method: "None. The figures are listed because an agreement could be assumed otherwise. The list at the end of this paper has the others."}
	for _, c := range []struct {
		item    string
		printed float64
	}{
		{"throughput of Llama2-13B over vLLM-Recompute, ShareGPT", 2.64}, {"over vLLM-Swap", 2.61}, {"over HCache", 1.91},
		{"throughput over vLLM-Swap, L-Eval", 3.03}, {"TTFT of Llama2-13B under vLLM-Recompute, ShareGPT", 2.63},
		{"throughput without overlap, Llama2-13B", 1.67}, {"throughput without fusion, over vLLM-Recompute", 1.85},
	} {
		section.Lines = append(section.Lines, reproduce.Absent(c.item, "×", reproduce.Printed(c.printed), load))
	}
	section.Lines = append(section.Lines,
		reproduce.Absent("SLO attainment, Llama2-13B, ShareGPT", "%", reproduce.Printed(97.3), load), reproduce.Absent("mean time per token, Llama2-13B", "ms", reproduce.Printed(48.39), load),
		reproduce.Absent("MAPE of the latency model on a V100", "", reproduce.Printed(0.13), "the measured latencies are not printed"))
	ratio := func(running, tpot, of, ofTPOT float64) float64 { return running / tpot / (of / ofTPOT) }
	section.Contradictions = []string{
		fmt.Sprintf("Llama2-70B: running requests ÷ time per token give eLLM %.2f times vLLM-Recompute, %.2f times vLLM-Swap and %.2f times HCache; printed are 2.0, 2.0 and 1.6.", ratio(254.64, 501.74, 223.16, 680.82), ratio(254.64, 501.74, 220.94, 667.01), ratio(254.64, 501.74, 240.71, 522.2)),
		"Llama2-70B's mean time per token, 501.74 ms, is above the SLO of 500 ms that 98.6 % are said to meet.",
		fmt.Sprintf("A prefill of L-Eval's 35,956 tokens takes %.2f PFLOP, %.1f s of an A100's peak: one serves %.2f requests/s at most, the load is 12.5.", prefill(s.shape)/1e15, prefill(s.shape)/a100, a100/prefill(s.shape)),
	}
	return section, nil
}

// prefill is the arithmetic of L-Eval's mean prompt, FLOP.
func prefill(m shape) float64 { return m.recomputation(equal(1, 35956), 1, true) }
