package reproduce

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// csvHeader are the columns of RenderCSV. Empty fields are figures that there are not.
var csvHeader = []string{"paper", "section", "item", "unit", "printed", "ours", "error", "gate_relative", "gate_absolute", "status", "result", "note"}

// RenderCSV writes a line a row.
func (r *Report) RenderCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write(csvHeader); err != nil {
		return err
	}
	for _, p := range r.Papers {
		for _, s := range p.Sections {
			for i := range s.Lines {
				l := &s.Lines[i]
				if err := c.Write([]string{p.Name, s.Name, l.Item, l.Unit, number(l.Printed), number(l.Ours), number(l.Error()),
					number(gate(l.Gate.Relative)), number(gate(l.Gate.Absolute)), string(l.Status), string(l.Verdict()), l.Note}); err != nil {
					return err
				}
			}
		}
	}
	c.Flush()
	return c.Error()
}

func number(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// gate is NaN where there is none.
func gate(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// nullable is null where there is no figure, which JSON has no number for.
type nullable float64

func (n nullable) MarshalJSON() ([]byte, error) {
	if v := float64(n); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return json.Marshal(v)
	}
	return []byte("null"), nil
}

type (
	jsonPaper struct {
		Paper    string        `json:"paper"`
		Citation string        `json:"citation"`
		Sections []jsonSection `json:"sections"`
	}
	jsonSection struct {
		Name           string         `json:"section"`
		Title          string         `json:"title"`
		Method         string         `json:"method"`
		Constants      []jsonConstant `json:"constants"`
		Lines          []jsonLine     `json:"lines"`
		Contradictions []string       `json:"contradictions"`
		Figures        []string       `json:"figures"`
		Summary        jsonSummary    `json:"summary"`
	}
	jsonSummary struct {
		Summary
		Worst nullable `json:"worst_error"`
	}
	jsonConstant struct {
		Name  string   `json:"name"`
		Value nullable `json:"value"`
		Unit  string   `json:"unit"`
		From  string   `json:"from"`
	}
	jsonLine struct {
		Item     string   `json:"item"`
		Unit     string   `json:"unit"`
		Printed  nullable `json:"printed"`
		Ours     nullable `json:"ours"`
		Error    nullable `json:"error"`
		Relative nullable `json:"gate_relative"`
		Absolute nullable `json:"gate_absolute"`
		Status   Status   `json:"status"`
		Result   Verdict  `json:"result"`
		Note     string   `json:"note"`
	}
)

// RenderJSON writes the report as a list of papers; figures by name.
func (r *Report) RenderJSON(w io.Writer) error {
	papers := []jsonPaper{}
	for _, p := range r.Papers {
		paper := jsonPaper{Paper: p.Name, Citation: p.Citation, Sections: []jsonSection{}}
		for i := range p.Sections {
			paper.Sections = append(paper.Sections, p.Sections[i].json())
		}
		papers = append(papers, paper)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(papers); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func (s *Section) json() jsonSection {
	sum := s.Summary()
	j := jsonSection{Name: s.Name, Title: s.Title, Method: s.Method, Constants: []jsonConstant{}, Lines: []jsonLine{},
		Contradictions: append([]string{}, s.Contradictions...), Figures: []string{}, Summary: jsonSummary{sum, nullable(sum.Worst)}}
	for _, c := range s.Constants {
		j.Constants = append(j.Constants, jsonConstant{c.Name, nullable(c.Value), c.Unit, c.From})
	}
	for i := range s.Lines {
		l := &s.Lines[i]
		j.Lines = append(j.Lines, jsonLine{l.Item, l.Unit, nullable(l.Printed), nullable(l.Ours), nullable(l.Error()),
			nullable(gate(l.Gate.Relative)), nullable(gate(l.Gate.Absolute)), l.Status, l.Verdict(), l.Note})
	}
	for _, f := range s.Figures {
		j.Figures = append(j.Figures, f.Name)
	}
	return j
}
