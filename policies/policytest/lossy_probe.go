package policytest

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"runtime/debug"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
)

// lossyProbe is the probe of lossy policies: what is outside the demand is, of them, what
// they hold.
type lossyProbe struct {
	probe
	began bool
	first []int32 // dropped of the prompt
}

var _ policies.Lossy = (*lossyProbe)(nil)

func (s *suite) lossyFresh() *lossyProbe { return &lossyProbe{probe: probe{policy: s.make()}} }

// Reset starts a stream.
func (p *lossyProbe) Reset(sc *policies.Scope) error {
	p.began, p.first = false, nil
	return p.probe.Reset(sc)
}

// Prompt hands over the prompt.
func (p *lossyProbe) Prompt(pr *policies.Prompt) {
	p.at = "Prompt"
	if p.script != nil {
		p.script.prompt(pr)
	}
	for x := pr.First; x < pr.End; x++ {
		p.outside[int32(x)] = true
	}
	l := lendPrompt(pr)
	p.policy.(policies.Lossy).Prompt(&l.given)
	if name := l.changed(); name != "" {
		p.fail("changes %s, which is the engine's: a Prompt is read only, copy what must be changed", name)
	}
	if p.spoil {
		l.spoil()
	}
}

// Evict asks for victims.
func (p *lossyProbe) Evict(n int, dst []int32) []int32 {
	at := len(dst)
	dst = p.probe.Evict(n, dst)
	if !p.began {
		p.first, p.began = slices.Clone(dst[at:]), true
	}
	return dst
}

// story is what the policy was told last, what it held then, and what it answered.
func (p *lossyProbe) story() string {
	return fmt.Sprintf("told: T = %d, |D_t| = %d, Offered %v, List %v\nheld are %v%s", p.told.T, p.told.Demand, p.told.Offered, p.told.List,
		slices.Sorted(maps.Keys(p.outside)), p.asked)
}

// replayLossy replays with an instance; what it drops of the prompt is the first step's.
func replayLossy(c *lossySetting, p *lossyProbe) (steps []dropped, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panics in %s: %v\n%s%s", p.at, r, stackOf(debug.Stack()), p.story())
		}
	}()
	o := c.o
	o.Observer = func(r *replay.StepReport) {
		if r.T >= 0 {
			steps = append(steps, dropped{r.T, slices.Clone(r.Lost), sorted(r.Victims)})
		}
	}
	if _, err := new(replay.Engine).RunStream(c.stream, &c.meta, p, o); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, p.story())
	}
	return append([]dropped{{T: -1, victims: sorted(p.first)}}, steps...), nil
}

// lentPrompt is a prompt that the policy was given.
type lentPrompt struct {
	given   policies.Prompt
	numbers policies.Prompt // as it was, without its lists
	mass    lent[float32]
	demands []lent[int32]
}

// lendPrompt copies a prompt, with lists of its own.
func lendPrompt(pr *policies.Prompt) *lentPrompt {
	l := &lentPrompt{given: *pr, numbers: withoutLists(pr)}
	l.mass = lendList("Prompt.Mass", &l.given.Mass, garbageScore)
	l.given.Windows = slices.Clone(pr.Windows)
	for i := range l.given.Windows {
		l.demands = append(l.demands, lendList("Prompt.Windows", &l.given.Windows[i].Demand, garbage))
	}
	return l
}

func withoutLists(pr *policies.Prompt) policies.Prompt {
	numbers := *pr
	numbers.Mass, numbers.Windows = nil, nil
	return numbers
}

// changed names what the policy wrote on; empty: nothing.
func (l *lentPrompt) changed() string {
	if l.mass.changed() {
		return l.mass.name
	}
	for _, d := range l.demands {
		if d.changed() {
			return d.name
		}
	}
	if !reflect.DeepEqual(withoutLists(&l.given), l.numbers) {
		return "the numbers of its Prompt"
	}
	return ""
}

// spoil overwrites what was lent.
func (l *lentPrompt) spoil() {
	l.mass.spoil(float32(math.NaN()))
	for _, d := range l.demands {
		d.spoil(garbage)
	}
	l.given = policies.Prompt{Layer: garbage, Head: garbage, Blocks: garbage, First: garbage, End: garbage, Most: garbage}
}
