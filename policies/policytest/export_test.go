package policytest

import (
	"strconv"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
)

// Failure is a check that a policy does not pass.
type Failure struct {
	Check string
	Err   error
}

// CheckBy returns the failures of an exact policy in the named check ("" for all), and in the checks
// that gate others.
func CheckBy(name string, entry policies.Entry, newReference func() Reference) []Failure {
	return (&suite{entry: entry, rule: fetch, reference: newReference}).failures(name)
}

// CheckLossyBy is CheckBy for lossy policies.
func CheckLossyBy(name string, entry policies.Entry, options string) []Failure {
	return (&suite{entry: entry, options: options, rule: lose}).failures(name)
}

func (s *suite) failures(name string) (failures []Failure) {
	s.short, s.patient, s.seedFlag = testing.Short(), true, seedFlag // also on a loaded machine
	for check, err := range s.results(func(c check) bool { return c.gate || c.name == name || name == "" }) {
		if err != nil {
			failures = append(failures, Failure{check, err})
		}
	}
	return failures
}

// RunAlone runs one of Run's checks without the others.
func RunAlone(name string, entry policies.Entry) error {
	s := &suite{entry: entry, rule: fetch, short: true}
	for _, c := range checks {
		if c.name == name {
			return s.alone(c)
		}
	}
	panic("no check " + name)
}

// Claimed returns the memory in bytes per block of the context: the number in the entry, and the
// measured one.
func Claimed(entry policies.Entry) (claimed, held float64, err error) {
	s := &suite{entry: entry, options: entry.Example, rule: fetch}
	if entry.Traits.Lossy {
		s.rule = lose
	}
	if err := s.parse(); err != nil {
		return 0, 0, err
	}
	claim, err := strconv.ParseFloat(bytesClaimed.FindStringSubmatch(entry.Traits.Memory)[1], 64)
	if err != nil {
		return 0, 0, err
	}
	held, err = s.memoryEach()
	return claim, held, err
}
