package policytest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// RunLossy checks a lossy policy (policies.Lossy) with the given options, over random
// streams with attention masses:
//
//	Entry          the line of the table, and Traits.Lossy
//	Legal          every answer is one that the engine accepts; nothing panics
//	Deterministic  two instances agree
//	Borrows        nothing that was lent is kept
//	Forgets        an instance that has seen other streams does as a new one
//	Divides        a Divider's budgets: one a stream, at least one block, in sum no more than
//	               the capacities; the same from any instance
//
// That it does what its paper says is for histories (LossyHistory) and, of the program's
// own, for the referee.
func RunLossy(t *testing.T, entry policies.Entry, options string) {
	t.Helper()
	s := &suite{entry: entry, options: options, short: testing.Short()}
	for _, c := range lossyChecks {
		ok := t.Run(c.name, func(t *testing.T) {
			if err := s.after(s.lossyEntry, c); err != nil {
				t.Errorf("%s: %v", s.name(), err)
			}
		})
		if !ok && c.gate {
			return
		}
	}
}

// CheckLossy is RunLossy without a test: it returns what fails.
func CheckLossy(entry policies.Entry, options string) (failures []Failure) {
	s := &suite{entry: entry, options: options, short: testing.Testing() && testing.Short()}
	for _, c := range lossyChecks {
		if err := c.run(s); err != nil {
			failures = append(failures, Failure{c.name, err})
			if c.gate {
				break
			}
		}
	}
	return failures
}

var lossyChecks = []check{
	{"Entry", (*suite).lossyEntry, true},
	{"Legal", func(s *suite) error { return s.lossySeeds(s.lossyLegal) }, true},
	{"Deterministic", func(s *suite) error { return s.lossySeeds(s.lossyAgrees) }, true},
	{"Borrows", func(s *suite) error { return s.lossySeeds(s.lossyBorrows) }, true},
	{"Forgets", func(s *suite) error { return s.lossySeeds(s.lossyForgets) }, true},
	{"Divides", (*suite).divides, false},
}

// lossyStreams are drawn a check.
const lossyStreams = 120

func (s *suite) lossyEntry() error {
	if err := s.entryHolds(); err != nil {
		return err
	}
	_, lossy := s.make().(policies.Lossy)
	switch {
	case !lossy:
		return errors.New("the policy has no method Prompt(*policies.Prompt): a lossy policy is handed its prompt")
	case !s.entry.Traits.Lossy:
		return errors.New("the entry's Traits.Lossy is false: what the policy drops would be fetched again, and it would be ranked with exact ones")
	}
	return nil
}

// lossySetting is a stream and one way to replay it.
type lossySetting struct {
	seed   uint64
	stream *trace.Stream
	meta   trace.Meta
	o      replay.StreamOptions
}

func (s *suite) lossyDraw(seed uint64) *lossySetting {
	r := rand.New(rand.NewPCG(seed, 37))
	kind := replaytest.Medium
	if seed%2 == 1 {
		kind = replaytest.Small
	}
	o := kind(r)
	o.Steps, o.Windows = max(1, o.Steps), max(1, o.Windows)
	o.Ascending = o.Ascending && s.needs&policies.NeedCandidates == 0
	c := &lossySetting{seed: seed, stream: replaytest.Stream(r, o), meta: o.Meta(1 + r.IntN(o.M))}
	replaytest.Masses(r, c.stream, max(1, o.BlockTokens))
	c.o = replay.StreamOptions{Capacity: 1 + r.IntN(3*c.meta.TopK), Seed: seed, Warmup: replay.Warmup{Kind: replay.WarmupRun, Windows: c.stream.Windows}}
	if c.stream.Windows == 0 {
		c.o.Warmup = replay.Warmup{Kind: replay.WarmupCold}
	}
	return c
}

// String is what a failure says of the setting.
func (c *lossySetting) String() string {
	return fmt.Sprintf("stream of %d rows, budget %d, K %d, prompt %d, block_tokens %d; again with -policytest.seed=%d",
		c.stream.Rows, c.o.Capacity, c.meta.TopK, c.stream.PromptLen, c.meta.BlockTokens, c.seed)
}

func (c *lossySetting) size() int { return len(c.stream.Indices) }

// lossySeeds is seeds for lossy policies.
func (s *suite) lossySeeds(check func(c *lossySetting) error) error {
	return seedsOf(s, lossyStreams, s.lossyDraw, check)
}

// dropped is what a step of a lossy policy did: what was lost, then what it dropped.
type dropped struct {
	T             int32
	lost, victims []int32
}

// replayLossy replays with an instance; what it drops of the prompt is the first step's.
func replayLossy(c *lossySetting, p *lossyProbe) (steps []dropped, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panics in %s: %v\n%s", p.at, r, stackOf(debug.Stack()))
		}
	}()
	o := c.o
	o.Observer = func(r *replay.StepReport) {
		if r.T >= 0 {
			steps = append(steps, dropped{r.T, slices.Clone(r.Lost), sorted(r.Victims)})
		}
	}
	if _, err := new(replay.Engine).RunStream(c.stream, &c.meta, p, o); err != nil {
		return nil, err
	}
	return append([]dropped{{T: -1, victims: sorted(p.first)}}, steps...), nil
}

func (s *suite) lossyFresh() *lossyProbe { return &lossyProbe{policy: s.make().(policies.Lossy)} }

func (s *suite) lossyLegal(c *lossySetting) error {
	_, err := replayLossy(c, s.lossyFresh())
	return err
}

func sameDrops(a, b string, x, y []dropped) error {
	for i := range min(len(x), len(y)) {
		if !slices.Equal(x[i].lost, y[i].lost) || !slices.Equal(x[i].victims, y[i].victims) {
			return fmt.Errorf("step T = %d: %s lost %v and drops %v, %s lost %v and drops %v", x[i].T, a, x[i].lost, x[i].victims, b, y[i].lost, y[i].victims)
		}
	}
	return nil
}

func (s *suite) lossyPair(c *lossySetting, x, y *lossyProbe, a, b string) error {
	want, err1 := replayLossy(c, x)
	got, err2 := replayLossy(c, y)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return sameDrops(a, b, want, got)
}

func (s *suite) lossyAgrees(c *lossySetting) error {
	if err := s.lossyPair(c, s.lossyFresh(), s.lossyFresh(), "one instance", "another"); err != nil {
		return fmt.Errorf("not a function of its inputs (global randomness, a clock, the order of a map?)\n%w", err)
	}
	return nil
}

func (s *suite) lossyBorrows(c *lossySetting) error {
	spoilt := s.lossyFresh()
	spoilt.spoil = true
	if err := s.lossyPair(c, s.lossyFresh(), spoilt, "normally it", "with lists overwritten it"); err != nil {
		return fmt.Errorf("keeps a slice that it was given, or changes one: they are valid until the call returns\n%w", err)
	}
	return nil
}

func (s *suite) lossyForgets(c *lossySetting) error {
	other := s.lossyDraw(c.seed%lossyStreams + 1)
	p := s.lossyFresh()
	if _, err := replayLossy(other, p); err != nil {
		return err
	}
	if err := s.lossyPair(c, s.lossyFresh(), p, "a new instance", "one that has seen another stream"); err != nil {
		return fmt.Errorf("Reset and Prompt do not forget\n%w", err)
	}
	return nil
}

// lossyProbe stands between the engine and a lossy policy. It lends copies and overwrites
// them after the call where spoil is set.
type lossyProbe struct {
	policy policies.Lossy
	spoil  bool
	at     string
	began  bool
	first  []int32 // dropped of the prompt
}

// Needs asks for what the policy asks for.
func (p *lossyProbe) Needs() policies.Needs { return policies.NeedsOf(p.policy) }

// Reset starts a stream.
func (p *lossyProbe) Reset(sc *policies.Scope) error {
	p.at, p.began, p.first = "Reset", false, nil
	return p.policy.Reset(sc)
}

// Prompt hands over the prompt.
func (p *lossyProbe) Prompt(pr *policies.Prompt) {
	p.at = "Prompt"
	given := *pr
	given.Mass = slices.Clone(pr.Mass)
	p.policy.Prompt(&given)
	if p.spoil {
		for i := range given.Mass {
			given.Mass[i] = float32(math.NaN())
		}
		given = policies.Prompt{}
	}
}

// Update applies a step.
func (p *lossyProbe) Update(s *policies.Step) {
	p.at = fmt.Sprintf("Update at T = %d", s.T)
	given := *s
	given.Offered, given.List, given.Scores = slices.Clone(s.Offered), slices.Clone(s.List), slices.Clone(s.Scores)
	p.policy.Update(&given)
	if p.spoil {
		for _, list := range [][]int32{given.Offered, given.List} {
			for i := range list {
				list[i] = garbage
			}
		}
		for i := range given.Scores {
			given.Scores[i] = float32(math.NaN())
		}
	}
}

// Evict asks for victims.
func (p *lossyProbe) Evict(n int, dst []int32) []int32 {
	p.at = fmt.Sprintf("Evict(%d)", n)
	dst = p.policy.Evict(n, dst)
	if !p.began {
		p.first, p.began = slices.Clone(dst), true
	}
	return dst
}

// divides checks a Divider's answers on random requests.
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
			c := s.lossyDraw(1 + r.Uint64N(lossyStreams))
			var p policies.Prompt
			look := &surveyor{Divider: s.make().(policies.Divider), prompt: &p}
			if _, err := new(replay.Engine).RunStream(c.stream, &c.meta, look, c.o); err != nil {
				return err
			}
			p.Layer, p.Head = layer, head
			values := one.Survey(&p, nil)
			if again := other.Survey(&p, nil); !slices.Equal(values, again) {
				return fmt.Errorf("policy's Survey gives %v, of another instance %v", values, again)
			}
			streams = append(streams, policies.Surveyed{Layer: layer, Head: head, Capacity: capacity, Most: p.Most, Values: values})
			total += capacity
		}
	}
	budgets := one.Divide(slices.Clone(streams))
	sum := 0
	for _, b := range budgets {
		sum += b
	}
	switch {
	case len(budgets) != len(streams):
		return fmt.Errorf("policy's Divide answers with %d budgets for %d streams", len(budgets), len(streams))
	case slices.Min(budgets) < 1:
		return fmt.Errorf("policy's Divide gives %v, expected at least one block each", budgets)
	case sum > total:
		return fmt.Errorf("policy's Divide gives %d blocks in all, the capacities are %d", sum, total)
	case !slices.Equal(budgets, other.Divide(slices.Clone(streams))):
		return errors.New("policy's Divide of another instance gives other budgets")
	}
	return nil
}

// surveyor keeps the prompt that a run hands over, with a window.
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
