package echo_test

import (
	"context"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/echo"
	"github.com/kvreplay/kvreplay/policies/policytest"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

func newReference(calibrate bool) func() policytest.Reference {
	return func() policytest.Reference { return &reference{calibrate: calibrate} }
}

func TestConformance(t *testing.T) { policytest.Run(t, echo.Entry, "", newReference(true)) }

func TestConformanceWithoutCalibration(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short the default is enough")
	}
	policytest.Run(t, echo.Entry, "calibrate=off", newReference(false))
}

func TestConformanceOfASample(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short long turns are enough")
	}
	policytest.Run(t, echo.Entry, "calibrate=sample", newSample(100))
}

func TestConformanceOfFineDistances(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short the default and trees are enough")
	}
	policytest.Run(t, echo.Entry, "calibrate=fine", func() policytest.Reference { return &reference{calibrate: true, fine: true} })
}

func TestConformanceOfTrees(t *testing.T) {
	policytest.Run(t, echo.Entry, "calibrate=trees", func() policytest.Reference { return &reference{calibrate: true, trees: true} })
}

// The kit's demands are small. Here a turn has as many steps as the demand has blocks.
func TestConformanceOfLongTurns(t *testing.T) {
	e := echo.EntryOf("sample, each 8th step")
	e.Traits.Aligned = 8 * 64
	policytest.Run(t, e, "", newSample(1))
}

func newSample(n int) func() policytest.Reference {
	return func() policytest.Reference { return &reference{calibrate: true, sample: n} }
}

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, echo.Entry, "", newReference(true)) }

// TestMisses replays bundled traces. The expected misses come from two other programs, in Python and
// in C++, and those with trees from one. They share no code with this package.
func TestMisses(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short the reference is enough")
	}
	for _, c := range []struct {
		trace, policy string
		misses        []int64 // at 1.25, 1.5, 2, 3 and 4 × K
	}{
		{"smollm2_multi_news_8k", "echo", []int64{31007, 25368, 19089, 13295, 10454}},
		{"smollm2_multi_news_8k", "echo:calibrate=off", []int64{31193, 25564, 19226, 13362, 10506}},
		{"smollm2_multi_news_8k", "echo:calibrate=trees", []int64{31244, 25552, 19221, 13306, 10499}},
		{"smollm2_niah_multikey_3_4k", "echo", []int64{196305, 160436, 121128, 86117, 70755}},
		{"smollm2_niah_multikey_3_4k", "echo:calibrate=off", []int64{196592, 161632, 122112, 86722, 71201}},
		{"smollm2_niah_1k_sglang", "echo", []int64{21677, 18192, 14308, 10667, 8592}},
		{"smollm2_niah_1k_sglang", "echo:calibrate=off", []int64{21762, 18426, 14493, 10752, 8700}},
		{"smollm2_niah_1k_sglang", "echo:calibrate=trees", []int64{21611, 18091, 14236, 10665, 8720}},
	} {
		f, err := trace.Open("../../datasets/bundled/" + c.trace + ".parquet")
		fatal.If(t, err)
		defer f.Close()
		spec, err := policies.NewTable(echo.Entry).Parse(c.policy)
		fatal.If(t, err)
		capacities, err := replay.ParseCapacities([]string{"1.25x", "1.5x", "2x", "3x", "4x"})
		fatal.If(t, err)
		r, err := replay.Run(context.Background(), f, replay.Options{Policies: []policies.Spec{spec}, Capacities: capacities})
		fatal.If(t, err)
		var got []int64
		for _, row := range r.Rows {
			got = append(got, row.Misses)
		}
		if !slices.Equal(got, c.misses) {
			t.Errorf("%s on %s misses %v, expected %v", c.policy, c.trace, got, c.misses)
		}
	}
}
