package render

import (
	"fmt"
	"slices"
	"testing"
)

// A table shows few of many capacities: familiar ones, or an even selection.
func TestColumns(t *testing.T) {
	var dense, context []string
	for n := 16; n <= 64; n++ {
		dense = append(dense, fmt.Sprintf("%.4gx", float64(n)/16))
	}
	for n := range 11 {
		context = append(context, fmt.Sprintf("0.%02dctx", 5*n+1))
	}
	for _, c := range []struct{ all, want []string }{
		{[]string{"1x", "2x", "0.2ctx"}, []string{"1x", "2x", "0.2ctx"}},
		{dense, []string{"1x", "1.5x", "2x", "3x", "4x"}},
		{[]string{"1x", "1.1x", "1.2x", "1.3x", "1.4x", "2.1x", "9x", "800"}, []string{"1x", "1.1x", "1.2x", "1.4x", "2.1x", "800"}},
		{[]string{"8x", "9x", "10x", "11x", "12x", "13x", "14x", "15x"}, []string{"8x", "9x", "10x", "12x", "13x", "15x"}},
		{context, []string{"0.01ctx", "0.11ctx", "0.21ctx", "0.31ctx", "0.41ctx", "0.51ctx"}},
	} {
		var got []string
		for _, i := range shownCapacities(c.all) {
			got = append(got, c.all[i])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("of %v the table shows %v, want %v", c.all, got, c.want)
		}
	}
}
