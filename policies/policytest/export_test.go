package policytest

import (
	"strconv"

	"github.com/kvreplay/kvreplay/policies"
)

// CheckBy does the same as Check with the named check, and with the checks that gate others.
func CheckBy(name string, entry policies.Entry, newReference func() Reference) []Failure {
	return (&suite{entry: entry, rule: fetch, reference: newReference}).failures(some(name))
}

// CheckLossyBy does the same as CheckLossy with the named check, and with the checks that gate others.
func CheckLossyBy(name string, entry policies.Entry) []Failure {
	return (&suite{entry: entry, rule: lose}).failures(some(name))
}

func some(name string) (some []check) {
	for _, c := range checks {
		if c.gate || c.name == name {
			some = append(some, c)
		}
	}
	return some
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
