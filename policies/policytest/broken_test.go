package policytest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/fifo"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/opt"
	"github.com/kvreplay/kvreplay/policies/optbypass"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// lruReference is the correct version of most of the broken policies.
type lruReference struct{ policytest.Ledger }

func (r *lruReference) Victims(n int, outside []int32) []int32 {
	return policytest.Least(n, outside, r.LastUse)
}

func newLRU() policytest.Reference { return new(lruReference) }

// line is a sound line of the table for the policies of this file.
func line(make func() policies.Policy) policies.Entry {
	return policies.Entry{Name: "broken", Summary: "breaks a rule", Source: "this test",
		Traits: policies.Traits{Memory: "4 B", Cost: "O(1)"}, New: policies.NoOptions(make)}
}

// with returns the entry after a change.
func with(e policies.Entry, change func(*policies.Entry)) policies.Entry {
	change(&e)
	return e
}

// broken are policies with one fault each. The kit must find it in the check named. The message
// must have all the words, which the author needs.
var broken = []struct {
	fault string
	entry policies.Entry
	check string
	words []string
}{
	{"names a demanded block", line(func() policies.Policy { return new(namesDemanded) }), "Legal",
		[]string{"named block", "in the step's demand", "received", "E is", "-policytest.seed="}},
	{"names a block twice", line(func() policies.Policy { return new(namesTwice) }), "Legal",
		[]string{"not resident (or was named twice)"}},
	{"names a block that does not exist", line(func() policies.Policy { return new(namesUnknownBlock) }), "Legal",
		[]string{"does not exist, blocks are 0 to"}},
	{"names a block that was never resident", line(func() policies.Policy { return new(namesLowest) }), "Legal",
		[]string{"is not resident"}},
	{"names too few", line(func() policies.Policy { return new(namesFew) }), "Legal",
		[]string{"victims, ", "expected at least"}},
	{"looks at the capacity and does not say so", line(func() policies.Policy { return new(halvesItself) }), "Sized",
		[]string{"counts", "become", "sets Traits.Sized"}},
	{"answers the first question of a step alone", line(func() policies.Policy { return new(answersOnce) }), "Single",
		[]string{"n calls of Evict(1) differ from Evict(n)", "victims, ", "Evict(1) after 1 victims"}},
	{"panics when the capacity changes", line(func() policies.Policy { return new(panicsResized) }), "Resize",
		[]string{"panics in Resize(", "fixed", "faulty_test.go", "from step"}},
	{"does not follow a capacity that shrinks", with(optbypass.Entry, func(e *policies.Entry) {
		e.New = policies.NoOptions(func() policies.Policy { return new(growsOnly) })
	}), "Resize", []string{"with a changing capacity", "0 victims, expected at least 1", "from step"}},
	{"panics when nothing must go", line(func() policies.Policy { return new(needsWork) }), "Legal",
		[]string{"panics in Evict(0)", "index out of range", "faulty_test.go"}},
	{"ignores births", line(func() policies.Policy { return new(ignoresBirths) }), "Legal",
		[]string{"0 victims, expected at least 1"}},
	{"keeps a slice", line(func() policies.Policy { return new(keepsSlice) }), "Borrows",
		[]string{"keeps a slice", "valid only during it"}},
	{"sorts a list of the engine", line(func() policies.Policy { return new(sortsExit) }), "Borrows",
		[]string{"changes Step.Exit", "read-only"}},
	{"appends to a list of the engine", line(func() policies.Policy { return new(appendsExit) }), "Borrows",
		[]string{"changes Step.Exit", "read-only"}},
	{"clears the scores of the engine", line(func() policies.Policy { return new(zeroesScores) }), "Borrows",
		[]string{"changes Step.Scores", "read-only"}},
	{"sums the counts of the engine", line(func() policies.Policy { return new(sumsPicked) }), "Borrows",
		[]string{"changes Step.Picked", "read-only"}},
	{"returns a slice of its own", line(func() policies.Policy { return new(ownSlice) }), "Borrows",
		[]string{"Evict does not append to dst"}},
	{"does not forget on Reset", line(func() policies.Policy { return new(remembers) }), "Forgets",
		[]string{"Reset does not forget", "A, B, A"}},
	{"keeps a longer stream's arrays", line(func() policies.Policy { return new(growsNot) }), "Forgets",
		[]string{"Reset does not forget", "panics in Update"}},
	{"draws from global randomness", line(func() policies.Policy { return new(drawsGlobally) }), "Deterministic",
		[]string{"two instances with the same seed differ", "global randomness"}},
	{"lets a map choose", line(func() policies.Policy { return new(mapOrder) }), "Deterministic",
		[]string{"two instances with the same seed differ", "order of a map"}},
	{"draws without saying so", line(func() policies.Policy { return new(drawsSecretly) }), "Deterministic",
		[]string{"results depend on Scope.Seed", "set Traits.Random"}},
	{"says that it draws and does not", with(line(newLRUPolicy), func(e *policies.Entry) { e.Traits.Random = true }), "Deterministic",
		[]string{"Traits.Random is set, but the seed changes nothing"}},
	{"allocates at every step", line(func() policies.Policy { return new(allocates) }), "Allocates",
		[]string{"allocates", "policies.Fill"}},
	{"takes the stack property for granted", with(fifo.Entry, func(e *policies.Entry) { e.Traits.Stack = true }), "Stack",
		[]string{"Traits.Stack is set, but capacity", "remove the trait"}},
	{"evicts the most recent of a tie", line(func() policies.Policy { return new(tiesLate) }), "Reference",
		[]string{"the policy evicts", "the reference [", "residents", "demand"}},
	{"takes a birth for older than it is", line(func() policies.Policy { return new(birthsFirst) }), "Reference",
		[]string{"the policy evicts", "the reference ["}},
	{"evicts all at once", line(func() policies.Policy { return new(eager) }), "Reference",
		[]string{"the policy evicts", "the reference []"}},
	{"is FIFO where LRU was meant", with(fifo.Entry, func(e *policies.Entry) { e.Name = "broken" }), "Reference",
		[]string{"the policy evicts"}},
	{"sees the future and does not say so", with(opt.Entry, func(e *policies.Entry) { e.Traits.Offline = false }), "Entry",
		[]string{"NeedNext", "Traits.Offline is false"}},
	{"says that it sees the future and does not", with(lru.Entry, func(e *policies.Entry) { e.Traits.Offline = true }), "Entry",
		[]string{"does not need NeedNext"}},
	{"bypasses and does not say so", line(func() policies.Policy { return new(bypasses) }), "Entry",
		[]string{"has a method Bypass", "Traits.Bypasses is false"}},
	{"says that it bypasses and does not", with(line(newLRUPolicy), func(e *policies.Entry) { e.Traits.Bypasses = true }), "Entry",
		[]string{"has no method Bypass"}},
	{"keeps too few out", with(line(func() policies.Policy { return new(bypasses) }), func(e *policies.Entry) { e.Traits.Bypasses = true }), "Legal",
		[]string{"bypasses 0 demanded blocks", "exceeds the capacity by"}},
	{"sweeps with distances that are too small", sweeps(func(w policies.Sweep) policies.Sweep { return tooNear{w} }), "Sweep",
		[]string{"the pass of the Sweeper: step T = ", "Distances gives", "hits it, but a run at this size", "misses it", "received: |D_t|"}},
	{"sweeps and counts the demand twice", sweeps(func(w policies.Sweep) policies.Sweep { return &demandTwice{Sweep: w} }), "Sweep",
		[]string{"Residents gives", "after the step"}},
	{"sweeps and does not forget", sweeps(func(w policies.Sweep) policies.Sweep { return &startsOnce{Sweep: w} }), "Sweep",
		[]string{"Reset does not forget"}},
	{"sweeps and keeps a slice", sweeps(func(w policies.Sweep) policies.Sweep { return &joinsLate{Sweep: w} }), "Sweep",
		[]string{"keeps a slice"}},
	{"sweeps by the rule of what it embeds", line(func() policies.Policy { return new(evictsNewest) }), "Sweep",
		[]string{"Distances gives", "let SweepOf return nil"}},
	{"peeks by the rule of what it embeds", line(func() policies.Policy { return new(evictsNewest) }), "Peek",
		[]string{"Peek names", "the first victim must be the same", "embedded"}},
	{"forgets what it only names", line(func() policies.Policy { return new(peeksAway) }), "Peek",
		[]string{"then block"}},
	{"depends on the number of a block", line(func() policies.Policy { return new(oddFirst) }), "Shift",
		[]string{"a constant added to all block indices", "ties"}},
	{"allocates every thousandth step", line(func() policies.Policy { return new(allocatesSeldom) }), "Allocates",
		[]string{"allocates", "expected 0"}},
	{"has a list that only grows", line(func() policies.Policy { return new(keepsLog) }), "Allocates",
		[]string{"allocates", "expected 0"}},
	{"holds more than it says", line(func() policies.Policy { return new(holdsMuch) }), "Memory",
		[]string{`Traits.Memory is "4 B"`, "B per block of the context"}},
	{"counts streams in a byte", line(func() policies.Policy { return new(stampsStreams) }), "Forgets",
		[]string{"Reset does not forget", "after 256 others", "overflow?"}},
	{"keeps its Scope", line(func() policies.Policy { return new(keepsScope) }), "Borrows",
		[]string{"keeps a slice or pointer", "Scope"}},
	{"changes its Scope", line(func() policies.Policy { return new(changesScope) }), "Borrows",
		[]string{"Reset: changes its Scope"}},
	{"depends on the thousand that a block is of", line(func() policies.Policy { return new(prefersThousands) }), "Shift",
		[]string{"a constant added to all block indices"}},
	{"keeps the number of a block in 16 bits", line(func() policies.Policy { return new(numbersShort) }), "Shift",
		[]string{"a constant added to all block indices"}},
	{"has the stack property in small caches", with(line(func() policies.Policy { return new(stacksSmall) }), func(e *policies.Entry) { e.Traits.Stack, e.Traits.Sized = true, true }), "Stack",
		[]string{"Traits.Stack is set, but capacity", "misses block", "hits", "remove the trait"}},
	{"shares a a package variable", line(func() policies.Policy { return new(sharesScratch) }), "Apart",
		[]string{"two instances share state", "a package variable", "panics: ", "faulty_late_test.go"}},
	{"follows a capacity as nobody can tell", with(line(func() policies.Policy { return new(deaf) }), func(e *policies.Entry) { e.Traits.Sized = true }), "Resize",
		[]string{"is a Resizer, but its Reference is not", "Resize(capacity int)"}},
	{"keeps steps in 16 bits", line(func() policies.Policy { return new(stampsShort) }), "Long",
		[]string{"on a stream of 69632 steps", "the policy evicts", "overflow?"}},
	{"knows where the stream ends", line(func() policies.Policy { return new(playsEnd) }), "Online",
		[]string{"decisions depend on later steps", "cut short it", "Scope.Steps"}},
	{"peeks at what is gone", line(func() policies.Policy { return new(peeksOnce) }), "Peek",
		[]string{"E is [", "Peek names block", "which is not in E"}},
	{"counts updates of a pool as steps", line(func() policies.Policy { return new(countsUpdates) }), "Pool",
		[]string{"in a pool with one idle stream", "Scope.Updates()"}},
	{"follows the changes of a pool by the order of arrival", line(func() policies.Policy { return new(followsFirstIn) }), "Follow",
		[]string{"a pool whose changes the policy follows", "let Follows return false"}},
	{"tracks a pool as if it held everything", line(func() policies.Policy { return new(tracksNot) }), "Follow",
		[]string{"a pool whose changes the policy follows", "Scope.Tracked"}},
	{"is lossy and checked as an exact one", lossyLine(func() policies.Policy { return new(oldest) }), "Entry",
		[]string{"has the method Prompt of lossy policies", "policytest.RunLossy"}},
	{"says that it is lossy and is not", with(line(newLRUPolicy), func(e *policies.Entry) { e.Traits.Lossy = true }), "Entry",
		[]string{"Traits.Lossy is true", "no method Prompt"}},
	{"shares its instance", line(sharedPolicy()), "Entry", []string{"the same instance twice", "each worker"}},
	{"accepts any option", with(line(newLRUPolicy), func(e *policies.Entry) {
		e.New = func(text string) (func() policies.Policy, string, error) { return newLRUPolicy, text, nil }
	}), "Entry", []string{"accepts the unknown option", "use policies.ParseOptions"}},
	{"calls its options what it cannot read", with(line(newLRUPolicy), func(e *policies.Entry) {
		e.New = func(text string) (func() policies.Policy, string, error) { return newLRUPolicy, "x" + text, nil }
	}), "Entry", []string{"must parse to itself"}},
	{"has a name that no one can type", with(line(newLRUPolicy), func(e *policies.Entry) { e.Name = "My:Policy" }), "Entry",
		[]string{`Name "My:Policy"`}},
	{"says nothing of its cost", with(line(newLRUPolicy), func(e *policies.Entry) { e.Traits.Memory = "" }), "Entry",
		[]string{"Traits.Memory"}},
}

// The kit finds every fault with the check that is meant for it, and with no earlier check.
func TestKitBites(t *testing.T) {
	for _, b := range broken {
		t.Run(b.fault, func(t *testing.T) {
			if b.check == "Long" && testing.Short() {
				t.Skip("its stream is short")
			}
			failures := policytest.CheckBy(b.check, b.entry, newLRU)
			if len(failures) == 0 {
				t.Fatal("the kit finds nothing")
			}
			at := slices.IndexFunc(failures, func(f policytest.Failure) bool { return f.Check == b.check })
			if at < 0 {
				t.Fatalf("found by %s (%v), not by %s", failures[0].Check, failures[0].Err, b.check)
			}
			for _, w := range b.words {
				if !strings.Contains(failures[at].Err.Error(), w) {
					t.Errorf("the message lacks %q:\n%v", w, failures[at].Err)
				}
			}
			t.Logf("%s: %v", failures[at].Check, failures[at].Err)
		})
	}
}

// A sound policy passes.
func TestKitAccepts(t *testing.T) {
	if failures := policytest.CheckBy("", line(newLRUPolicy), newLRU); failures != nil {
		t.Error(failures)
	}
}

// A check can run alone, as with -run.
func TestOneCheckAlone(t *testing.T) {
	if err := policytest.RunAlone("Legal", line(newLRUPolicy)); err != nil {
		t.Error(err)
	}
	nameless := with(line(newLRUPolicy), func(e *policies.Entry) { e.Name = "" })
	if err := policytest.RunAlone("Legal", nameless); err == nil || !strings.Contains(err.Error(), "the entry's Name") {
		t.Error(err)
	}
}

func newLRUPolicy() policies.Policy { return new(lru.Policy) }

func sharedPolicy() func() policies.Policy {
	p := newLRUPolicy()
	return func() policies.Policy { return p }
}
