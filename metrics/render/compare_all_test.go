package render

import (
	"bytes"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func mustCompareAll(t *testing.T, rows []result.Row, b string) *board.Comparisons {
	t.Helper()
	all, err := board.StartsOf(rows).CompareAll(b, board.Options{})
	fatal.If(t, err)
	return all
}

// TestCompareAllNeedsMoreRequests: six requests can decide one test, but not one of two.
func TestCompareAllNeedsMoreRequests(t *testing.T) {
	rows := slices.DeleteFunc(rowstest.LetteredRows(), func(r result.Row) bool { return *r.RequestID == "r006" })
	if mustCompare(t, rows, "worse", "best").Groups[0].Pooled.Better == nil {
		t.Error("six requests cannot decide one test")
	}
	all := mustCompareAll(t, rows, "best")
	var out bytes.Buffer
	fatal.If(t, Comparisons(all, Whole).Text(&out))
	if words := rowstest.LineOf(t, out.String(), "worse"); strings.Join(words[len(words)-3:], " ") != "n = 6" || !strings.Contains(out.String(), "N requests are too few, a decision") {
		t.Errorf("%q in\n%s", words, &out)
	}
}

func TestCompareAllRenderings(t *testing.T) {
	all := mustCompareAll(t, rowstest.Synthetic(), "lru")
	for name, render := range map[string]func(io.Writer) error{"compare_all.txt": Comparisons(all, View{}).Text, "compare_all.md": Comparisons(all, Whole).Markdown} {
		var out bytes.Buffer
		fatal.If(t, render(&out))
		rowstest.Golden(t, name, out.Bytes())
	}
	document := rowstest.Document(t, "BOARD.md")
	for _, name := range rowstest.JSONNames(reflect.TypeFor[board.Comparisons]()) {
		if !strings.Contains(document, "`"+name+"`") {
			t.Errorf("BOARD.md does not document `%s`", name)
		}
	}
	var out bytes.Buffer
	if err := text.WriteJSON(&out, all); err != nil || strings.Contains(out.String(), `"notes": null`) || !strings.Contains(out.String(), `"p_holm": 0.0078125`) {
		t.Errorf("%v\n%s", err, &out)
	}
}
