package ellm

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// The arithmetic of an A100 and a V100 as the equations take it, FLOP/s.
const (
	a100 = 312e12
	v100 = 125e12
)

// equations holds Eqs. 2 to 5, as printed and corrected.
func (s *study) equations() (section reproduce.Section, err error) {
	m, one := s.shape, equal(1, 1000)
	section = reproduce.Section{Name: "equations", Title: "Equations 2 to 5: arithmetic of a step",
		Method: "Llama2-13B, one request of 1000 tokens, half of them uncached. Ours is the code. Corrected leaves out logits of cached and recomputed tokens and counts causal pairs once. The last two lines are the arithmetic that kvreplay time counts (pipeline.Roofline), on a layer with an FFN of two matrices of 4h as the equations have it."}
	section.Lines = []reproduce.Line{
		reproduce.ByHand("Eq. 2, literal", "FLOP", 12_582_912_000_000+204_800_000_000+163_840_000_000, m.recomputation(one, 0.5, false)),
		reproduce.ByHand("Eq. 3, literal", "FLOP", 25_165_824_000+820_019_200+327_680_000_000, m.decoding(one, false)),
		reproduce.ByHand("Eq. 4, literal, A100", "ms", 13_305_217_843_200/a100*1e3, 1e3*m.latency(gpu{flops: a100}, one, 0.5, false)),
		reproduce.ByHand("Eq. 4, literal, V100", "ms", 13_305_217_843_200/v100*1e3, 1e3*m.latency(gpu{flops: v100}, one, 0.5, false)),
		reproduce.ByHand("Eq. 2, corrected", "FLOP", 12_582_912_000_000+102_400_000_000, m.recomputation(one, 0.5, true)),
		reproduce.ByHand("Eq. 3, corrected", "FLOP", 25_165_824_000+820_019_200+327_680_000, m.decoding(one, true)),
	}
	ten := equal(10, 1000)
	section.Lines = append(section.Lines, reproduce.ByHand("Eq. 5, literal, ten such requests on an A100: time of a token", "ms", 13_305_217_843_200/a100*1e3, 1e3*m.latency(gpu{flops: a100}, ten, 0.5, false)/ten.requests))
	const corrected = "the corrected equation, by the code of this section"
	again, decode, err := s.counted()
	if err != nil {
		return section, err
	}
	section.Lines = append(section.Lines,
		reproduce.Check("Eq. 2, corrected, by kvreplay time", "FLOP", reproduce.Reference(m.recomputation(one, 0.5, true), corrected), again),
		reproduce.Check("Eq. 3, corrected, by kvreplay time", "FLOP", reproduce.Reference(m.decoding(one, true), corrected), decode))
	mean := equal(1, length)
	literal, right := m.decoding(mean, false)/a100*1e3, m.decoding(mean, true)/a100*1e3
	gated := 4*s.shape.hidden*s.shape.hidden + float64(s.model.FFNMatrices.Value*s.model.FFN.Value)*s.shape.hidden
	section.Contradictions = []string{
		fmt.Sprintf("Eq. 3 multiplies the vocabulary with all cached tokens, 2hVs, where a step needs 2hV: at ShareGPT's %d tokens a decoded token takes %.2f ms instead of %.3f. Eq. 2's 2hVsr makes logits that nothing reads.", length, literal, right),
		"Eq. 2's 4hLs²r² counts the pairs of causal attention twice.",
		fmt.Sprintf("16h² of the MLP are two matrices of 4h; Llama2 has three of 2.7h, so that a layer has %.1f h² parameters, not 12 (%.1f %% more).", gated/s.shape.hidden/s.shape.hidden, 100*(gated/s.shape.hidden/s.shape.hidden/12-1)),
		fmt.Sprintf("4Lhs bytes a request (Eq. 1) hold for as many KV heads as query heads; Llama2-70B has 8 of 64, an eighth of it. L-Eval's prompts of 35,956 tokens exceed Llama2's context of 4,096, and %.0f uncached tokens of one would take %.1f s a step by Eq. 4, against an SLO of 60 ms; how prompts were cut is not said.", 0.47*35956, m.latency(gpu{flops: a100}, equal(1, 35956), 0.47, false)),
		"s is the longest of the batch where memory is explained, each request's own in the equations; we take the latter.",
	}
	return section, nil
}

// counted is the arithmetic of 500 of 1000 tokens run again through 40 layers, and of a
// token decoded after 1000, as the roofline of kvreplay time counts it.
func (s *study) counted() (again, decode float64, err error) {
	found, err := s.lib.Model("opt-13b")
	if err != nil {
		return 0, 0, err
	}
	m := *found
	m.Bias, m.Vocabulary.Value = false, s.model.Vocabulary.Value
	card, machine := *s.machine.GPU, *s.machine
	card.MemoryBandwidth.Value, card.AchievedMemoryBandwidth = 1e30, hardware.Fact[hardware.BytesPerSecond]{}
	machine.GPU = &card
	r := pipeline.NewRoofline(&machine, &m, pipeline.Selection{}, 1, 1)
	o, err := r.Layer(0, &pipeline.Load{Requests: 1, Queries: 1, Context: 1001, Scored: 1001, Again: 500, Pairs: 500 * 500 / 2})
	if err != nil {
		return 0, 0, err
	}
	logits, err := r.Output(1)
	if err != nil {
		return 0, 0, err
	}
	rate, layers := float64(card.AchievedBF16.Value), s.shape.layers
	return layers * o.Again * rate, (layers*(o.Project+o.AttendAll+o.Post) + logits) * rate, nil
}
