package duoattention

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
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
	fatal.If(t, err)
	return make().(policies.Divider)
}

// Two windows demand blocks. In the first, 3 and 4 are neither among the first 2 blocks nor among
// the 3 in front of the local window. The local window of the second begins one block later.
func TestMeasure(t *testing.T) {
	p := newPolicy(t, "sink=2,recent=3")
	windows := []policies.Window{{Demand: []int32{0, 1, 3, 4, 7}, Local: 8}, {Demand: []int32{1, 5, 6}, Local: 9}}
	if got := p.Survey(&policies.Prompt{Windows: windows}, nil); !slices.Equal(got, []float32{3.0 / 8}) {
		t.Error(got)
	}
	mass := []float32{1, 1, 2, 0, 2, 1, 1, 5}
	if got := p.Survey(&policies.Prompt{Mass: mass, End: 7}, nil); !slices.Equal(got, []float32{2.0 / 8}) { // token 2 of 8. 7 is pinned
		t.Error(got)
	}
	one := []policies.Window{{Demand: []int32{5}, Local: 9}}
	if got := p.Survey(&policies.Prompt{Windows: one}, nil); !slices.Equal(got, []float32{1}) {
		t.Errorf("all that one window demands is far: %v", got)
	}
	if got := p.Survey(&policies.Prompt{Mass: make([]float32, 8), End: 7}, nil); !slices.Equal(got, []float32{0}) {
		t.Errorf("a head without mass: %v", got)
	}
}

// Four heads of 20 blocks have contexts of 50. The streaming heads have 10 each in any case. With
// the 40 left, the head with the largest share becomes whole. Not enough is left for another.
func TestDivision(t *testing.T) {
	var streams []policies.Surveyed
	for head, far := range []float32{0.1, 0.5, 0.9, 0.5} {
		streams = append(streams, policies.Surveyed{Head: int32(head), Capacity: 20, Most: 50, Values: []float32{far}})
	}
	if got := newPolicy(t, "").Divide(streams); !slices.Equal(got, []int{10, 10, 50, 10}) {
		t.Error(got)
	}
	// Twice the memory gives two whole heads (the first of the tied ones) and 30 to each other head.
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

// If a head with a larger share does not fit, the heads behind it are streaming heads too. They
// keep 10 each, and 10 more of the 20 that are left, or all their blocks.
func TestWholeHeadsAreTheFirst(t *testing.T) {
	streams := []policies.Surveyed{{Capacity: 20, Most: 12, Values: []float32{0.5}}, {Capacity: 20, Most: 50, Values: []float32{0.9}}}
	if got := newPolicy(t, "full=1").Divide(streams); !slices.Equal(got, []int{12, 28}) {
		t.Error(got)
	}
	streams[0].Most = 25
	if got := newPolicy(t, "full=1").Divide(streams); !slices.Equal(got, []int{20, 20}) {
		t.Error(got)
	}
}

// A streaming head has at least one block, so 19 more for a whole head are one too many. Memory
// that no head can use stays free.
func TestLeastAndMost(t *testing.T) {
	streams := []policies.Surveyed{{Capacity: 10, Most: 20, Values: []float32{0.9}}, {Capacity: 10, Most: 20, Values: []float32{0.5}}}
	if got := newPolicy(t, "stream=0").Divide(streams); !slices.Equal(got, []int{10, 10}) {
		t.Error(got)
	}
	for i := range streams {
		streams[i].Capacity = 30
	}
	if got := newPolicy(t, "full=0").Divide(streams); !slices.Equal(got, []int{20, 20}) {
		t.Error(got)
	}
}

// With sink=4 and recent=1, four of five blocks are first blocks. Pinned blocks are not in the budget.
func TestFirstBlocks(t *testing.T) {
	for first, want := range map[int]int32{0: 4, 1: 4, 4: 4, 6: 6} {
		p := &Policy{Sink: 4, Recent: 1}
		fatal.If(t, p.Reset(&policies.Scope{Capacity: 5}))
		p.Prompt(&policies.Prompt{First: first, End: 9, Blocks: 10})
		if got := p.Evict(1, nil); !slices.Equal(got, []int32{want}) {
			t.Errorf("of %d pinned blocks: drops %v first, want %d", first, got, want)
		}
	}
}

// 0.7 of 90 heads are 63, and so are 0.7 of 90 blocks. The float product is less.
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
