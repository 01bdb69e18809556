package verify

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
)

// better gives a row fewer misses than were counted.
func better(r *result.Row, misses int64) {
	r.Hits += r.Misses - misses
	r.Misses = misses
}

// Every sample finds rows that come first by false counts. These are the rows of the policy that is
// ranked first, in any cell, and rows below OPT, which no board accepts.
func TestClaimsAreAlwaysReplayed(t *testing.T) {
	path := manyRequests(t)
	names := []string{"lru", "fifo", "clock", "sieve", "opt"}
	rows := replayed(t, path, names, []string{"1x", "1.5x", "2x", "2.5x", "3x", "3.5x"}, nil)
	optimum := map[string]int64{}
	for _, r := range rows {
		if r.Policy == "opt" {
			optimum[*r.Capacity] = r.Misses
		}
	}
	for name, c := range map[string]struct {
		altered []string // capacities at which sieve's row is altered
		divisor int64    // divides OPT's misses to give the row's
	}{
		"as good as OPT at half of the capacities": {[]string{"1.5x", "2x", "3x"}, 1},
		"below OPT in one cell":                    {[]string{"1.5x"}, 2},
	} {
		altered := slices.Clone(rows)
		for i := range altered {
			if r := &altered[i]; r.Policy == "sieve" && slices.Contains(c.altered, *r.Capacity) {
				better(r, optimum[*r.Capacity]/c.divisor)
			}
		}
		for seed := range uint64(20) {
			r, err := Rows(context.Background(), altered, Options{Policies: all.Table(), Traces: []string{path}, Sample: 1, Seed: seed})
			if err != nil || r.Differing != len(c.altered) {
				t.Fatalf("%s, seed %d: %v, %s, leaders %v", name, seed, err, r.Summary(), r.Leaders)
			}
		}
	}
}

// claimed returns a row of 100 demanded blocks of a trace's request. text is its policy, capacity
// and misses, "lru 2x 40", and the tier if it is of one.
func claimed(trace, request, text string) result.Row {
	r := result.Row{Setting: result.Setting{Trace: trace, TraceDigest: trace, TopK: 4, BlockTokens: 1}, Schema: result.RowSchema, Streams: 1, Steps: 10, Demand: 100}
	var capacity string
	if _, err := fmt.Sscan(text+" 0", &r.Policy, &capacity, &r.Misses, &r.Tier); err != nil {
		panic(err)
	}
	if r.Capacity, r.Hits = &capacity, r.Demand-r.Misses; request != "" {
		r.RequestID = &request
	}
	r.Offline = r.Policy == "opt"
	if r.Tier > 0 {
		r.Tiers, r.Above = "dram=lru@8x", "lru@2x"
	}
	return r
}

// A board ranks all traces together. Rows with different settings make no common board, so they are
// ranked for each trace, or for each setting of a trace. Rows without an optimum have no leader.
func TestLeadersByHand(t *testing.T) {
	a := []result.Row{claimed("a", "", "opt 1x 10"), claimed("a", "", "p 1x 11"), claimed("a", "", "q 1x 40")}
	b := []result.Row{claimed("b", "", "opt 1x 10"), claimed("b", "", "p 1x 20"), claimed("b", "", "q 1x 19")}
	tie := []result.Row{claimed("c", "", "r 1x 20"), claimed("c", "", "opt 1x 10"), claimed("c", "", "s 1x 20"), claimed("c", "", "t 1x 21")}
	none := []result.Row{claimed("d", "", "u 1x 20")} // without OPT
	other := slices.Clone(b)
	for i := range other {
		other[i].Seed = 7
	}
	resized := []result.Row{claimed("a", "", "opt 1x 9"), claimed("a", "", "p 1x 30"), claimed("a", "", "q 1x 15")}
	for i := range resized {
		resized[i].Local = 8
	}
	for name, c := range map[string]struct {
		rows []result.Row
		want string
	}{
		"one board":      {slices.Concat(a, b), "[p]"},
		"a tie":          {tie, "[r s]"},
		"trace by trace": {slices.Concat(a, other, none), "[p q]"},
		"no board":       {none, "[]"},
		"by setting":     {slices.Concat(a, resized), "[p q]"},
		"one alone":      {a[:2], "[p]"},
		"no shared cell": {slices.Concat(a[:2], b[:1], b[2:]), "[p q]"},
	} {
		if got := fmt.Sprint(leaders(c.rows)); got != c.want {
			t.Errorf("%s: %s, expected %s", name, got, c.want)
		}
	}
}

// The first row of every cell of a leader is always drawn. Among all contenders, the row with the
// lowest ratio to OPT's row of the same part is also drawn, the first among equals.
func TestClaimsByHand(t *testing.T) {
	rows := []result.Row{
		claimed("a", "x", "opt 1x 10"), claimed("a", "y", "opt 1x 20"), claimed("a", "x", "opt 2x 0"), // rows 0 to 2
		claimed("a", "x", "p 1x 15"), claimed("a", "y", "p 1x 40"), claimed("a", "x", "p 2x 3"), claimed("b", "x", "p 1x 1"), // rows 3 to 6
		claimed("a", "x", "q 1x 13"), claimed("a", "y", "q 1x 26"), claimed("a", "y", "r 1x 26"), // rows 7 to 9, each with 1.3 × OPT
		claimed("a", "x", "q 2x 0"), claimed("a", "x", "p 2x 1 1"), claimed("a", "x", "s 1x 1"), // rows 10 to 12: no misses of OPT, a tier, lossy
	}
	rows[12].Lossy, rows[12].Misses, rows[12].Lost = true, 0, 1
	all := make([]int, len(rows))
	for i := range all {
		all[i] = i
	}
	for name, c := range map[string]struct {
		among   []int
		leaders []string
		want    []int
	}{
		"the first of every cell": {all, []string{"p"}, []int{3, 5, 6, 7}},
		"of those drawn from":     {all[4:], []string{"p"}, []int{4, 5, 6, 7}},
		"the first of equals":     {all[8:], nil, []int{8}},
		"no OPT, no miss of OPT":  {[]int{0, 5, 6, 10, 11, 12}, nil, nil},
	} {
		if got := claims(rows, c.among, c.leaders); !slices.Equal(got, c.want) {
			t.Errorf("%s: rows %v, expected %v", name, got, c.want)
		}
	}
}

// The leaders are the policies that the board ranks first: exact and lossy, warmed and cold.
func TestLeaders(t *testing.T) {
	rows := replayed(t, newsPath, []string{"fifo", "lru", "lookahead", "opt", "streamingllm"}, []string{"2x"}, func(o *replay.Options) { o.Layers = []int32{0} })
	rows = append(rows, replayed(t, coldPath, []string{"fifo", "opt"}, []string{"2x"}, func(o *replay.Options) {
		o.Layers, o.Warmup = []int32{0}, replay.Warmup{Kind: replay.WarmupCold}
	})...)
	got := leaders(rows)
	if len(got) != 3 || !slices.Contains(got, "fifo") || slices.Contains(got, "opt") || slices.Contains(got, "lru") {
		t.Errorf("leaders %v, expected fifo of the cold rows, a lossy policy and the best exact one", got)
	}
	rows[0].TopK++ // these rows make no board
	if again := leaders(rows); !slices.Contains(again, "fifo") {
		t.Errorf("leaders %v, expected that of the other trace at least", again)
	}
}
