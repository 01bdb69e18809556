package board

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func mustCompareAll(t *testing.T, rows []result.Row, b string) *Comparisons {
	t.Helper()
	all, err := StartsOf(rows).CompareAll(b, Options{})
	fatal.If(t, err)
	return all
}

// TestCompareAllByHand: over seven requests close differs from best in neither direction, and worse
// loses all. Its p is 2 ÷ 2⁷, doubled for two tests. OPT is a bound and not tested.
func TestCompareAllByHand(t *testing.T) {
	g := mustCompareAll(t, rowstest.LetteredRows(), "best").Groups[0]
	var got []string
	for _, p := range g.Policies {
		got = append(got, fmt.Sprint(p.A, " ", p.Bound, " ", p.Better != nil && *p.Better == "best"))
	}
	if want := "close false false|worse false true|opt true false"; strings.Join(got, "|") != want {
		t.Fatalf("%q, want %q", strings.Join(got, "|"), want)
	}
	closest, worse, opt := g.Policies[0], g.Policies[1], g.Policies[2]
	if *worse.P != 2./128 || math.Abs(*worse.PHolm-4./128) > 1e-9 || *closest.PHolm != *closest.P || opt.PHolm != nil {
		t.Errorf("p %v → %v, %v → %v, %v", *worse.P, *worse.PHolm, *closest.P, *closest.PHolm, opt.PHolm)
	}
	// The figures equal those of a comparison of the two alone.
	if alone := mustCompare(t, rowstest.LetteredRows(), "worse", "best").Groups[0].Pooled; alone.Ratio.Value != worse.Ratio.Value || *alone.P != *worse.P {
		t.Errorf("%+v, alone %+v", worse.Contest, alone)
	}
}

// TestCompareAllLeavesOut: lossy policies, and those that ran elsewhere, are named in notes. A
// policy with fewer cells is marked.
func TestCompareAllLeavesOut(t *testing.T) {
	rows := append(rowstest.HandRows(), rowstest.Row("a", "lossy", "1x", 9), rowstest.Row("c", "late", "1x", 9), rowstest.Row("a", "few", "1x", 61))
	g := mustCompareAll(t, rows, "lru").Groups[0]
	var names []string
	for _, p := range g.Policies {
		names = append(names, fmt.Sprint(p.A, p.Cells))
	}
	if want := []string{"p3", "few1", "opt3"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	rowstest.WantNote(t, g.Notes, "Not compared, because they share no trace and capacity with lru: policies late")
	rowstest.WantNote(t, g.Notes, "Not compared, because they are lossy (kvreplay leaderboard ranks them): policies lossy")
	rowstest.WantNote(t, g.Notes, "Ratios over fewer cells are not comparable with the others")
	wantFigure(t, "p", g.Policies[0].Ratio, math.Cbrt(0.5))
	wantFigure(t, "few", g.Policies[1].Ratio, 61./60)
}

func TestCompareAllRefuses(t *testing.T) {
	settings := rowstest.HandRows()
	settings[6].Sink = 4
	for _, c := range []struct {
		rows    []result.Row
		b, want string
	}{
		{append(rowstest.HandRows(), rowstest.Row("a", "lossy", "1x", 9)), "lossy", "it is lossy"},
		{settings, "lru", "sink=4"},
		{[]result.Row{rowstest.Row("a", "p", "1x", 1), rowstest.Row("a", "q", "2x", 1)}, "p", "no other policy has the same traces and capacities"},
		{[]result.Row{rowstest.Row("a", "p", "1x", 1)}, "p", "no other policy has"},
	} {
		if _, err := StartsOf(c.rows).CompareAll(c.b, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("all with %s: error %v, want %q", c.b, err, c.want)
		}
	}
	var unknown *UnknownPolicy
	if _, err := StartsOf(rowstest.HandRows()).CompareAll("lrv", Options{}); !errors.As(err, &unknown) {
		t.Errorf("unknown policy: %v", err)
	}
}

// CompareAll tests many policies with shared exchanges. Its figures are those of Compare of each pair, also
// for policies that lack places or requests, or have no miss at some.
func TestCompareAllIsCompareOfEach(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	var rows []result.Row
	for trace, requests := range map[string]int{"few": 7, "many": 20} {
		for i, policy := range []string{"lru", "fifo", "lfu", "clock", "sieve", "random", "opt"} {
			for _, capacity := range []string{"1x", "2x", "4x"} {
				if policy == "clock" && capacity == "4x" || policy == "sieve" && trace == "few" {
					continue
				}
				for _, warmup := range []string{rowstest.Row("", "", "1x", 1).Warmup, result.ColdStart} {
					if policy == "random" && warmup == result.ColdStart {
						continue
					}
					for q := range requests {
						misses := int64(i) + rng.Int64N(30)
						if policy == "fifo" && capacity == "2x" || policy == "opt" {
							misses = 0
						}
						r := rowstest.ForRequest(rowstest.Row(trace, policy, capacity, misses), fmt.Sprintf("r%02d", q))
						r.Warmup = warmup
						rows = append(rows, r)
					}
				}
			}
		}
	}
	all := mustCompareAll(t, rows, "lru")
	compared := 0
	for _, g := range all.Groups {
		for _, p := range g.Policies {
			compared++
			for _, alone := range mustCompare(t, rows, p.A, "lru").Groups {
				if alone.Start != g.Start {
					continue
				}
				want := *alone.Pooled
				want.Better, want.Labels = p.Better, p.Labels // of the corrected p, and of all traces
				if !reflect.DeepEqual(p.Contest, want) || !slices.Equal(p.Labels, alone.Labels) {
					t.Errorf("%s, %s: %+v, alone %+v", g.Start, p.A, p.Contest, want)
				}
			}
		}
	}
	if compared != 11 {
		t.Errorf("%d comparisons, expected 11", compared)
	}
}
