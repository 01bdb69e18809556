package ess

import (
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// The range of a layer's misses that section 3.3 prints, at a ratio of 0.2.
const leastMisses, mostMisses = 16.66, 605.

// assume adds the assumptions of the table whose constants no offloading row has seen, and
// the figures that contradict them.
func (m *model) assume(section *reproduce.Section, computing step) error {
	profile, err := m.layerProfile(computing)
	if err != nil {
		return err
	}
	section.Assumptions = []string{
		"The GPU is an H200. The paper names none, and its batches need more memory than 96 GB. The README of this reproduction has the argument.",
		"The synthetic trace misses as the paper's model does. Its dials are fitted to the one range that section 3.3 prints, 16.66 to 605 misses of a layer at a ratio of 0.2.",
		profile,
		"A step misses as many entries at MTP 2 and 4 as a step of one position. The lines of joined positions price kvreplay's own answer instead, replay --mtp, which joins the demand of a step's positions.",
	}
	for _, mtp := range []int{2, 4} {
		l, err := m.joinedPositions(mtp, computing)
		if err != nil {
			return err
		}
		section.Lines = append(section.Lines, l)
	}
	return nil
}

// joinedPositions prices the largest batch of an MTP value with the misses of joined
// positions.
func (m *model) joinedPositions(mtp int, computing step) (l reproduce.Line, err error) {
	r := find(m.context, mtp, map[int]float64{2: 1.7, 4: 2.8}[mtp], 160)
	trace, err := m.study.synthetic(m.context)
	if err != nil {
		return l, err
	}
	profiles, err := m.study.joined(trace, "lru:32", mtp, capacitiesOf([]float64{r.ratio})...)
	if err != nil {
		return l, err
	}
	joined := *m
	joined.profiles = map[float64]*pipeline.Profile{r.ratio: profiles[0]}
	p, err := joined.priced(r, computing)
	if err != nil {
		return l, err
	}
	l = reproduce.Compare(reproduce.Transferred, fmt.Sprintf("%v, step with the misses of %d joined positions (replay --mtp %d)", r, mtp, mtp), "ms",
		reproduce.Reference(1e3*r.seconds(), "accepted tokens × 8 GPUs × batch ÷ the printed throughput"), 1e3*p.Mean, reproduce.Gate{Relative: blindGate})
	return l.Unless("kvreplay's own count of misses contradicts the assumption of single-position misses. The paper does not say how its simulator counts them"), nil
}

// layerProfile states the effect of the assumed distribution of misses over layers: priced
// with misses spaced evenly between the printed ends, instead of by equal factors.
func (m *model) layerProfile(computing step) (string, error) {
	last := float64(m.study.model.Layers.Value) - 1
	factors := func(i int) float64 { return leastMisses * math.Pow(mostMisses/leastMisses, float64(i)/last) }
	evenly := func(i int) float64 { return leastMisses + (mostMisses-leastMisses)*float64(i)/last }
	var change []float64
	for _, r := range []*row{find(short, 2, 1.7, 160), find(short, 4, 2.8, 160)} {
		var tokens []float64
		for _, misses := range []func(int) float64{factors, evenly} {
			other := *m
			other.profiles = map[float64]*pipeline.Profile{r.ratio: m.study.uneven(misses, m.context)}
			p, err := other.priced(r, computing)
			if err != nil {
				return "", err
			}
			tokens = append(tokens, p.Tokens)
		}
		change = append(change, 100*(tokens[1]/tokens[0]-1))
	}
	return fmt.Sprintf("Misses of layers are spaced by equal factors between the printed ends, in the order of another model's layers. The text prints the ends alone. Spaced by equal differences, batch 160 would yield %+.1f %% tokens/s at MTP 2 and %+.1f %% at MTP 4.", change[0], change[1]), nil
}
