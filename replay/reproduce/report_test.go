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
	nan := math.NaN()
	gate := reproduce.Gate{Relative: 0.05}
	return reproduce.Paper{Name: "sample", Citation: "A. Author, A *paper*", Sections: func(context.Context, reproduce.Inputs) ([]reproduce.Section, error) {
		return []reproduce.Section{{
			Name: "table-1", Title: "Table 1: a|b", Method: "By hand.", Contradictions: []string{"4 is not 5"},
			Constants: []reproduce.Constant{{Name: "v", Value: 25e9, Unit: "B/s", From: "row 1"}},
			Figures:   []reproduce.Figure{{Name: "sample-1", Alt: "a line", SVG: []byte("<svg></svg>")}},
			Lines: []reproduce.Line{
				{Item: "row 1", Unit: "ms", Printed: 100, Ours: 100, Status: reproduce.Fitted, Gate: gate},
				{Item: "row 2", Unit: "ms", Printed: 100, Ours: ours, Status: reproduce.Transferred, Gate: gate},
				{Item: "row 3", Unit: "ms", Printed: 100, Ours: 150, Status: reproduce.Predicted, Gate: gate, Known: true, Note: "a disturbed run"},
				{Item: "rises", Printed: nan, Ours: nan, Status: reproduce.Ordinal, Holds: true},
				{Item: "row 5", Printed: 3, Ours: nan, Status: reproduce.Missing, Note: "not stated"},
			},
		}, {Name: "fig-2", Title: "Figure 2"}}, nil
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
	if got, want := s.String(), "3 judged, 2 within their gates; worst error 50.0 %; 1 known to miss; 1 fitted; 1 not reproducible"; got != want {
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
		text.String(): {"+4.0 %", "± 5 %", "known miss", "row 3: a disturbed run", "contradiction: 4 is not 5", "v = 25000000000 B/s (row 1)", "not judged"},
		md.String():   {"| row 2 | 100 ms | 104 ms | +4.0 % |", `A \*paper\*`, "![a line](reproduction/sample-1.svg)", `<a id="sample-table-1"></a>`, `a\|b](#sample-table-1)`, "In all: "},
	} {
		for _, w := range want {
			if !strings.Contains(what, w) {
				t.Errorf("the report lacks %q:\n%s", w, what)
			}
		}
	}
	rows, err := csv.NewReader(&table).ReadAll()
	if err != nil || len(rows) != 6 || rows[5][5] != "" || rows[2][10] != "within" {
		t.Errorf("CSV: %v, %v", rows, err)
	}
	var decoded []struct {
		Sections []struct {
			Lines []struct{ Ours *float64 }
		}
	}
	if err := json.Unmarshal(data.Bytes(), &decoded); err != nil {
		t.Fatal(err)
	}
	if l := decoded[0].Sections[0].Lines; len(l) != 5 || *l[1].Ours != 104 || l[4].Ours != nil {
		t.Errorf("JSON lines %+v", l)
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

func TestReasonsAreGiven(t *testing.T) {
	for what, sections := range map[string][]reproduce.Section{
		"no reason":     {{Name: "a", Lines: []reproduce.Line{{Item: "x", Known: true, Status: reproduce.Ordinal}}}},
		"two sections":  {{Name: "a"}, {Name: "a"}},
		"no reason why": {{Name: "a", Lines: []reproduce.Line{{Item: "x", Status: reproduce.Missing}}}},
	} {
		p := reproduce.Paper{Name: "p", Sections: func(context.Context, reproduce.Inputs) ([]reproduce.Section, error) { return sections, nil }}
		if _, err := reproduce.Make(context.Background(), []reproduce.Paper{p}, reproduce.Inputs{}); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
