package cache

import (
	"reflect"
	"slices"
	"testing"
)

// Add sums every count, except for peaks, of which it takes the larger.
func TestCountsAdd(t *testing.T) {
	fields := reflect.TypeFor[Counts]()
	peaks := []string{"ResidentPeak", "StagingPeak", "PinnedPeak"}
	var a, b Counts
	for i := range fields.NumField() {
		reflect.ValueOf(&a).Elem().Field(i).SetInt(int64(100 + i))
		reflect.ValueOf(&b).Elem().Field(i).SetInt(int64(1000 + 3*i))
	}
	for _, c := range [][2]Counts{{a, b}, {b, a}} {
		sum := c[0]
		sum.Add(&c[1])
		for i := range fields.NumField() {
			want := int64(1100 + 4*i)
			if slices.Contains(peaks, fields.Field(i).Name) {
				want = int64(1000 + 3*i)
			}
			if got := reflect.ValueOf(sum).Field(i).Int(); got != want {
				t.Errorf("%s: %d, expected %d", fields.Field(i).Name, got, want)
			}
		}
	}
}
