package verify

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics"
	"github.com/kvreplay/kvreplay/replay"
)

// Rows of outliers, swaps and clusters hold, and differ once their setting is another one;
// those of a file of clusters need it.
func TestVerifyMechanisms(t *testing.T) {
	const clustered = "../../datasets/corpus/selectors_qa_text.retroinfer.parquet"
	lists, err := replay.ParseClusters("lists,page=4")
	if err != nil {
		t.Fatal(err)
	}
	swap, err := replay.ParsePrefetch("candidates:16,swap")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path    string
		options func(*replay.Options)
		change  func(*metrics.Row)
		verdict Verdict
	}{
		"outliers": {newsPath, func(o *replay.Options) {
			o.Outliers, o.Shape.BlockTokens = replay.Outliers{Source: replay.OutliersWindows, Count: 8}, 8
		}, func(r *metrics.Row) { r.Outliers = "windows:9" }, Differs},
		"swap":     {newsPath, func(o *replay.Options) { o.Prefetch = swap }, func(r *metrics.Row) { r.Prefetch = "candidates:16" }, Differs},
		"clusters": {clustered, func(o *replay.Options) { o.Clusters = lists }, func(r *metrics.Row) { r.Clusters = "lists,page=8" }, Differs},
		"file":     {clustered, func(o *replay.Options) { o.Clusters = lists }, func(r *metrics.Row) { r.Clusters = "sha256:0123456789abcdef" }, Unverifiable},
	} {
		rows := replayed(t, c.path, []string{"lru"}, []string{"2x"}, c.options)
		if r := verified(t, rows, c.path); r.Holding != len(rows) {
			t.Errorf("%s: %s", name, r.Summary())
		}
		c.change(&rows[0])
		if r := verified(t, rows, c.path); r.Outcomes[0].Verdict != c.verdict {
			t.Errorf("%s: %s, expected %s: %s", name, r.Outcomes[0].Verdict, c.verdict, strings.TrimSpace(r.Outcomes[0].details()))
		}
	}
}
