package render

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// The picture has both panels, the labels of the trace, and a name for every policy.
func TestCurvesAreSVG(t *testing.T) {
	b := mustBoard(t, rowstest.Synthetic())
	var out bytes.Buffer
	fatal.If(t, Curves(&out, b, "synthetic-qa.parquet", View{}))
	text := out.String()
	title := "[synthetic trace] Misses over capacity: synthetic-qa.parquet (K = 64, warm-up lru:32)<"
	for _, want := range []string{"<title>" + title, "222222\">" + title, ">opt<", ">opt-bypass", ">s3fifo<", ">misses ÷ OPT", ">miss ratio<"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	for dec := xml.NewDecoder(&out); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// A policy has a point for each known capacity, in ascending order. It keeps its place on a trace
// without it.
func TestCurvePoints(t *testing.T) {
	b := mustBoard(t, append(rowstest.HandRows(), rowstest.Row("c", "lru", "1x", 5)))
	lines := func(trace, name string) *figure.Lines { return curvesOn(b, trace, name, View{}) }
	all := lines("a", "miss-ratio").Lines
	at := slices.IndexFunc(all, func(l figure.Line) bool { return l.Name == "p" })
	// The misses are 50 and 30 of 100. 1x and 2x are known without entries.
	if got := fmt.Sprintf("%.3g", all[at].Points); got != "[{1 0.5 0.5 0.5} {2 0.3 0.3 0.3}]" {
		t.Errorf("points %s", got)
	}
	other := lines("c", "miss-ratio").Lines
	if len(other) != len(all) || other[at].Name != "p" || other[at].Points != nil {
		t.Errorf("on another trace: %+v, expected p at place %d without points", other, at)
	}
	if plot := lines("c", "x-opt"); plot != nil {
		t.Errorf("a trace without OPT has × OPT: %+v", plot)
	}
	var out bytes.Buffer
	fatal.If(t, Curves(&out, b, "c", View{}))
	if text := out.String(); strings.Contains(text, "OPT") || !strings.Contains(text, ">miss ratio<") {
		t.Error("the picture is not of miss ratios alone")
	}
}

// TestEntriesPlaceCapacities: if requests have different capacities, the mean counts, in multiples
// of K.
func TestEntriesPlaceCapacities(t *testing.T) {
	rows := append(rowstest.ByRequest("p", []int64{3, 4}), rowstest.ByRequest("opt", []int64{1, 2})...)
	for i := range rows {
		rows[i].Capacity, rows[i].CapacityEntries = rowstest.Ptr("0.2ctx"), rowstest.Ptr(int64(20*(1+i%2)))
	}
	if got := *mustBoard(t, rows).Cells[0].CapacityOverK; got != 3 { // (20 + 40) ÷ 2 ÷ 10
		t.Errorf("capacity %v K, want 3", got)
	}
	rows[0].CapacityEntries, rows[2].CapacityEntries = nil, nil // of one request
	if got := CurveTraces(mustBoard(t, rows)); got != nil {
		t.Errorf("curves of %v, whose capacities are not known", got)
	}
}

func TestCurveNames(t *testing.T) {
	var rows []result.Row
	for _, trace := range []string{"a b.parquet", "a_b", "../x"} {
		rows = append(rows, rowstest.Row(trace, "opt", "1x", 4), rowstest.Row(trace, "lru", "1x", 5))
	}
	b := mustBoard(t, rows)
	names, cold := CurveNames(b, "", nil), CurveNames(b, "-cold", []string{"curves-a_b-cold.svg"})
	for trace, want := range map[string][2]string{
		"a b.parquet": {"curves-a_b.svg", "curves-a_b-cold-2.svg"},
		"a_b":         {"curves-a_b-2.svg", "curves-a_b-cold-3.svg"},
		"../x":        {"curves-.._x.svg", "curves-.._x-cold.svg"},
	} {
		if got := [2]string{names[trace], cold[trace]}; got != want {
			t.Errorf("%s: %s, want %s", trace, got, want)
		}
	}
}
