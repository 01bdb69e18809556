// Package policytest is the conformance kit of policies. It checks the contract of
// policies/policies.go over random streams with births, pins, blocks, gaps, warm-ups, ties and
// overflow. A policy's test is one call:
//
//	func TestConformance(t *testing.T) {
//		policytest.Run(t, lru.Entry, "", func() policytest.Reference { return new(reference) })
//	}
//
// RunLossy does the same for a lossy policy (policies.Lossy). Both kinds of policy pass one kit,
// with the miss rule as a value. Each check is a subtest. Claims returns them in words, and
// `kvreplay policies check NAME --list` prints them.
//
// Histories that are worked out by hand (History, LossyHistory) check that a policy follows its paper.
//
// A failure names the seed of the smallest stream that shows it, and -policytest.seed draws that
// stream alone. Run counts allocations, so it must not be called from a parallel test. It counts those of
// the goroutine that calls the policy, not those of goroutines that the policy starts.
package policytest

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
)

// missRule is the fate of a demanded block that is not held.
type missRule uint8

const (
	fetch missRule = 1 << iota // it is fetched again: exact policies
	lose                       // it stays lost: lossy policies
)

// suite is a policy under test.
type suite struct {
	entry     policies.Entry
	options   string
	rule      missRule
	spec      policies.Spec
	make      func() policies.Policy
	needs     policies.Needs
	reference func() Reference // nil: none
	short     bool
	patient   bool   // whether long streams may take any time
	seed      uint64 // of the only stream to draw, 0: all
	seedFlag  string // by which the user sets it
}

// check is one claim of the contract.
type check struct {
	name  string
	run   func(*suite) error
	rules missRule // the kinds of policy that it checks
	gate  bool     // if it fails, the later checks make no sense
	about string   // the claim, for people
}

// needsReference is the check that needs a Reference.
const needsReference = "Reference"

var checks = []check{
	{"Entry", (*suite).entryHolds, fetch | lose, true, "The line of the table fits the policy: names, options that parse back, traits."},
	{"Legal", (*suite).legal, fetch | lose, true, "The engine accepts every answer, without a panic."},
	{"Deterministic", (*suite).deterministic, fetch | lose, true, "Two instances agree, and seeds matter only if Traits.Random says so."},
	{"Borrows", (*suite).borrows, fetch | lose, true, "Nothing that was lent is changed or kept, and answers are appended."},
	{"Forgets", (*suite).forgets, fetch | lose, true, "An instance that has seen other streams answers as a new one."},
	{"Allocates", (*suite).allocates, fetch | lose, false, "After its first stream, an instance allocates nothing in the goroutine of the call."},
	{"Memory", (*suite).remembers, fetch | lose, false, "The memory per block of the context is at most that of Traits.Memory."},
	{needsReference, (*suite).refereed, fetch, false, "Every step agrees with a literal transcription of the definition."},
	{"Optimum", (*suite).bounded, fetch, false, "The policy never misses less than opt, or opt-bypass for a bypasser."},
	{"Stack", (*suite).stacked, fetch, false, "A larger capacity has no other misses, if Traits.Stack claims so."},
	{"Sized", (*suite).sized, fetch, false, "Scope.Capacity changes nothing, unless the policy claims Traits.Sized."},
	{"Resize", (*suite).resized, fetch, false, "The reference also agrees at a capacity that grows and shrinks."},
	{"Single", (*suite).single, fetch, false, "Victims named one by one are those named at once, unless the policy is Sized."},
	{"Sweep", (*suite).swept, fetch, false, "At every step the pass of a Sweeper agrees with runs at single sizes."},
	{"Peek", (*suite).peeked, fetch, false, "A Peeker names its next victim and forgets nothing by it."},
	{"Online", (*suite).online, fetch | lose, false, "If a stream is cut short, the steps before the cut stay."},
	{"Apart", (*suite).apart, fetch | lose, false, "Two instances whose calls take turns answer as alone."},
	{"Shift", (*suite).shifted, fetch, false, "If all blocks are renumbered by a constant, the counts stay."},
	{"Long", (*suite).long, fetch, false, "A stream of more than 65,536 steps agrees with the reference."},
	{"Pool", (*suite).pooled, fetch, false, "In a pool, streams that demand nothing change nothing."},
	{"Follow", (*suite).followed, fetch, false, "In a pool, a Follower has the same counts if it follows the changes and if not."},
	{"Files", (*suite).filed, fetch, false, "Workers, cut files, larger entries and many capacities in one run give the same rows."},
	{"Divides", (*suite).divides, lose, false, "Budgets of a Divider are one per stream, at least one block, within the capacities."},
}

// Run checks a policy with the given options. newReference makes transcriptions of its definition.
// If it is nil, the checks that need one are left out.
func Run(t *testing.T, entry policies.Entry, options string, newReference func() Reference) {
	t.Helper()
	(&suite{entry: entry, options: options, rule: fetch, reference: newReference}).test(t)
}

// RunLossy checks a lossy policy with the given options, over random streams with attention masses.
// It counts allocations, so it must not be called from a parallel test.
func RunLossy(t *testing.T, entry policies.Entry, options string) {
	t.Helper()
	(&suite{entry: entry, options: options, rule: lose}).test(t)
}

func (s *suite) test(t *testing.T) {
	t.Helper()
	s.short, s.seed, s.seedFlag = testing.Short(), *onlySeed, seedFlag
	for _, c := range checks {
		if c.rules&s.rule == 0 {
			continue
		}
		ok := t.Run(c.name, func(t *testing.T) {
			if err := s.alone(c); err != nil {
				t.Errorf("%s: %v", s.name(), err)
			}
		})
		if !ok && c.gate {
			return
		}
	}
}

// alone runs a check. If -run leaves out the Entry check, alone makes the policy first.
func (s *suite) alone(c check) error {
	if c.name != "Entry" && s.make == nil {
		if err := s.entryHolds(); err != nil {
			return err
		}
	}
	return c.run(s)
}

// Claim is a check in words.
type Claim struct{ Name, About string }

// Claims returns the checks that Check runs for exact or lossy policies, in their order.
func Claims(lossy bool) (all []Claim) {
	for _, c := range checks {
		if c.rules&ruleOf(lossy) != 0 && c.name != needsReference {
			all = append(all, Claim{c.name, c.about})
		}
	}
	return all
}

// Options of Check.
type Options struct {
	// Names are those of the checks that run. nil: all.
	Names []string
	// Short draws fewer streams.
	Short bool
	// Seed draws only the stream of this seed, which a failure prints. 0: all.
	Seed uint64
}

// Check is Run or RunLossy without a test and a Reference. It yields the name of each check, and the
// failure or nil.
func Check(entry policies.Entry, options string, o Options) iter.Seq2[string, error] {
	s := &suite{entry: entry, options: options, rule: ruleOf(entry.Traits.Lossy), short: o.Short, seed: o.Seed, seedFlag: "--seed"}
	if o.Names == nil {
		for _, c := range Claims(entry.Traits.Lossy) {
			o.Names = append(o.Names, c.Name)
		}
	}
	return s.results(func(c check) bool { return slices.Contains(o.Names, c.name) })
}

func ruleOf(lossy bool) missRule {
	if lossy {
		return lose
	}
	return fetch
}

// results runs the checks that are wanted, up to the failure of one that gates others.
func (s *suite) results(wanted func(check) bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, c := range checks {
			if c.rules&s.rule == 0 || !wanted(c) {
				continue
			}
			err := s.alone(c)
			if !yield(c.name, err) || err != nil && c.gate {
				return
			}
		}
	}
}

func (s *suite) parse() error {
	spec, err := policies.NewTable(s.entry).Parse(s.text())
	if err != nil {
		return err
	}
	s.spec, s.make = spec, spec.Make
	s.needs = policies.NeedsOf(spec.Make())
	return nil
}

// text returns the policy as a user types it.
func (s *suite) text() string {
	if s.options == "" {
		return s.entry.Name
	}
	return s.entry.Name + ":" + s.options
}

func (s *suite) name() string { return fmt.Sprintf("policy %s", s.text()) }
