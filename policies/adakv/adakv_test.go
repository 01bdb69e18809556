package adakv

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
	"github.com/kvreplay/kvreplay/trace"
)

func TestConformance(t *testing.T) {
	for _, options := range []string{"", "window=1,alpha=0", "window=3,alpha=1,pooling=avg"} {
		policytest.RunLossy(t, Entry, options)
	}
}

// Two heads of 6 blocks, window 2: N = 8 scores. The scores are 9 8 7 6 5 4 | 9 3 2 1. The largest
// eight are the first head's six and the second's 9 and 3. With alpha ½ and 4 per head on average,
// the budgets are 2 + (6+4)/2 = 7 and 2 + (2+4)/2 = 5. The next layer is divided separately.
func TestLaw(t *testing.T) {
	wide, narrow := []float32{2, 9, 8, 7, 6, 5, 4}, []float32{2, 9, 3, 2, 1}
	streams := []policies.Surveyed{
		{Layer: 0, Head: 0, Capacity: 6, Most: 100, Values: wide}, {Layer: 0, Head: 1, Capacity: 6, Most: 100, Values: narrow},
		{Layer: 1, Head: 0, Capacity: 6, Most: 100, Values: narrow}, {Layer: 1, Head: 1, Capacity: 6, Most: 100, Values: narrow},
	}
	if got := policytest.Divide(t, Entry, "alpha=0.5", streams); !slices.Equal(got, []int{7, 5, 6, 6}) {
		t.Error(got)
	}
	if got := policytest.Divide(t, Entry, "alpha=0", streams[:2]); !slices.Equal(got, []int{8, 4}) {
		t.Error(got)
	}
	// The order of the heads matters only for ties, which go to the first. Eight of ten equal scores
	// are marked, all five of the first head.
	if got := policytest.Divide(t, Entry, "alpha=0", []policies.Surveyed{streams[1], streams[0]}); !slices.Equal(got, []int{4, 8}) {
		t.Error(got)
	}
	flat := policies.Surveyed{Capacity: 6, Most: 100, Values: []float32{2, 9, 9, 9, 9, 9}}
	if got := policytest.Divide(t, Entry, "alpha=0", []policies.Surveyed{flat, flat}); !slices.Equal(got, []int{7, 5}) {
		t.Error(got)
	}
	if got := policytest.Divide(t, Entry, "alpha=1", streams[:2]); !slices.Equal(got, []int{6, 6}) {
		t.Error(got)
	}
	streams[0].Most = 6 // the first head is full, so the second gets the rest
	if got := policytest.Divide(t, Entry, "alpha=0", streams[:2]); !slices.Equal(got, []int{6, 6}) {
		t.Error(got)
	}
}

// A layer whose heads share one selection has nothing to divide. It keeps its capacity, as under
// SnapKV.
func TestLayerWithOneSelection(t *testing.T) {
	streams := []policies.Surveyed{
		{Layer: 0, Head: trace.NoHead, Capacity: 6, Most: 100, Values: []float32{2, 9, 3}},
		{Layer: 1, Head: trace.NoHead, Capacity: 6, Most: 100, Values: []float32{2, 9, 8, 7, 6, 5, 4}},
	}
	for _, options := range []string{"", "alpha=0", "alpha=1"} {
		if got := policytest.Divide(t, Entry, options, streams); !slices.Equal(got, []int{6, 6}) {
			t.Error(options, got)
		}
	}
}

// The first and the last of eight blocks are pinned, and one of the two observed ones is held.
func TestSurvey(t *testing.T) {
	make, _, err := Entry.New("window=2,kernel=1")
	fatal.If(t, err)
	prompt := &policies.Prompt{Blocks: 8, First: 1, End: 7, Mass: []float32{9, 1, 5, 2, 4, 3, 8, 8}}
	if got := make().(policies.Divider).Survey(prompt, []float32{7}); !slices.Equal(got, []float32{7, 1, 5, 4, 3, 2, 1}) {
		t.Errorf("%v, want what was there, 1 block observed, and the masses 5 4 3 2 1", got)
	}
}
