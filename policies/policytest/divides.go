package policytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
)

func (s *suite) divides() error {
	if _, ok := s.make().(policies.Divider); !ok {
		return nil
	}
	for seed := uint64(1); seed <= lossyStreams/3; seed++ {
		if err := s.dividesOn(rand.New(rand.NewPCG(seed, 41))); err != nil {
			return fmt.Errorf("request %d: %w", seed, err)
		}
	}
	return nil
}

func (s *suite) dividesOn(r *rand.Rand) error {
	one, other := s.make().(policies.Divider), s.make().(policies.Divider)
	var streams []policies.Surveyed
	capacity, total := 1+r.IntN(40), 0
	for layer := range int32(1 + r.IntN(4)) {
		heads := 1 + r.IntN(3)
		for head := range int32(heads) {
			c := s.draw(1 + r.Uint64N(lossyStreams))
			var p policies.Prompt
			observe := &surveyor{Divider: s.make().(policies.Divider), prompt: &p}
			if _, err := new(replay.Engine).RunStream(c.stream, &c.meta, observe, c.streamOptions(nil)); err != nil {
				return err
			}
			p.Layer, p.Head = layer, head
			values, err1 := surveyed(one, &p)
			again, err2 := surveyed(other, &p)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if !slices.Equal(values, again) {
				return fmt.Errorf("policy's Survey returns %v, that of another instance %v", values, again)
			}
			streams = append(streams, policies.Surveyed{Layer: layer, Head: head, Capacity: capacity, Most: p.Most, Values: values})
			total += capacity
		}
	}
	given := cloneSurveyed(streams)
	budgets := one.Divide(given)
	if !reflect.DeepEqual(given, streams) {
		return errors.New("policy's Divide changes its argument, which later calls need: copy it first")
	}
	sum := slice.Sum(budgets, func(b int) int { return b })
	switch {
	case len(budgets) != len(streams):
		return fmt.Errorf("policy's Divide returns %d budgets for %d streams", len(budgets), len(streams))
	case slices.Min(budgets) < 1:
		return fmt.Errorf("policy's Divide returns %v, expected at least one block each", budgets)
	case sum > total:
		return fmt.Errorf("policy's Divide returns %d blocks in total, but the capacities are %d", sum, total)
	case !slices.Equal(budgets, other.Divide(cloneSurveyed(streams))):
		return errors.New("policy's Divide returns other budgets than that of another instance")
	}
	return nil
}

// surveyed shows a prompt to a Divider and returns the values that Survey appends.
func surveyed(d policies.Divider, p *policies.Prompt) ([]float32, error) {
	const before = 0.25 // a value that dst has before the call
	l := lendPrompt(p)
	values := d.Survey(&l.given, []float32{before})
	if name := l.changed(); name != "" {
		return nil, fmt.Errorf("policy's Survey changes %s: a Prompt is read-only, so copy it first", name)
	}
	if len(values) == 0 || values[0] != before {
		return nil, errors.New("policy's Survey does not append to dst: return dst with the stream's values behind its own")
	}
	values = slices.Clone(values[1:])
	l.spoil()
	return values, nil
}

func cloneSurveyed(streams []policies.Surveyed) []policies.Surveyed {
	own := slices.Clone(streams)
	for i := range own {
		own[i].Values = slices.Clone(own[i].Values)
	}
	return own
}

// surveyor copies the prompt that a run hands over, with its windows.
type surveyor struct {
	policies.Divider
	prompt *policies.Prompt
}

// Prompt keeps a copy.
func (s *surveyor) Prompt(p *policies.Prompt) {
	*s.prompt = *p
	s.prompt.Mass = slices.Clone(p.Mass)
	var demand []int32
	for x := p.First; x < p.End; x += 2 {
		demand = append(demand, int32(x))
	}
	s.prompt.Windows = []policies.Window{{Demand: demand, Local: int32(p.End)}}
	s.Divider.Prompt(p)
}
