package policytest_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// What the program's own policies state is what they hold, to a byte; the
// kit itself asks of a claim that it is not too low.
func TestMemoryStatedIsHeld(t *testing.T) {
	for _, entry := range all.Table() {
		claimed, held, err := policytest.Claimed(entry)
		if err != nil {
			t.Fatalf("%s: %v", entry.Name, err)
		}
		if claimed > held+1.5 || held > claimed+0.75 {
			t.Errorf("%s states %v B a block of the context, and holds %.2f B", entry.Name, claimed, held)
		}
	}
}
