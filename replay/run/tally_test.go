package run

import (
	"testing"

	"github.com/kvreplay/kvreplay/replay/cache"
)

// A tally has the smallest and the largest capacity of its streams. Empty tallies do not change
// them. It adds up the streams whose whole context fits.
func TestTallies(t *testing.T) {
	var sum, part, none tally
	part.merge(&tally{cache.Counts{Streams: 1, Misses: 5}, 30, 40, 1})
	part.merge(&tally{cache.Counts{Streams: 1, Misses: 7}, 10, 50, 0})
	part.merge(&tally{cache.Counts{Streams: 1, Misses: 1}, 20, 20, 1})
	sum.merge(&none)
	sum.merge(&part)
	sum.merge(&none)
	if want := (tally{cache.Counts{Streams: 3, Misses: 13}, 10, 50, 2}); part != want || sum != want {
		t.Errorf("%+v and %+v, expected %+v", part, sum, want)
	}
}
