package policytest

import (
	"strconv"

	"github.com/kvreplay/kvreplay/policies"
)

// CheckBy is Check by the named check and by those that keep others from being run.
func CheckBy(name string, entry policies.Entry, newReference func() Reference) []Failure {
	return checkBy(some(checks, name), entry, "", newReference)
}

// CheckLossyBy is CheckLossy by the named check and by those that keep others from being run.
func CheckLossyBy(name string, entry policies.Entry) []Failure {
	return checkBy(some(lossyChecks, name), entry, "", nil)
}

func some(all []check, name string) (some []check) {
	for _, c := range all {
		if c.gate || c.name == name {
			some = append(some, c)
		}
	}
	return some
}

// RunAlone is one of Run's checks, the others left out.
func RunAlone(name string, entry policies.Entry) error {
	s := &suite{entry: entry, short: true}
	for _, c := range checks {
		if c.name == name {
			return s.after(s.exactEntry, c)
		}
	}
	panic("no check " + name)
}

// Claimed is the memory in bytes that the entry states for a block of the context, and what
// an instance holds for it.
func Claimed(entry policies.Entry) (claimed, held float64, err error) {
	s := &suite{entry: entry, options: entry.Example}
	if err := s.parse(); err != nil {
		return 0, 0, err
	}
	claim, err := strconv.ParseFloat(bytesClaimed.FindStringSubmatch(entry.Traits.Memory)[1], 64)
	if err != nil {
		return 0, 0, err
	}
	held, err = s.heldEach()
	return claim, held, err
}
