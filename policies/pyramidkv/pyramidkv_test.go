package pyramidkv

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func TestConformance(t *testing.T) {
	for _, options := range []string{"", "window=1,beta=1", "window=3,beta=2,pooling=avg"} {
		policytest.RunLossy(t, Entry, options)
	}
}

// requests are streams of a capacity, with windows and most blocks.
func request(layers, heads, capacity, window, most int) (streams []policies.Surveyed) {
	for l := range layers {
		for h := range heads {
			streams = append(streams, policies.Surveyed{Layer: int32(5 * l), Head: int32(h), Capacity: capacity, Most: most, Values: []float32{float32(window)}})
		}
	}
	return streams
}

// Three layers of 40 blocks, window 10: B = 30, so 2·30 − 30÷5 = 54, 30 and 30÷5 = 6 on top
// of the window. Two heads of a layer are alike.
func TestLaw(t *testing.T) {
	if got := policytest.Divide(t, Entry, "beta=5", request(3, 2, 40, 10, 1000)); !slices.Equal(got, []int{64, 64, 40, 40, 16, 16}) {
		t.Error(got)
	}
	if got := policytest.Divide(t, Entry, "beta=1", request(3, 1, 40, 10, 1000)); !slices.Equal(got, []int{40, 40, 40}) {
		t.Errorf("beta 1 is uniform: %v", got)
	}
	// The first layer has room for 50 only. Its other 14 go to the others as 30 : 6, that is 11 and 2.
	// The last one goes to the first layer with room.
	if got := policytest.Divide(t, Entry, "beta=5", request(3, 1, 40, 10, 50)); !slices.Equal(got, []int{50, 50, 20}) {
		t.Error(got)
	}
	// Without a window each layer has a block, and 39 to 1 of the 18 that are left: 17 and 0, and 1.
	if got := policytest.Divide(t, Entry, "beta=20", request(2, 1, 10, 0, 100)); !slices.Equal(got, []int{19, 1}) {
		t.Error(got)
	}
	// A budget below the window is the window's.
	if got := policytest.Divide(t, Entry, "beta=20", request(2, 1, 4, 8, 100)); !slices.Equal(got, []int{4, 4}) {
		t.Error(got)
	}
}
