package duoattention

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func TestConformance(t *testing.T) {
	for _, options := range []string{"", "full=1,stream=0,sink=1,recent=2", "full=0,stream=1,sink=0"} {
		policytest.RunLossy(t, Entry, options)
	}
}

func newPolicy(t *testing.T, options string) policies.Divider {
	t.Helper()
	make, _, err := Entry.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return make().(policies.Divider)
}

// Of what two windows demand, 3 and 4 of the first are neither among the first 2 blocks nor
// among the 3 in front of the local window; the second's window is one further.
func TestMeasure(t *testing.T) {
	p := newPolicy(t, "sink=2,recent=3")
	windows := []policies.Window{{Demand: []int32{0, 1, 3, 4, 7}, Local: 8}, {Demand: []int32{1, 5, 6}, Local: 9}}
	if got := p.Survey(&policies.Prompt{Windows: windows}, nil); !slices.Equal(got, []float32{3.0 / 8}) {
		t.Error(got)
	}
	mass := []float32{1, 1, 2, 0, 2, 1, 1, 5}
	if got := p.Survey(&policies.Prompt{Mass: mass, End: 7}, nil); !slices.Equal(got, []float32{2.0 / 8}) { // token 2 of 8; 7 is pinned
		t.Error(got)
	}
}

// Four heads of 20 blocks, contexts of 50. The streaming heads have 10 each in any case; of
// the 40 left, the head with the largest share becomes whole, and there is none for another.
func TestDivision(t *testing.T) {
	var streams []policies.Surveyed
	for head, far := range []float32{0.1, 0.5, 0.9, 0.5} {
		streams = append(streams, policies.Surveyed{Head: int32(head), Capacity: 20, Most: 50, Values: []float32{far}})
	}
	if got := newPolicy(t, "").Divide(streams); !slices.Equal(got, []int{10, 10, 50, 10}) {
		t.Error(got)
	}
	// Twice the memory: two whole heads, of the tied ones the first, and 30 to each other.
	for i := range streams {
		streams[i].Capacity = 40
	}
	if got := newPolicy(t, "").Divide(streams); !slices.Equal(got, []int{30, 50, 50, 30}) {
		t.Error(got)
	}
	if got := newPolicy(t, "full=0.25").Divide(streams); !slices.Equal(got, []int{37, 37, 50, 36}) {
		t.Error(got)
	}
}

// 0.7 of 90 heads are 63, and 0.7 of 90 blocks, though the float next to 0.7 times 90 is less.
func TestSharesAsWritten(t *testing.T) {
	streams := make([]policies.Surveyed, 90)
	for i := range streams {
		streams[i] = policies.Surveyed{Capacity: 10, Most: 11, Values: []float32{float32(i)}}
	}
	whole := 0
	for _, b := range (&Policy{Full: 0.7}).Divide(streams) {
		if b == 11 {
			whole++
		}
	}
	if whole != 63 {
		t.Errorf("%d retrieval heads, want 63", whole)
	}
	if got := (&Policy{Stream: 0.7}).least(policies.Surveyed{Capacity: 90, Most: 99}); got != 63 {
		t.Errorf("a streaming head has %d blocks, want 63", got)
	}
}

// A streaming head of five blocks keeps one first block and four recent ones.
func TestHistory(t *testing.T) {
	policytest.LossyHistory(t, Entry, "", `
capacity 5
prompt 8
prompt |   | 1 2
0 1 3  | 1 | 3
3 4    | 3 | 4
`)
}
