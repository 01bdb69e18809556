package s3fifo_test

import (
	"fmt"
	"testing"

	"github.com/kvreplay/kvreplay/policies/policytest"
	"github.com/kvreplay/kvreplay/policies/s3fifo"
)

func newReference(small float64) func() policytest.Reference {
	return func() policytest.Reference { return &reference{share: small} }
}

func TestConformance(t *testing.T) { policytest.Run(t, s3fifo.Entry, "", newReference(0.1)) }

func TestConformanceOfShares(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short the default options are checked")
	}
	for _, small := range []float64{0.25, 0.5, 0.9} {
		text := fmt.Sprintf("small=%v", small)
		t.Run(text, func(t *testing.T) { policytest.Run(t, s3fifo.Entry, text, newReference(small)) })
	}
}

func FuzzConformance(f *testing.F) {
	policytest.Fuzz(f, s3fifo.Entry, "small=0.3", newReference(0.3))
}

// The small queue has room for one block, the main queue for three, and the ghost queue for three.
func TestHistory(t *testing.T) {
	policytest.History(t, s3fifo.Entry, "small=0.25", `
capacity 4
1 2 3 4 | 1 2 3 4 |
1       |         |     # frequency 1
1 2     |         |     # frequencies 2 and 1
5       | 5       | 2   # 1 moves to the main queue, 2 goes: a ghost
2       | 2       | 3   # 2 is remembered: the main queue is 1 2; ghosts 3
6       | 6       | 4
7       | 7       | 5   # the small queue is 6 7; ghosts 3 4 5
3 4     | 3 4     | 6 7 # both are remembered: the main queue is 1 2 3 4, one too many; ghosts 5 6 7
8       | 8       | 1   # the small queue is 8, in use
2 3     |         |     # frequency 1 each
9       | 9       | 8   # ghosts 6 7 8
9 5     | 5       | 4   # 5 is forgotten: the small queue is 9 5, in use; 2 and 3 go back to the head, 4 has frequency 0
`)
}
