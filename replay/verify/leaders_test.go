package verify

import (
	"context"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/metrics"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
)

// fewer misses than were counted.
func better(r *metrics.Row, misses int64) {
	r.Hits += r.Misses - misses
	r.Misses = misses
}

// Rows that come first by being false are found by every sample: those of the policy that
// is ranked first, wherever they are, and those below OPT, which no board takes.
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
		divisor int64    // of OPT's misses, which it then has
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

// The leaders are those of the board: exact and lossy ones, warmed and cold.
func TestLeaders(t *testing.T) {
	rows := replayed(t, newsPath, []string{"fifo", "lru", "lookahead", "opt", "streamingllm"}, []string{"2x"}, func(o *replay.Options) { o.Layers = []int32{0} })
	rows = append(rows, replayed(t, coldPath, []string{"fifo", "opt"}, []string{"2x"}, func(o *replay.Options) {
		o.Layers, o.Warmup = []int32{0}, replay.Warmup{Kind: replay.WarmupCold}
	})...)
	got := leaders(rows)
	if len(got) != 3 || !slices.Contains(got, "fifo") || slices.Contains(got, "opt") || slices.Contains(got, "lru") {
		t.Errorf("leaders %v, expected fifo of the cold rows, a lossy policy and the best exact one", got)
	}
	rows[0].TopK++ // these make no board
	if again := leaders(rows); !slices.Contains(again, "fifo") {
		t.Errorf("leaders %v, expected that of the other trace at least", again)
	}
}
