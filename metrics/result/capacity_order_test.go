package result_test

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
)

func TestCapacityOrder(t *testing.T) {
	got := result.SortCapacities([]string{"64MiB", "10x", "6400", "0.2ctx", "2x", "1GiB", "800", "odd", "2x"})
	if want := "2x 10x 0.2ctx 800 6400 64MiB 1GiB odd"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
