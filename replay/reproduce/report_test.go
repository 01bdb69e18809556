package reproduce_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// sample is a paper with a line of every verdict; ours is the value of the judged one.
func sample(ours float64) reproduce.Paper {
	gate := reproduce.Gate{Relative: 0.05}
	return reproduce.Paper{Name: "sample", Citation: "A. Author, A *paper*", Figures: 2, Tables: 1, Gaps: []reproduce.Gap{{Place: "Fig. 1", Shows: "loads", Prints: []string{"1.5 ×", "2 ×"}, Why: "a plot"}}, Sections: func(context.Context, reproduce.Inputs) ([]reproduce.Section, error) {
		return []reproduce.Section{{
			Name: "table-1", Title: "Table 1: a|b", Method: "By hand.", Contradictions: []string{"4 is not 5"},
			Constants: []reproduce.Constant{{Name: "v", Value: 25e9, Unit: "B/s", From: "row 1"}},
			Figures:   []reproduce.Figure{{Name: "sample-1", Alt: "a line", SVG: []byte("<svg></svg>")}},
			Covers:    []string{"Table 1"},
			Lines: []reproduce.Line{
				reproduce.Compare(reproduce.Fitted, "row 1", "ms", reproduce.Printed(100), 100, gate),
				reproduce.Compare(reproduce.Transferred, "row 2", "ms", reproduce.Printed(100), ours, gate),
				reproduce.Compare(reproduce.Prediction, "row 3", "ms", reproduce.Reference(100, "twice row 0"), 150, gate).Unless("a disturbed run"),
				reproduce.Statement("rises", "", reproduce.None, true),
				reproduce.Absent("row 5", "", reproduce.Printed(3), "not stated"),
			},
		}, {Name: "fig-2", Title: "Figure 2", Covers: []string{"Fig. 2"}}}, nil
	}}
}

func report(t *testing.T, ours float64) *reproduce.Report {
	t.Helper()
	r, err := reproduce.Make(context.Background(), []reproduce.Paper{sample(ours)}, reproduce.Inputs{})
	if err != nil {
		t.Fatal(err)
	}
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
	s := r.Papers[0].Sections[0].Summary()
	if s.Judged != 3 || s.Within != 2 || s.Known != 1 || s.Past != 0 || s.Fitted != 1 || s.Absent != 1 || math.Abs(s.Worst-0.5) > 1e-12 {
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
		if err != nil {
			t.Fatal(err)
		}
	}
	for what, want := range map[string][]string{
		text.String(): {"+4.0 %", "± 5 %", "known miss", "row 3: a disturbed run", "contradiction: 4 is not 5", "v = 25000000000 B/s (row 1)", "not judged",
			"3 figures and statements are judged: 2 within their gates, 1 past them for a known reason, 0 past them without one. By kind: 1 prediction, 1 transferred,", "Reference: twice row 0.",
			"without a line: Fig. 1: loads (2 printed: 1.5 ×, 2 ×). A plot."},
		md.String(): {"| row 2 | 100 ms | – | 104 ms | +4.0 % |", "| row 3 | – | 100 ms | 150 ms |", `A \*paper\*`, "![a line](reproduction/sample-1.svg)", `<a id="sample-table-1"></a>`, `a\|b](#sample-table-1)`, "<!-- split -->\n3 figures and statements are judged", "| sample | 1 | 1 | 0 | 1 | 0 | 0 | 1 | 1 | 2 | 1 | 0 |", "| Fig. 1 | loads | 1.5 ×, 2 × | a plot |"},
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
	if err := json.Unmarshal(data.Bytes(), &decoded); err != nil {
		t.Fatal(err)
	}
	l := decoded.Papers[0].Sections[0].Lines
	if len(l) != 5 || *l[1].Ours != 104 || l[1].Kind != reproduce.Transferred || l[4].Ours != nil || l[2].Printed != nil || *l[2].Reference != 100 {
		t.Errorf("JSON lines %+v", l)
	}
	if n := len(decoded.Split); n == 0 || decoded.Split[0].Kind != reproduce.Prediction || decoded.Split[0].Known != 1 || decoded.Headline == "" || decoded.Papers[0].Gaps[0].Place != "Fig. 1" {
		t.Errorf("JSON split %+v, gaps %+v", decoded.Split, decoded.Papers[0].Gaps)
	}
}

func TestKeep(t *testing.T) {
	r := report(t, 104)
	if unknown := r.Keep([]string{"table-1", "table-2"}); unknown != "table-2" {
		t.Errorf("unknown section %q", unknown)
	}
	if unknown := r.Keep([]string{"sample/fig-2"}); unknown != "" || len(r.Names()) != 1 {
		t.Errorf("kept %v, unknown %q", r.Names(), unknown)
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := report(t, 104).Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{reproduce.FileName: "reproduction/sample-1.svg", "reproduction/sample-1.svg": "<svg>"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, %q", name, err, text)
		}
	}
}

// A report is refused if a line lacks its kind or what the kind needs, or if a figure of
// the paper has neither a line nor a reason for that.
func TestIncompletePapersAreRefused(t *testing.T) {
	gate := reproduce.Gate{Relative: 0.1}
	line := func(l reproduce.Line) reproduce.Paper {
		return reproduce.Paper{Sections: func(context.Context, reproduce.Inputs) ([]reproduce.Section, error) {
			return []reproduce.Section{{Name: "a", Lines: []reproduce.Line{l}}}, nil
		}}
	}
	sections := func(p reproduce.Paper, list ...reproduce.Section) reproduce.Paper {
		p.Sections = func(context.Context, reproduce.Inputs) ([]reproduce.Section, error) { return list, nil }
		return p
	}
	for want, p := range map[string]reproduce.Paper{
		`kind "" is unknown`:                 line(reproduce.Line{Item: "x", Target: reproduce.Printed(1), Ours: 1, Gate: gate}),
		`kind "guess" is unknown`:            line(reproduce.Compare("guess", "x", "", reproduce.Printed(1), 1, gate)),
		"neither a printed figure":           line(reproduce.Compare(reproduce.Prediction, "x", "", reproduce.Target{}, 1, gate)),
		"there is no gate":                   line(reproduce.Compare(reproduce.Transferred, "x", "", reproduce.Printed(1), 1, reproduce.Gate{})),
		"a self-check compares with a refer": line(reproduce.Compare(reproduce.SelfCheck, "x", "", reproduce.Printed(1), 1, gate)),
		"section a, x: no reason is given":   line(reproduce.Line{Item: "x", Known: true, Kind: reproduce.Ordinal}),
		"x: no reason is given":              line(reproduce.Absent("x", "", reproduce.Target{}, "")),
		"two sections":                       sections(reproduce.Paper{}, reproduce.Section{Name: "a"}, reproduce.Section{Name: "a"}),
		"Fig. 2 has neither":                 sections(reproduce.Paper{Figures: 2, Gaps: []reproduce.Gap{{Place: "Fig. 20", Shows: "x", Why: "y"}}}, reproduce.Section{Name: "a", Covers: []string{"Fig. 1"}}),
		"Table 1 has neither":                sections(reproduce.Paper{Tables: 1}),
		`gap "Fig. 1" lacks`:                 sections(reproduce.Paper{Figures: 1, Gaps: []reproduce.Gap{{Place: "Fig. 1", Shows: "x"}}}),
	} {
		if _, err := reproduce.Make(context.Background(), []reproduce.Paper{p}, reproduce.Inputs{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
	ok := sections(reproduce.Paper{Figures: 2, Tables: 1, Gaps: []reproduce.Gap{{Place: "Fig. 2b", Shows: "x", Why: "y"}}}, reproduce.Section{Name: "a", Covers: []string{"Fig. 1", "Table 1"}})
	if _, err := reproduce.Make(context.Background(), []reproduce.Paper{ok}, reproduce.Inputs{}); err != nil {
		t.Error(err)
	}
}
