package board

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// handTimer takes a second per cell, and another for every hit. Times therefore order the policies
// in the reverse order of misses.
type handTimer struct{ without string }

func (h handTimer) TPOT(r *result.Row) (float64, error) {
	if r.Policy == h.without || h.without == "all" {
		return 0, errors.New("no time")
	}
	return 1 + float64(r.Hits), nil
}

func (handTimer) Model() TimeModel {
	return TimeModel{Hardware: "abacus", Model: "tiny", Schedule: "sequential", Batch: 4, Assumptions: []string{"hits take a second"}}
}

func timedBoard(t *testing.T, h handTimer, by string) *Board {
	t.Helper()
	b, err := NewBoard(rowstest.HandRows(), Options{Timer: h, By: by})
	fatal.If(t, err)
	return b
}

// In the cells a 1x, a 2x and b 1x, lru has 40, 60 and 85 hits, and p has 50, 70 and 88. Their
// times are 41, 61 and 86 s, and 51, 71 and 89 s, pooled by the geometric mean.
func TestTimesByHand(t *testing.T) {
	b := timedBoard(t, handTimer{}, "")
	p := b.Tables[0].Ranked[0]
	if want := math.Cbrt(51 * 71 * 89); p.Policy != "p" || math.Abs(*p.Pooled.TPOT/want-1) > 1e-5 {
		t.Errorf("%s takes %v, expected %v", p.Policy, *p.Pooled.TPOT, want)
	}
	if at := p.Capacities[1].TPOT; *at != 71 {
		t.Errorf("at 2x p takes %v, expected 71", *at)
	}
	if b.RankedBy != ByMisses || b.Time.Hardware != "abacus" {
		t.Errorf("ranked by %s, times %+v", b.RankedBy, b.Time)
	}
	ranked := timedBoard(t, handTimer{}, ByTime).Tables[0].Ranked
	if ranked[0].Policy != "lru" || ranked[1].Policy != "p" || ranked[1].Rank != "2" {
		t.Errorf("by time %+v", ranked)
	}
}

// missTimer takes a second, and a thousandth for every miss per step.
type missTimer struct{ handTimer }

func (missTimer) TPOT(r *result.Row) (float64, error) {
	return 1 + float64(r.Misses)/float64(r.Steps)/1000, nil
}

// Ranked by time, policies have the letters of their times.
func TestLettersByTime(t *testing.T) {
	b, err := NewBoard(rowstest.LetteredRows(), Options{Timer: missTimer{}, By: ByTime})
	fatal.If(t, err)
	for i, want := range []string{"1 best a", "2 close a", "3 worse b"} {
		l := b.Tables[0].Ranked[i]
		if got := fmt.Sprint(l.Rank, " ", l.Policy, " ", l.Letters); got != want {
			t.Errorf("line %d: %s, want %s", i+1, got, want)
		}
	}
	rowstest.WantNote(t, b.Tables[0].Notes, "Permutation test over 7 requests, Holm for 3 pairs")
	rowstest.WantNote(t, b.Tables[0].Notes, "within 3 % of those of `kvreplay time` on a sequential schedule")
	if notes := strings.Join(b.Tables[0].Notes, "\n"); strings.Contains(notes, "95 %:") {
		t.Errorf("the notes explain a column that a table by time has not:\n%s", notes)
	}
}

// Requests divide the time of their cell. Each has the time at its own rate of misses, for its
// share of the steps.
func TestRequestTimes(t *testing.T) {
	misses := []int64{3, 25, 41, 66, 90}
	cells, err := newCells(result.Pointers(rowstest.ByRequest("p", misses)))
	fatal.If(t, err)
	g, err := newGrid(cells, newSampler(Options{Resamples: 100}))
	fatal.If(t, err)
	g.clock = &clock{missTimer{}, map[*cell]float64{}, map[string][]string{}}
	p, sum := g.at(CellRef{"a", "1x"}, "p"), 0.0
	for i, got := range g.requestTimes(p) {
		sum += got
		if want := (1 + float64(misses[i])/10/1000) / 5; math.Abs(got-want) > 1e-12 { // ten steps each
			t.Errorf("request %d: %v s, want %v", i, got, want)
		}
	}
	if want := g.clock.time(p); math.Abs(sum-want) > 1e-12 {
		t.Errorf("%v s in all, want %v", sum, want)
	}
}

// movedTimer reads the moved entries of a row in addition to its misses.
type movedTimer struct{ missTimer }

func (movedTimer) TPOT(r *result.Row) (float64, error) {
	return float64(r.Misses) + 1e3*float64(r.MovedEntries) + 1e6*float64(r.Prefetched) + 1e9*float64(*r.HostToDeviceBytes), nil
}

// A cell with half the misses would have moved and prefetched half as much.
func TestTimeOfOtherMisses(t *testing.T) {
	r := rowstest.Row("a", "p", "1x", 40)
	r.Prefetched, r.MovedEntries, r.EntryBytes, r.HostToDeviceBytes, r.DeviceToHostBytes = 6, 120, rowstest.Ptr(2), rowstest.Ptr(int64(240)), rowstest.Ptr(int64(0))
	c, err := newCells(result.Pointers([]result.Row{r}))
	fatal.If(t, err)
	k := &clock{movedTimer{}, map[*cell]float64{}, map[string][]string{}}
	for misses, want := range map[float64]float64{40: 40 + 120e3 + 6e6 + 240e9, 20: 20 + 60e3 + 3e6 + 120e9, 0: 0} {
		if got := k.timeAt(c[0], misses); got != want {
			t.Errorf("%g misses: %v, want %v", misses, got, want)
		}
	}
}
