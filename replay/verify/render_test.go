package verify

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// rendered returns the report as text. It has a line about the rows, each row that was drawn or
// does not hold, and the conclusions.
func rendered(t *testing.T, r *Report) string {
	t.Helper()
	var out strings.Builder
	fatal.If(t, r.RenderTable(&out))
	return out.String()
}

func TestRenderTable(t *testing.T) {
	two, x, layer := "2x", "x", int32(3)
	all := &Report{Rows: 1, Sample: 1, Holding: 1, Outcomes: []Outcome{{Row: 7, Trace: "a", Policy: "window:2", Verdict: Holds}}}
	if got, want := rendered(t, all), ` row  trace  policy    capacity  part  verdict
───────────────────────────────────────────────
   7  a      window:2  –         all   holds
all 1 rows: 1 hold, 0 differ, 0 unverifiable
`; got != want {
		t.Errorf("all rows:\n%s\nexpected\n%s", got, want)
	}
	drawn := &Report{
		Rows: 40, Seed: 5, Sample: 1, Others: 2, Leaders: []string{"lru", "p"}, Holding: 1, Differing: 1, Unverifiable: 1,
		Outcomes: []Outcome{
			{Row: 7, Trace: "a", Policy: "lru", Capacity: &two, Part: Part{RequestID: &x, LayerID: &layer}, Verdict: Differs, Differences: []Difference{{"hits", "3", "2"}, {"misses", "1", "2"}}},
			{Row: 12, Trace: "b", Policy: "p", Capacity: &two, Verdict: Unverifiable, Reason: "no trace of --traces has the digest"},
		},
		Gaps: []Gap{
			{Trace: "a", Policy: "lru", Capacity: &two, Lacks: []Part{{LayerID: &layer}}, Parts: 4},
			{Trace: "a", Policy: "p", Capacity: &two, Lacks: []Part{{LayerID: &layer}}, Parts: 4},
		},
		Renamed: []Renamed{{"a", "c"}}, Skipped: []string{"d.parquet is no trace"},
	}
	if got, want := rendered(t, drawn), ` row  trace  policy  capacity  part       verdict
───────────────────────────────────────────────────────
   7  a      lru     2x        x layer 3  differs
  12  b      p       2x        all        unverifiable
row 7 differs: hits 3, replayed 2
row 7 differs: misses 1, replayed 2
row 12 unverifiable: no trace of --traces has the digest
always in the sample: every cell of the policies on rank 1 (lru, p), and the row with the lowest × OPT
incomplete: a: rows lack 1 of 4 parts: layer 3, in lru at 2x, p at 2x
other name: trace a of the rows is the file c
skipped: d.parquet is no trace
1 of 40 rows, drawn with seed 5, and 2 more of the same cells: 1 hold, 1 differ, 1 unverifiable; incomplete cells: 2
`; got != want {
		t.Errorf("a sample:\n%s\nexpected\n%s", got, want)
	}
	for range 7 { // of many parts and cells the first eight are named
		drawn.Gaps[0].Lacks = append(drawn.Gaps[0].Lacks, Part{RequestID: &x})
		drawn.Gaps = append(drawn.Gaps, drawn.Gaps[1])
	}
	drawn.Gaps = append(drawn.Gaps, drawn.Gaps[1])
	drawn.Gaps[0].Lacks = append(drawn.Gaps[0].Lacks, Part{LayerID: &layer})
	lines := drawn.gapLines()
	if want := "a: rows lack 9 of 4 parts: layer 3" + strings.Repeat(", x", 7) + ", …, in lru at 2x"; len(lines) != 2 || lines[0] != want {
		t.Errorf("incomplete cells %q, expected %q first", lines, want)
	}
	if want := "in " + strings.Repeat("p at 2x, ", 8) + "… (9 cells)"; !strings.HasSuffix(lines[1], want) {
		t.Errorf("incomplete cells %q, expected %q last", lines, want)
	}
}

// The report keeps the outcomes of drawn rows and of others that do not hold. It notes a trace with
// another name once.
func TestReportKeeps(t *testing.T) {
	r := new(Report)
	for _, o := range []struct {
		verdict Verdict
		drawn   bool
	}{{Holds, true}, {Holds, false}, {Differs, false}, {Unverifiable, true}} {
		r.add(Outcome{Verdict: o.verdict}, o.drawn)
	}
	if r.Holding != 2 || r.Differing != 1 || r.Unverifiable != 1 || r.Others != 2 || len(r.Outcomes) != 3 {
		t.Errorf("%+v", r)
	}
	row := result.Row{Setting: result.Setting{Trace: "a"}}
	r.rename(&row, "b")
	r.rename(&row, "b")
	r.rename(&row, "c")
	if len(r.Renamed) != 2 {
		t.Errorf("renamed %v", r.Renamed)
	}
}
