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

// request returns the streams of a request, with their capacity, observation window and most blocks.
func request(layers, heads, capacity, window, most int) (streams []policies.Surveyed) {
	for l := range layers {
		for h := range heads {
			streams = append(streams, policies.Surveyed{Layer: int32(5 * l), Head: int32(h), Capacity: capacity, Most: most, Values: []float32{float32(window)}})
		}
	}
	return streams
}

// Three layers have 40 blocks each, with a window of 10. So B = 30, and the layers get 2·30 − 30÷5 =
// 54, 30 and 30÷5 = 6 blocks in addition to the window. The two heads of a layer get the same.
func TestLaw(t *testing.T) {
	if got := policytest.Divide(t, Entry, "beta=5", request(3, 2, 40, 10, 1000)); !slices.Equal(got, []int{64, 64, 40, 40, 16, 16}) {
		t.Error(got)
	}
	if got := policytest.Divide(t, Entry, "beta=1", request(3, 1, 40, 10, 1000)); !slices.Equal(got, []int{40, 40, 40}) {
		t.Errorf("beta 1 is uniform: %v", got)
	}
	// The first layer has room for only 50. Its other 14 blocks go to the others as 30 : 6, which is 11
	// and 2. The last block goes to the first layer with room.
	if got := policytest.Divide(t, Entry, "beta=5", request(3, 1, 40, 10, 50)); !slices.Equal(got, []int{50, 50, 20}) {
		t.Error(got)
	}
	// Without a window each layer gets one block. The other 18 are divided as 39 : 1, which is 17 and 0.
	// The last block goes to the first layer.
	if got := policytest.Divide(t, Entry, "beta=20", request(2, 1, 10, 0, 100)); !slices.Equal(got, []int{19, 1}) {
		t.Error(got)
	}
	// A budget below the window is used for the window.
	if got := policytest.Divide(t, Entry, "beta=20", request(2, 1, 4, 8, 100)); !slices.Equal(got, []int{4, 4}) {
		t.Error(got)
	}
}
