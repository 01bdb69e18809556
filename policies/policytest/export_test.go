package policytest

import "github.com/kvreplay/kvreplay/policies"

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
