package policytest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/policytest"
	"github.com/kvreplay/kvreplay/policies/streamingllm"
)

// lossyLine is a sound line of the table for the lossy policies of this file.
func lossyLine(make func() policies.Policy) policies.Entry {
	return with(line(make), func(e *policies.Entry) { e.Traits.Lossy, e.Traits.Sized = true, true })
}

// oldest drops the lowest index: what the broken ones embed.
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
	p.held = p.held[n:]
	return dst
}

type dropsAgain struct{ oldest }

func (p *dropsAgain) Evict(n int, dst []int32) []int32 {
	return append(dst, p.held[:n]...) // and does not forget them
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

type dividesTooMuch struct{ oldest }

func (p *dividesTooMuch) Survey(_ *policies.Prompt, dst []float32) []float32 { return dst }
func (p *dividesTooMuch) Divide(streams []policies.Surveyed) []int {
	budgets := make([]int, len(streams))
	for i, s := range streams {
		budgets[i] = s.Capacity + 1
	}
	return budgets
}

func TestLossyKitBites(t *testing.T) {
	for _, b := range []struct {
		fault string
		entry policies.Entry
		check string
		words []string
	}{
		{"does not say that it is lossy", line(func() policies.Policy { return new(oldest) }), "Entry", []string{"Traits.Lossy is false"}},
		{"has no prompt", lossyLine(func() policies.Policy { return new(lru.Policy) }), "Entry", []string{"no method Prompt"}},
		{"drops what it has dropped", lossyLine(func() policies.Policy { return new(dropsAgain) }), "Legal", []string{"which is not held", "-policytest.seed="}},
		{"drops too few", lossyLine(func() policies.Policy { return new(dropsFew) }), "Legal", []string{"victims, ", "are needed (budget"}},
		{"ignores the prompt", lossyLine(func() policies.Policy { return new(missesPrompt) }), "Legal", []string{"panics in Evict"}},
		{"keeps a slice", lossyLine(func() policies.Policy { return new(keepsMass) }), "Borrows", []string{"keeps a slice", "with lists overwritten"}},
		{"does not forget", lossyLine(func() policies.Policy { return new(remembersPrompts) }), "Forgets", []string{"not held"}},
		{"lets a map choose", lossyLine(func() policies.Policy { return new(mapDrops) }), "Deterministic", []string{"order of a map"}},
		{"divides more than there is", lossyLine(func() policies.Policy { return new(dividesTooMuch) }), "Divides", []string{"blocks in all, the capacities are"}},
	} {
		t.Run(b.fault, func(t *testing.T) {
			failures := policytest.CheckLossy(b.entry, "")
			at := slices.IndexFunc(failures, func(f policytest.Failure) bool { return f.Check == b.check })
			if at < 0 {
				t.Fatalf("found %v, not by %s", failures, b.check)
			}
			for _, w := range b.words {
				if !strings.Contains(failures[at].Err.Error(), w) {
					t.Errorf("the message lacks %q:\n%v", w, failures[at].Err)
				}
			}
		})
	}
}

func TestLossyKitAccepts(t *testing.T) {
	if failures := policytest.CheckLossy(lossyLine(func() policies.Policy { return new(oldest) }), ""); failures != nil {
		t.Error(failures)
	}
	if failures := policytest.CheckLossy(streamingllm.Entry, "sink=2"); failures != nil {
		t.Error(failures)
	}
}
