package clock_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/clock"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, clock.Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, clock.Entry, "", newReference) }

func TestHistory(t *testing.T) {
	policytest.History(t, clock.Entry, "", `
capacity 3
1 2 3 | 1 2 3 |   # frames 0, 1, 2
1     |       |   # a second step: referenced
4     | 4     | 2 # the hand clears 1 and finds 2; 4 takes its frame
5     | 5     | 3 # frames 1 4 5, the hand past the end
6     | 6     | 1
7     | 7     | 4 # frames 6 7 5
5 8   | 8     | 6 # 5 is in use and passed over; frames 8 7 5
9     | 9     | 7
`)
}
