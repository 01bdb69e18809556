package ellm

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// Batch and link of the worked figures of the layer-level equations.
const (
	eight = 8
	link  = 25e9 // bytes/s, an A100 on PCIe 4.0 x16
)

// What one layer computes for the uncached tokens of one request, FLOP: 24h²sr and 4hs²r².
const (
	weights = 202_710_712_320
	pairs   = 2_126_086_963.2
)

// choice holds Eqs. 6 to 9: swap and recomputation of layers, the six configurations, M_o,
// the threads of the fused kernel.
func (s *study) choice() (section reproduce.Section, err error) {
	m, b := s.shape, equal(eight, length)
	g := gpu{flops: a100}
	section = reproduce.Section{Name: "layers", Title: "Equations 6 to 9: swapped and recomputed layers",
		Method:    fmt.Sprintf("Llama2-13B, %d requests of %d tokens, %s uncached, A100. Ours is the code. Idle times and M_o those of the ellm schedule of kvreplay time (pipeline.Layer.Idle, pipeline.Memory). Literal is as printed; without the vocabulary, Eq. 7 is l2(24h²sr + 4hs²r²)/F; corrected, as of Eqs. 2 and 3, it has half of the pairs besides, l2(24h²sr + 2hs²r²)/F.", eight, length, percent(uncached)),
		Constants: []reproduce.Constant{{Name: "link", Value: link / 1e9, Unit: "GB/s", From: "measured peak of an A100 on PCIe 4.0 x16; the paper's α is not printed"}}}
	line := func(item string, printed, ours float64) {
		section.Lines = append(section.Lines, reproduce.ByHand(item, "ms", printed*1e3, ours*1e3))
	}
	const swap = 52_789_248 / link
	line("Eq. 6, a layer swapped", swap, m.swap(b, uncached, 1, link))
	line("Eq. 7, literal, l2 = 1", 8*(5_120_919_982.08+105_578_496_000)/a100, m.layersAgain(g, b, uncached, 1, asPrinted))
	line("Eq. 7, literal, l2 = 2", 8*(10_241_839_964.16+105_578_496_000)/a100, m.layersAgain(g, b, uncached, 2, asPrinted))
	for _, v := range []struct {
		name  string
		as    reading
		again float64 // s of one layer, by hand
	}{{"without the vocabulary", noVocabulary, 8 * (weights + pairs) / a100}, {"corrected", causal, 8 * (weights + pairs/2) / a100}} {
		layer := pipeline.Layer{Dense: pipeline.Dense{Again: m.layersAgain(g, b, uncached, 1, v.as), Uncached: pipeline.Transfer{Seconds: m.swap(b, uncached, 1, link)}}}
		for l2 := 1; l2 <= 2; l2++ {
			line(fmt.Sprintf("Eq. 7, %s, l2 = %d", v.name, l2), float64(l2)*v.again, m.layersAgain(g, b, uncached, float64(l2), v.as))
			for l1 := 1; l1 <= 3; l1++ {
				idle := float64(l1)*swap - float64(l2)*v.again
				line(fmt.Sprintf("idle, %s, l1 = %d swapped, l2 = %d recomputed", v.name, l1, l2), max(idle, -idle), layer.Idle(l1, l2))
			}
		}
	}
	if err := s.overheads(&section, b); err != nil {
		return section, err
	}
	s.fused(&section)
	section.Contradictions = []string{
		"Eq. 7 takes the share l2/L of what one layer costs and adds the vocabulary whole, Eq. 8 multiplies by l2: recomputing a second layer would add 5 % by one and 100 % by the other.",
		"Eqs. 8 and 9 count the vocabulary in kernels of a layer: it makes K1 and K2 nearly equal, where a layer's own arithmetic differs by two orders of magnitude.",
		"A layer that is recomputed needs the hidden states that the layer before computes. Where that one was swapped in, nothing has computed them: alternating swapped and recomputed layers needs hidden states kept as well (as HCache does), which M_o leaves out.",
	}
	return section, nil
}

// overheads adds M_o and the choice of kvreplay time.
func (s *study) overheads(section *reproduce.Section, b batch) error {
	r, err := s.decode(eight, fmt.Sprintf("ellm:uncached=%g,swap=3,recompute=2", uncached)).Price(s.ctx)
	if err != nil {
		return err
	}
	const most = 40 * 5120 * eight * length * uncached
	section.Lines = append(section.Lines,
		reproduce.ByHand("M_o = 8hbsr(l1 + l2) at most, 40hbsr", "B", most, s.shape.overhead(b, uncached, 3, 2)),
		reproduce.ByHand("M_o of the ellm schedule", "B", most, r.Memory.Cache-s.shape.cached(b, uncached)))
	if r, err = s.decode(eight, fmt.Sprintf("ellm:uncached=%g,choose=idle", uncached)).Price(s.ctx); err != nil {
		return err
	}
	chosen, err := pipeline.ParseSchedule(r.Schedule)
	if err != nil {
		return err
	}
	e := chosen.(*pipeline.ELLM)
	l := reproduce.Statement("layers swapped for one recomputed, as kvreplay time chooses", "", float64(e.Swap)/float64(e.Recompute), e.Swap > e.Recompute)
	l.Note = "by idle time, as the paper does, at the measured rate of matrix products instead of the datasheet's"
	section.Lines = append(section.Lines, l)
	return nil
}

// fused adds the threads of the fused kernel.
func (s *study) fused(section *reproduce.Section) {
	one := equal(1, length)
	k1, literal := s.shape.threads(one, uncached, 3, 1, 1024, asPrinted)
	own, ratio := s.shape.threads(one, uncached, 3, 1, 1024, noVocabulary)
	_, corrected := s.shape.threads(one, uncached, 3, 1, 1024, causal)
	const decoded = 4*629_145_600 + 4*18_350_080
	section.Lines = append(section.Lines,
		reproduce.ByHand("V_K1 ÷ V_K2, literal, l1 = 3, l2 = 1", "", (weights+pairs+105_578_496_000)/(decoded+293_273_600_000), literal),
		reproduce.ByHand("V_K1 ÷ V_K2 without the vocabulary", "", (weights+pairs)/decoded, ratio),
		reproduce.ByHand("V_K1 ÷ V_K2 corrected", "", (weights+pairs/2)/decoded, corrected),
		reproduce.ByHand("threads of K1 of 1024, literal", "", 512, float64(k1)),
		reproduce.ByHand("threads of K1 of 1024 without the vocabulary", "", 992, float64(own)))
}
