package importer

import (
	"fmt"
	"testing"
)

// Sorting a list without an order also sorts its parallel columns.
func TestAscend(t *testing.T) {
	r := record{indices: []int32{3, 1, 2}, scores: []float32{0.5, 0.25, 0.75}, attention: []float32{30, 10, 20}}
	r.ascend()
	if got := fmt.Sprint(r.indices, r.scores, r.attention); got != "[1 2 3] [0.25 0.75 0.5] [10 20 30]" {
		t.Error(got)
	}
}
