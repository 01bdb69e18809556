package render

import (
	"bytes"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// tableText returns the output of Rows.
func tableText(t *testing.T, rows ...result.Row) string {
	t.Helper()
	var b bytes.Buffer
	fatal.If(t, Rows(&b, rows))
	return b.String()
}

// A row's warnings appear below the table: those of one row with its mark, those of all without.
func TestTableShowsWarnings(t *testing.T) {
	lru, opt, cold := rowstest.Row("a", "lru", "10", 40), rowstest.Row("a", "opt", "10", 30), rowstest.Row("a", "lru", "2x", 20)
	lru.Warnings = []string{"overflow: by 7 blocks", "sampled"}
	opt.Warnings = []string{"overflow: by 9 blocks", "sampled"}
	cold.Warnings = []string{"sampled"}
	const want = ` trace  policy  capacity  part  demand  hits  misses  hit rate  bytes/step
───────────────────────────────────────────────────────────────────────────
 a      lru ¹   10        all      100    60      40    60.0 %         n/a
 a      opt ¹   10        all      100    70      30    70.0 %         n/a
 a      lru     2x        all      100    80      20    80.0 %         n/a
¹ overflow: by 7–9 blocks
all lines: sampled
`
	if got := tableText(t, lru, opt, cold); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Rows of tiers with the same policy and capacity are distinguished by their tier and the caches
// above.
func TestTableTellsTiersApart(t *testing.T) {
	rows := []result.Row{rowstest.Row("a", "lru", "2x", 100), rowstest.Row("a", "lru", "2x", 100), rowstest.Row("a", "lru", "2x", 60)}
	above := []string{"", "lru@2x", "lru@2x > dram=lru@2x"}
	for i := range rows {
		rows[i].Tiers, rows[i].Tier, rows[i].Above = "dram=lru@2x ssd=lru@2x", i, above[i]
	}
	const want = ` trace  above                 tier  policy  capacity  part  demand  hits  misses  hit rate
───────────────────────────────────────────────────────────────────────────────────────────
 a                            gpu   lru     2x        all      100     0     100     0.0 %
 a      lru@2x                dram  lru     2x        all      100     0     100     0.0 %
 a      lru@2x > dram=lru@2x  ssd   lru     2x        all      100    40      60    40.0 %

 trace  above                 bytes/step
─────────────────────────────────────────
 a                                   n/a
 a      lru@2x                       n/a
 a      lru@2x > dram=lru@2x         n/a
`
	if got := tableText(t, rows...); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
