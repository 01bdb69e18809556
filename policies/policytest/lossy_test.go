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

func TestLossyKitBites(t *testing.T) {
	for _, b := range []struct {
		fault string
		entry policies.Entry
		check string
		words []string
	}{
		{"does not say that it is lossy", line(func() policies.Policy { return new(oldest) }), "Entry", []string{"Traits.Lossy is false"}},
		{"has no prompt", lossyLine(func() policies.Policy { return new(lru.Policy) }), "Entry", []string{"no method Prompt"}},
		{"asks for what it is not told", lossyLine(func() policies.Policy { return new(asksDemand) }), "Entry", []string{"columns that are empty for lossy policies", "NeedAttention"}},
		{"drops what it has dropped", lossyLine(func() policies.Policy { return new(dropsAgain) }), "Legal", []string{"which is not held", "-policytest.seed="}},
		{"drops too few", lossyLine(func() policies.Policy { return new(dropsFew) }), "Legal", []string{"victims, ", "(budget"}},
		{"ignores the prompt", lossyLine(func() policies.Policy { return new(missesPrompt) }), "Legal", []string{"panics in Evict"}},
		{"keeps a slice", lossyLine(func() policies.Policy { return new(keepsMass) }), "Borrows", []string{"keeps a slice", "with lists overwritten"}},
		{"does not forget", lossyLine(func() policies.Policy { return new(remembersPrompts) }), "Forgets", []string{"not held"}},
		{"lets a map choose", lossyLine(func() policies.Policy { return new(mapDrops) }), "Deterministic", []string{"order of a map"}},
		{"sorts the list of the engine", lossyLine(func() policies.Policy { return new(sortsList) }), "Borrows", []string{"changes Step.List", "read-only"}},
		{"clears the mass of the engine", lossyLine(func() policies.Policy { return new(clearsMass) }), "Borrows", []string{"changes Prompt.Mass", "read-only"}},
		{"keeps its Scope", lossyLine(func() policies.Policy { return new(asksScope) }), "Borrows", []string{"keeps a slice or pointer", "Scope"}},
		{"changes its Scope", lossyLine(func() policies.Policy { return new(changesItsScope) }), "Borrows", []string{"Reset: changes its Scope"}},
		{"keeps its Prompt", lossyLine(func() policies.Policy { return new(asksPrompt) }), "Borrows", []string{"keeps a slice or pointer", "Prompt"}},
		{"returns a slice of its own", lossyLine(func() policies.Policy { return new(answersAnew) }), "Borrows", []string{"Evict does not append to dst"}},
		{"allocates at every step", lossyLine(func() policies.Policy { return new(ranksAnew) }), "Allocates", []string{"allocates", "Reset or Prompt", "policies.Fill"}},
		{"has a list that only grows", lossyLine(func() policies.Policy { return new(neverDrops) }), "Allocates", []string{"allocates", "expected 0"}},
		{"holds more than it says", lossyLine(func() policies.Policy { return new(scoresWide) }), "Memory", []string{`Traits.Memory is "4 B"`, "B per block of the context"}},
		{"knows where the stream ends", lossyLine(func() policies.Policy { return new(endsEarly) }), "Online", []string{"decisions depend on later steps", "cut short it", "Scope.Steps"}},
		{"shares a a package variable", lossyLine(func() policies.Policy { return new(sharesHeld) }), "Apart", []string{"two instances share state", "a package variable"}},
		{"draws without saying so", lossyLine(func() policies.Policy { return new(drawsOrder) }), "Deterministic", []string{"results depend on Scope.Seed", "set Traits.Random"}},
		{"says that it draws and does not", with(lossyLine(func() policies.Policy { return new(oldest) }), func(e *policies.Entry) { e.Traits.Random = true }), "Deterministic",
			[]string{"Traits.Random is set, but the seed changes nothing"}},
		{"surveys into a slice of its own", lossyLine(func() policies.Policy { return new(surveysAnew) }), "Divides", []string{"Survey does not append to dst"}},
		{"turns the windows of the engine round", lossyLine(func() policies.Policy { return new(sortsWindows) }), "Divides", []string{"Survey changes Prompt.Windows", "read-only"}},
		{"changes what was surveyed", lossyLine(func() policies.Policy { return new(scalesValues) }), "Divides", []string{"Divide changes its argument"}},
		{"divides more than there is", lossyLine(func() policies.Policy { return new(dividesTooMuch) }), "Divides", []string{"blocks in total, but the capacities are"}},
	} {
		t.Run(b.fault, func(t *testing.T) {
			failures := policytest.CheckLossyBy(b.check, b.entry, "")
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
	if failures := policytest.CheckLossyBy("", lossyLine(func() policies.Policy { return new(oldest) }), ""); failures != nil {
		t.Error(failures)
	}
	if failures := policytest.CheckLossyBy("", streamingllm.Entry, "sink=2"); failures != nil {
		t.Error(failures)
	}
}
