package sieve_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/policytest"
	"github.com/kvreplay/kvreplay/policies/sieve"
)

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, sieve.Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, sieve.Entry, "", newReference) }

func TestHistory(t *testing.T) {
	policytest.History(t, sieve.Entry, "", `
capacity 3
1 2 3 | 1 2 3 |
1     |       |   # a second step: visited
4     | 4     | 2 # the hand clears 1 and finds 2; it stops at 3
5     | 5     | 3
6     | 6     | 4 # as new as it is: the hand goes on to 5
1     |       |   # visited again
7     | 7     | 5
8     | 8     | 6
9     | 9     | 7 # the hand is at 8
8 2   | 2     | 9 # 8 is in use and passed over; the queue is 1 8 2, the hand at 2
3     | 3     | 2
4     | 4     | 3
5     | 5     | 4 # the queue is 1 8 5, the hand at 5
5 6   | 6     | 1 # past the head; 1 and 8 are cleared in the first round
`)
}

// A birth is inserted at the step before, ahead of the step's fetches.
func TestBirths(t *testing.T) {
	policytest.History(t, sieve.Entry, "", `
capacity 2
prompt 3
0 | 0 |     # token 2 is born: the queue is 2 0
1 | 1 | 0 2 # token 3 is born: the queue is 2 0 3 1, nothing is visited
3 |   | 1   # token 4 is born: the queue is 3 1 4, 3 is in use
`)
}
