// Package policytest is the conformance kit of policies: what policies/policies.go asks
// for, checked over random streams with births, pins, blocks, gaps, warm-ups, ties and
// overflow. A policy's test is one call:
//
//	func TestConformance(t *testing.T) {
//		policytest.Run(t, lru.Entry, "", func() policytest.Reference { return new(reference) })
//	}
//
// The checks, each a subtest:
//
//	Entry          the line of the table: names, options that parse back, traits that fit the methods
//	Legal          every answer is one that the engine accepts; nothing panics
//	Deterministic  two instances agree; seeds matter only where Traits.Random says so
//	Borrows        nothing that was lent is changed or kept; answers are appended
//	Forgets        an instance that has seen other streams does as a new one
//	Allocates      nothing, once an instance has seen a stream
//	Memory         no more a block of the context than Traits.Memory states
//	Reference      every step does what a literal transcription of the definition does
//	Optimum        never fewer misses than opt, or opt-bypass for a bypasser
//	Stack          a larger capacity misses nothing else, where Traits.Stack claims it
//	Sized          Scope.Capacity means nothing to a policy that does not claim Traits.Sized
//	Resize         at a capacity that grows and shrinks all the same holds, for a Resizer and
//	               for who never looks at the capacity
//	Single         victims asked for one by one are those asked for at once, where Traits.Sized
//	               is not claimed
//	Sweep          a Sweeper's pass says at every step what runs at single sizes do
//	Peek           a Peeker names what it then evicts first, and forgets nothing by it
//	Online         with a stream cut short, the steps before the cut stay as they were
//	Apart          two instances whose calls are made in turn answer as they do alone
//	Shift          streams with all blocks renumbered by a constant give the same counts
//	Long           a stream of more steps than 16 bits can number does what the reference says
//	Pool           in a pool (--pool) it changes nothing how many streams demand nothing
//	Files          workers, files cut in two, entries of twice the bytes, many capacities in one
//	               run: the same rows
//
// A failure names the seed of the smallest stream that shows it; -policytest.seed draws
// that stream alone. Run must not be called from a parallel test: it counts allocations.
package policytest

import (
	"fmt"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
)

// suite is a policy under test.
type suite struct {
	entry     policies.Entry
	options   string
	spec      policies.Spec
	make      func() policies.Policy
	needs     policies.Needs
	reference func() Reference // nil: none
	short     bool
}

// check is one claim of the contract.
type check struct {
	name string
	run  func(*suite) error
	gate bool // what follows makes no sense where this fails
}

var checks = []check{
	{"Entry", (*suite).exactEntry, true},
	{"Legal", (*suite).legal, true},
	{"Deterministic", (*suite).deterministic, true},
	{"Borrows", (*suite).borrows, true},
	{"Forgets", (*suite).forgets, true},
	{"Allocates", (*suite).allocates, false},
	{"Memory", (*suite).remembers, false},
	{"Reference", (*suite).refereed, false},
	{"Optimum", (*suite).bounded, false},
	{"Stack", (*suite).stacked, false},
	{"Sized", (*suite).sized, false},
	{"Resize", (*suite).resized, false},
	{"Single", (*suite).single, false},
	{"Sweep", (*suite).swept, false},
	{"Peek", (*suite).peeked, false},
	{"Online", (*suite).online, false},
	{"Apart", (*suite).apart, false},
	{"Shift", (*suite).shifted, false},
	{"Long", (*suite).long, false},
	{"Pool", (*suite).pooled, false},
	{"Files", (*suite).filed, false},
}

// Run checks a policy with the given options. newReference makes transcriptions of its
// definition; nil leaves that check out.
func Run(t *testing.T, entry policies.Entry, options string, newReference func() Reference) {
	t.Helper()
	s := &suite{entry: entry, options: options, reference: newReference, short: testing.Short()}
	for _, c := range checks {
		ok := t.Run(c.name, func(t *testing.T) {
			if err := s.after(s.exactEntry, c); err != nil {
				t.Errorf("%s: %v", s.name(), err)
			}
		})
		if !ok && c.gate {
			return
		}
	}
}

// after runs a check; where -run leaves out that of the entry, it is made first.
func (s *suite) after(entry func() error, c check) error {
	if c.name != "Entry" && s.make == nil {
		if err := entry(); err != nil {
			return err
		}
	}
	return c.run(s)
}

// Failure is a check that a policy does not pass.
type Failure struct {
	Check string // name of Run's subtest
	Err   error
}

// Check is Run without a test: it returns what fails, in the order of Run.
func Check(entry policies.Entry, options string, newReference func() Reference) []Failure {
	return checkBy(checks, entry, options, newReference)
}

// checkBy is Check by some of the checks.
func checkBy(checks []check, entry policies.Entry, options string, newReference func() Reference) (failures []Failure) {
	s := &suite{entry: entry, options: options, reference: newReference, short: testing.Testing() && testing.Short()}
	for _, c := range checks {
		if err := c.run(s); err != nil {
			failures = append(failures, Failure{c.name, err})
			if c.gate {
				break
			}
		}
	}
	return failures
}

// parse makes the policy from its entry and options.
func (s *suite) parse() error {
	spec, err := policies.NewTable(s.entry).Parse(s.text())
	if err != nil {
		return err
	}
	s.spec, s.make = spec, spec.Make
	s.needs = policies.NeedsOf(spec.Make())
	return nil
}

// text is the policy as a user types it.
func (s *suite) text() string {
	if s.options == "" {
		return s.entry.Name
	}
	return s.entry.Name + ":" + s.options
}

func (s *suite) name() string { return fmt.Sprintf("policy %s", s.text()) }
