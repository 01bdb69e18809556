package render

import (
	"bytes"
	"strings"
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

 trace  above                 tier  policy  capacity  part  bytes/step
───────────────────────────────────────────────────────────────────────
 a                            gpu   lru     2x        all          n/a
 a      lru@2x                dram  lru     2x        all          n/a
 a      lru@2x > dram=lru@2x  ssd   lru     2x        all          n/a
`
	if got := tableText(t, rows...); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A policy without capacity has no sum next to policies with several cells. It is compared with OPT
// at its largest size.
func TestSummaryWithoutCapacity(t *testing.T) {
	window := rowstest.Row("a", "window:1", "", 30)
	window.Capacity, window.CapacityEntries = nil, nil
	rows := []result.Row{rowstest.Row("a", "lru", "1x", 40), rowstest.Row("a", "opt", "1x", 20), rowstest.Row("a", "lru", "2x", 20),
		rowstest.Row("a", "opt", "2x", 10), window, rowstest.Row("a", "opt", "peak:window:1", 15)}
	const want = ` policy    misses             1x             2x    no capacity
───────────────────────────────────────────────────────────────
 opt           30  80.0 %  1.00×  90.0 %  1.00×              –
 lru           60  60.0 %  2.00×  80.0 %  2.00×              –
 window:1       –              –              –  70.0 %  2.00×
`
	var b bytes.Buffer
	fatal.If(t, Summary(&b, rows))
	if got, _, _ := strings.Cut(b.String(), "hit rate"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
