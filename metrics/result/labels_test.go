package result_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func TestLabels(t *testing.T) {
	l := result.Labels{result.LabelFitted, result.LabelOraclePolicy}.With(result.LabelScaledHeads(4), result.LabelScaledK(6.4), result.LabelStretched, result.LabelSynthetic, result.LabelFitted, result.LabelOneRequest)
	const want = "synthetic trace, 1 request, K scaled ×6.4, heads scaled ×4, layers stretched, oracle policy, fitted constant"
	if l.String() != want || !slices.Equal(result.ParseLabels(want), l) || len(result.ParseLabels("")) != 0 {
		t.Errorf("%s, expected %s", l, want)
	}
	if got := l.Without(result.Labels{result.LabelFitted, result.LabelSynthetic}).Title("t"); got != "[1 request, K scaled ×6.4, heads scaled ×4, layers stretched, oracle policy] t" || (result.Labels{}).Title("t") != "t" {
		t.Errorf("title %q", got)
	}
	w, err := result.ParseWhere([]string{"labels=synthetic trace"})
	fatal.If(t, err)
	not, err := result.ParseWhere([]string{"labels!=synthetic trace"})
	fatal.If(t, err)
	if w, err := result.ParseWhere([]string{"labels=none"}); err != nil {
		t.Error(err)
	} else if _, err := w.Filter(rowstest.LabelledRows()); err == nil || !strings.HasSuffix(err.Error(), "the rows have labels: synthetic trace, 1 request, oracle policy") {
		t.Errorf("%v, expected each label once", err)
	}
	for _, r := range rowstest.LabelledRows() {
		if got := w.Selects(&r); got != (r.Trace == "a") || got == not.Selects(&r) {
			t.Errorf("labels %q: selected %t", r.Labels, got)
		}
	}
}
