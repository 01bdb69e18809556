package verify

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
)

// If some parts have no rows, the others hold, and the cell is reported as incomplete.
func TestPartsLeftOut(t *testing.T) {
	path := manyRequests(t)
	for name, c := range map[string]struct {
		per    replay.Detail
		tiered bool
		drop   func(*result.Row) bool
		lacks  string // missing parts of the first cell
		cells  int
	}{
		"none":          {replay.PerStream, true, func(*result.Row) bool { return false }, "", 0},
		"a policy":      {replay.PerRequest, false, func(r *result.Row) bool { return r.Policy == "fifo" }, "", 0},
		"a request":     {replay.PerRequest, false, func(r *result.Row) bool { return *r.RequestID == "a,b" }, "rows lack 1 of 5 parts: a,b", 2},
		"of one policy": {replay.PerRequest, false, func(r *result.Row) bool { return r.Policy == "lru" && *r.RequestID > "b" }, "rows lack 2 of 5 parts: c, d,e", 1},
		"a head":        {replay.PerStream, false, func(r *result.Row) bool { return *r.RequestID == "c" && *r.Head == 1 }, "rows lack 1 of 10 parts: c layer 0 head 1", 2},
		"of a tier":     {replay.PerRequest, true, func(r *result.Row) bool { return r.Tier == 1 && *r.RequestID == "c" }, "rows lack 1 of 5 parts: c", 2},
		"a tier":        {replay.PerRequest, true, func(r *result.Row) bool { return r.Tier == 1 }, "", 0},
	} {
		rows := replayed(t, path, []string{"lru", "fifo"}, []string{"1x"}, func(o *replay.Options) {
			o.Per = c.per
			if tier, err := replay.ParseTier(all.Table(), "dram=lru@2x"); err != nil {
				t.Fatal(err)
			} else if c.tiered {
				o.Tiers = []replay.Tier{tier}
			}
		})
		rows = slices.DeleteFunc(rows, func(r result.Row) bool { return c.drop(&r) })
		r := verified(t, rows, path)
		if r.Holding != len(rows) || len(r.Gaps) != c.cells {
			t.Errorf("%s: %s, expected %d cells incomplete", name, r.Summary(), c.cells)
			continue
		}
		if lines := strings.Join(r.gapLines(), "\n"); !strings.Contains(lines, c.lacks) {
			t.Errorf("%s: %s, expected %q", name, lines, c.lacks)
		}
	}
}

// A filter selects the rows to judge. Rows that it leaves out are not a gap.
func TestFilterIsNoGap(t *testing.T) {
	path := manyRequests(t)
	rows := replayed(t, path, []string{"lru", "fifo"}, []string{"1x"}, func(o *replay.Options) { o.Per = replay.PerRequest })
	rows[1].Misses--
	rows[1].Hits++
	where, err := result.ParseWhere([]string{"request_id=c"})
	fatal.If(t, err)
	r, err := Rows(context.Background(), rows, Options{Policies: all.Table(), Traces: []string{path}, Where: where, Sample: 1})
	if err != nil || r.Rows != 2 || r.Holding != 2 || len(r.Gaps) != 0 || r.Outcomes[0].Row != 4 {
		t.Errorf("%v, %s, first row %d", err, r.Summary(), r.Outcomes[0].Row)
	}
}

// The other rows of a replayed cell are also compared.
func TestOthersOfTheCellAreCompared(t *testing.T) {
	path := manyRequests(t)
	rows := replayed(t, path, []string{"lru"}, []string{"1x"}, func(o *replay.Options) { o.Per = replay.PerStream })
	rows[7].Misses--
	rows[7].Hits++
	for seed := range uint64(20) {
		r, err := Rows(context.Background(), rows, Options{Policies: all.Table(), Traces: []string{path}, Sample: 1, Seed: seed})
		if err != nil || r.Sample+r.Others != len(rows) || r.Holding != len(rows)-1 || r.Differing != 1 {
			t.Fatalf("seed %d: %v, %s", seed, err, r.Summary())
		}
		if !slices.ContainsFunc(r.Outcomes, func(o Outcome) bool { return o.Row == 8 && o.Verdict == Differs }) {
			t.Fatalf("seed %d: row 8 is not among the outcomes: %s", seed, r.Summary())
		}
	}
}
