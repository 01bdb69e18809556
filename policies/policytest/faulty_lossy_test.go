package policytest_test

import (
	"math/rand/v2"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// oldest drops the lowest index. The broken policies embed it.
type oldest struct{ held []int32 }

func (p *oldest) Reset(*policies.Scope) error { p.held = p.held[:0]; return nil }
func (p *oldest) Prompt(pr *policies.Prompt) {
	for x := pr.First; x < pr.End; x++ {
		p.held = append(p.held, int32(x))
	}
}
func (p *oldest) Update(s *policies.Step) { p.held = append(p.held, s.Offered...) }
func (p *oldest) Evict(n int, dst []int32) []int32 {
	dst = append(dst, p.held[:n]...)
	p.held = slices.Delete(p.held, 0, n)
	return dst
}

type asksDemand struct{ oldest }

func (p *asksDemand) Needs() policies.Needs { return policies.NeedDemand }

type dropsAgain struct{ oldest }

func (p *dropsAgain) Evict(n int, dst []int32) []int32 {
	return append(dst, p.held[:n]...) // without forgetting them
}

type dropsFew struct{ oldest }

func (p *dropsFew) Evict(n int, dst []int32) []int32 { return p.oldest.Evict(max(0, n-1), dst) }

type missesPrompt struct{ oldest }

func (p *missesPrompt) Prompt(*policies.Prompt) {}

type keepsMass struct {
	oldest
	mass []float32
}

func (p *keepsMass) Prompt(pr *policies.Prompt) { p.oldest.Prompt(pr); p.mass = pr.Mass }
func (p *keepsMass) Evict(n int, dst []int32) []int32 {
	slices.SortStableFunc(p.held, func(a, b int32) int {
		switch x, y := p.of(a), p.of(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return int(a - b)
	})
	return p.oldest.Evict(n, dst)
}
func (p *keepsMass) of(x int32) float32 {
	if int(x) < len(p.mass) && p.mass[x] == p.mass[x] {
		return p.mass[x]
	}
	return 0
}

type remembersPrompts struct{ oldest }

func (p *remembersPrompts) Reset(*policies.Scope) error { return nil }

type mapDrops struct{ oldest }

func (p *mapDrops) Evict(n int, dst []int32) []int32 {
	set := map[int32]bool{}
	for _, x := range p.held {
		set[x] = true
	}
	p.held = p.held[:0]
	for x := range set {
		if n > 0 {
			dst, n = append(dst, x), n-1
		} else {
			p.held = append(p.held, x)
		}
	}
	return dst
}

// sortsList sorts the List that it was lent.
type sortsList struct{ oldest }

func (p *sortsList) Needs() policies.Needs { return policies.NeedCandidates }
func (p *sortsList) Update(s *policies.Step) {
	p.oldest.Update(s)
	slices.Sort(s.List)
}

// clearsMass writes to the Mass that it was lent.
type clearsMass struct{ oldest }

func (p *clearsMass) Needs() policies.Needs { return policies.NeedPromptMass }
func (p *clearsMass) Prompt(pr *policies.Prompt) {
	p.oldest.Prompt(pr)
	clear(pr.Mass)
}

// asksScope keeps the Scope of Reset and reads it later. It works as long as the engine leaves the
// Scope alone.
type asksScope struct {
	oldest
	scope *policies.Scope
}

func (p *asksScope) Reset(sc *policies.Scope) error { p.scope = sc; return p.oldest.Reset(sc) }
func (p *asksScope) Evict(n int, dst []int32) []int32 {
	if n > 0 && p.scope.Capacity < n {
		slices.Reverse(p.held)
	}
	return p.oldest.Evict(n, dst)
}

type changesItsScope struct{ oldest }

func (p *changesItsScope) Reset(sc *policies.Scope) error {
	sc.Capacity /= 2
	return p.oldest.Reset(sc)
}

// asksPrompt keeps the pointer to the prompt that it got.
type asksPrompt struct {
	oldest
	prompt *policies.Prompt
}

func (p *asksPrompt) Prompt(pr *policies.Prompt) { p.oldest.Prompt(pr); p.prompt = pr }
func (p *asksPrompt) Evict(n int, dst []int32) []int32 {
	if p.prompt.Blocks < 0 {
		slices.Reverse(p.held)
	}
	return p.oldest.Evict(n, dst)
}

type answersAnew struct{ oldest }

func (p *answersAnew) Evict(n int, _ []int32) []int32 { return p.oldest.Evict(n, nil) }

// ranksAnew allocates a new list of its blocks for each step.
type ranksAnew struct{ oldest }

func (p *ranksAnew) Evict(n int, dst []int32) []int32 {
	p.held = slices.Clone(p.held)
	return p.oldest.Evict(n, dst)
}

// neverDrops keeps a list of every block that it ever received, in addition to the blocks that it
// holds.
type neverDrops struct {
	oldest
	all []int32
}

func (p *neverDrops) Update(s *policies.Step) {
	p.oldest.Update(s)
	p.all = append(p.all, s.Offered...)
}

// scoresWide has a score of sixteen bytes per block.
type scoresWide struct {
	oldest
	score [][2]float64
}

func (p *scoresWide) Reset(sc *policies.Scope) error {
	p.score = policies.Fill(p.score, sc.Blocks, [2]float64{})
	return p.oldest.Reset(sc)
}

// endsEarly turns its order round near the end of the stream.
type endsEarly struct {
	oldest
	steps, last int
}

func (p *endsEarly) Reset(sc *policies.Scope) error {
	p.steps, p.last = 0, sc.Steps
	return p.oldest.Reset(sc)
}
func (p *endsEarly) Update(s *policies.Step) {
	p.steps++
	p.oldest.Update(s)
}
func (p *endsEarly) Evict(n int, dst []int32) []int32 {
	if p.last-p.steps < 4 {
		slices.Sort(p.held)
		slices.Reverse(p.held)
	}
	return p.oldest.Evict(n, dst)
}

// sharedHeld is held by all instances of sharesHeld.
var sharedHeld []int32

type sharesHeld struct{}

func (p *sharesHeld) Reset(*policies.Scope) error { sharedHeld = sharedHeld[:0]; return nil }
func (p *sharesHeld) Prompt(pr *policies.Prompt) {
	for x := pr.First; x < pr.End; x++ {
		sharedHeld = append(sharedHeld, int32(x))
	}
}
func (p *sharesHeld) Update(s *policies.Step) { sharedHeld = append(sharedHeld, s.Offered...) }
func (p *sharesHeld) Evict(n int, dst []int32) []int32 {
	dst = append(dst, sharedHeld[:n]...)
	sharedHeld = slices.Delete(sharedHeld, 0, n)
	return dst
}

// drawsOrder draws its victims from the seed.
type drawsOrder struct {
	oldest
	r *rand.Rand
}

func (p *drawsOrder) Reset(sc *policies.Scope) error {
	p.r = rand.New(rand.NewPCG(sc.Seed, 1))
	return p.oldest.Reset(sc)
}
func (p *drawsOrder) Evict(n int, dst []int32) []int32 {
	p.r.Shuffle(len(p.held), func(i, j int) { p.held[i], p.held[j] = p.held[j], p.held[i] })
	return p.oldest.Evict(n, dst)
}

// dividesFairly is embedded in the broken Dividers.
type dividesFairly struct{ oldest }

func (p *dividesFairly) Survey(_ *policies.Prompt, dst []float32) []float32 { return append(dst, 1) }
func (p *dividesFairly) Divide(streams []policies.Surveyed) []int {
	budgets := make([]int, len(streams))
	for i, s := range streams {
		budgets[i] = s.Capacity
	}
	return budgets
}

type surveysAnew struct{ dividesFairly }

func (p *surveysAnew) Survey(*policies.Prompt, []float32) []float32 { return []float32{1} }

type sortsWindows struct{ dividesFairly }

func (p *sortsWindows) Survey(pr *policies.Prompt, dst []float32) []float32 {
	for _, w := range pr.Windows {
		slices.Reverse(w.Demand)
	}
	return append(dst, 1)
}

type scalesValues struct{ dividesFairly }

func (p *scalesValues) Divide(streams []policies.Surveyed) []int {
	for _, s := range streams {
		s.Values[0] /= 2
	}
	return p.dividesFairly.Divide(streams)
}

type dividesTooMuch struct{ oldest }

func (p *dividesTooMuch) Survey(_ *policies.Prompt, dst []float32) []float32 { return dst }
func (p *dividesTooMuch) Divide(streams []policies.Surveyed) []int {
	budgets := make([]int, len(streams))
	for i, s := range streams {
		budgets[i] = s.Capacity + 1
	}
	return budgets
}
