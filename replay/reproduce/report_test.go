package reproduce_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

const sampleData = `
figures: 2
tables: 1
printed:
  table-1: [{row: 2, time: 100}]
sections:
  - section: table-1
    title: "Table 1: a|b"
    covers: [Table 1]
    method: By hand.
    constants: [{id: v, name: v, unit: B/s, from: row 1}]
    figures: [{name: sample-1, alt: "a line of {points}", title: T, x: x, y: y}]
    defaults: {unit: ms, gate_relative: 0.05}
    lines:
      - {item: row 1, kind: fitted, printed: 100}
      - {id: row, each: table-1, item: "row {row}", kind: transferred, printed: time}
      - {item: row 3, kind: prediction, reference: 100, from: twice row 0, miss: a disturbed run}
      - {item: rises, unit: "", kind: ordinal}
      - {item: row 5, unit: "", kind: not computable, printed: 3, note: not stated}
    contradictions: ["{four} is not 5"]
  - {section: fig-2, title: Figure 2, covers: [Fig. 2], method: ""}
gaps:
  - {place: Fig. 1, shows: loads, printed: [1.5 ×, 2 ×], why: a plot}
`

// sample is a paper with a line of every verdict. ours is the value of the judged one.
func sample(ours float64) reproduce.Paper {
	return reproduce.Paper{Name: "sample", Citation: "A. Author, A *paper*", Data: sampleData, Study: func(s *reproduce.Study) {
		s.Compute(func() {
			d := s.Section("table-1")
			d.Let("v", 25e9)
			d.Let("four", 4)
			d.Let("points", "two points")
			d.Draw("sample-1", []figure.Line{{Name: "a", Points: []figure.Point{figure.At(1, 0.5)}}})
			d.Holds("rises", reproduce.None, true)
			d.Set("row 3", 150)
			d.Set("row", ours, s.Rows("table-1")[0])
			d.Set("row 1", 100)
		}, "table-1")
	}}
}

func report(t *testing.T, ours float64, sections ...string) *reproduce.Report {
	t.Helper()
	r, err := reproduce.Make(context.Background(), []reproduce.Paper{sample(ours)}, reproduce.Inputs{Sections: sections})
	fatal.If(t, err)
	return r
}

func TestReport(t *testing.T) {
	r := report(t, 104)
	if past := r.Past(); past != nil {
		t.Errorf("past their gates: %v", past)
	}
	if past := report(t, 106).Past(); len(past) != 1 || past[0] != "sample/table-1: row 2" {
		t.Errorf("a figure off by 6 %% at a gate of 5 %%: past %v", past)
	}
	s := r.Papers[0].Sections[0].Summary
	if s.Judged != 3 || s.Within != 2 || s.Known != 1 || s.Past != 0 || s.Fitted != 1 || s.Absent != 1 || math.Abs(float64(s.Worst)-0.5) > 1e-12 {
		t.Errorf("summary %+v", s)
	}
	if got, want := s.String(), "3 judged, 2 within their gates; worst error 50.0 %; 1 known to miss; 1 fitted; 1 not computable"; got != want {
		t.Errorf("summary %q, want %q", got, want)
	}
}

func TestRender(t *testing.T) {
	r := report(t, 104)
	var text, md, table, data bytes.Buffer
	for _, err := range []error{r.RenderTable(&text), r.RenderMarkdown(&md, true), r.RenderCSV(&table), r.RenderJSON(&data)} {
		fatal.If(t, err)
	}
	for what, want := range map[string][]string{
		text.String(): {"+4.0 %", "± 5 %", "known miss", "row 3: a disturbed run", "contradiction: 4 is not 5", "v = 25000000000 B/s (row 1)", "not judged",
			"kvreplay checks 3 published figures and statements. 2 are within their gates. 1 are beyond their gates for a stated reason, and 0 without one.", "Reference: twice row 0.",
			"without a line: Fig. 1: loads (2 printed: 1.5 ×, 2 ×). A plot."},
		md.String(): {"| row 2 | 100 ms | – | 104 ms | +4.0 % |", "| row 3 | – | 100 ms | 150 ms |", `A \*paper\*`, "![a line of two points](reproduction/sample-1.svg)", `<a id="sample-table-1"></a>`, `a\|b](#sample-table-1)`, "<!-- split -->\nkvreplay checks 3 published", "| sample | 1 | 1 | 0 | 1 | 0 | 0 | 1 | 1 | 2 | 1 | 0 |", "| Fig. 1 | loads | 1.5 ×, 2 × | a plot |"},
	} {
		for _, w := range want {
			if !strings.Contains(what, w) {
				t.Errorf("the report lacks %q:\n%s", w, what)
			}
		}
	}
	rows, err := csv.NewReader(&table).ReadAll()
	if err != nil || len(rows) != 6 || rows[3][4] != "prediction" || rows[3][5] != "" || rows[3][6] != "100" || rows[5][8] != "" || rows[2][12] != "within" {
		t.Errorf("CSV: %v, %v", rows, err)
	}
	var decoded struct {
		Headline string
		Split    []reproduce.Split
		Papers   []struct {
			Gaps     []struct{ Place string } `json:"without_line"`
			Sections []struct {
				Lines []struct {
					Kind                     reproduce.Kind
					Printed, Reference, Ours *float64
				}
			}
		}
	}
	fatal.If(t, json.Unmarshal(data.Bytes(), &decoded))
	l := decoded.Papers[0].Sections[0].Lines
	if len(l) != 5 || *l[1].Ours != 104 || l[1].Kind != reproduce.Transferred || l[4].Ours != nil || l[2].Printed != nil || *l[2].Reference != 100 {
		t.Errorf("JSON lines %+v", l)
	}
	if n := len(decoded.Split); n == 0 || decoded.Split[0].Kind != reproduce.Prediction || decoded.Split[0].Known != 1 || decoded.Headline == "" || decoded.Papers[0].Gaps[0].Place != "Fig. 1" {
		t.Errorf("JSON split %+v, gaps %+v", decoded.Split, decoded.Papers[0].Gaps)
	}
}

// A section that replays traces must state this in the data file.
func TestRealTraces(t *testing.T) {
	p := reproduce.Paper{Name: "p", Data: "sections: [{section: a, title: A, method: M}, {section: b, title: B, method: M, traces: true}]", Study: func(s *reproduce.Study) {
		s.Compute(func() {
			if paths := s.RealTraces(); len(paths) != 1 {
				t.Errorf("traces %v", paths)
			}
		}, "b")
		s.Compute(func() { s.RealTraces() }, "a")
	}}
	in := reproduce.Inputs{Traces: []string{"t.parquet"}}
	if _, err := reproduce.Make(t.Context(), []reproduce.Paper{p}, in); err == nil || !strings.Contains(err.Error(), "p/paper.yaml: section a replays traces: expected traces: true") {
		t.Errorf("an undeclared section: %v", err)
	}
}

// Only the chosen sections are computed. Gaps belong to the whole paper.
func TestSections(t *testing.T) {
	papers := []reproduce.Paper{sample(104), {Name: "other", Data: "sections: [{section: fig-2, title: T, method: M, traces: true}]"}}
	for names, want := range map[string]string{"": "sample other 3", "sample/fig-2": "sample 1", "fig-2": "sample other 2", "table-1": "sample 1"} {
		chosen, list, err := reproduce.Choose(papers, strings.Fields(names))
		got := ""
		for _, p := range chosen {
			got += p.Name + " "
		}
		if got += fmt.Sprint(len(list)); err != nil || got != want {
			t.Errorf("%q chooses %s, expected %s (%v)", names, got, want, err)
		}
	}
	if _, list, err := reproduce.Choose(papers, []string{"other/fig-2"}); err != nil || len(list) != 1 || list[0] != (reproduce.Listed{Paper: "other", Section: "fig-2", Title: "T", Traces: true}) {
		t.Errorf("listed %+v, %v", list, err)
	}
	for want, papers := range map[string][]reproduce.Paper{
		`unknown section "table-2", did you mean table-1?; known: table-1, fig-2`:          papers[:1],
		`unknown section "table-2", did you mean table-1?; known: sample/table-1, sample/`: papers,
	} {
		if _, _, err := reproduce.Choose(papers, []string{"table-1", "table-2"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	if r := report(t, 104, "sample/fig-2").Papers[0]; len(r.Sections) != 1 || len(r.Gaps) != 0 {
		t.Errorf("%d sections and %d gaps, expected Figure 2 alone", len(r.Sections), len(r.Gaps))
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	fatal.If(t, report(t, 104).Write(dir))
	for name, want := range map[string]string{reproduce.FileName: "reproduction/sample-1.svg", "reproduction/sample-1.svg": "<svg"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, %q", name, err, text)
		}
	}
}
