package schedule

import (
	"strings"
	"testing"
)

// Help distinguishes the two schedules.
func TestScheduleListNamesAttention(t *testing.T) {
	for _, want := range []string{"sparse Top-K attention, all KV on the GPU", "dense attention over the whole context, all KV on the GPU"} {
		if !strings.Contains(List(), want) {
			t.Errorf("no %q in\n%s", want, List())
		}
	}
}
