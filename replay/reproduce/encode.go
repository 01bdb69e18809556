package reproduce

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// csvHeader are the columns of RenderCSV. An empty field is a missing figure.
var csvHeader = []string{"paper", "section", "item", "unit", "kind", "printed", "reference", "reference_from", "ours", "error", "gate_relative", "gate_absolute", "result", "note"}

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
				reference, from := l.Target.Reference()
				if err := c.Write([]string{p.Name, s.Name, l.Item, l.Unit, string(l.Kind), number(l.Target.Printed()), number(reference), from, number(l.Ours), number(l.Error()),
					number(gate(l.Gate.Relative)), number(gate(l.Gate.Absolute)), string(l.Verdict()), l.Note}); err != nil {
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
	jsonReport struct {
		Headline string      `json:"headline"`
		Split    []Split     `json:"split"`
		Papers   []jsonPaper `json:"papers"`
	}
	jsonPaper struct {
		Paper    string        `json:"paper"`
		Citation string        `json:"citation"`
		Split    []Split       `json:"split"`
		Sections []jsonSection `json:"sections"`
		Gaps     []jsonGap     `json:"without_line"`
	}
	jsonGap struct {
		Place  string   `json:"place"`
		Shows  string   `json:"shows"`
		Prints []string `json:"printed"`
		Why    string   `json:"why"`
	}
	jsonSection struct {
		Name           string         `json:"section"`
		Title          string         `json:"title"`
		Covers         []string       `json:"covers"`
		Method         string         `json:"method"`
		Assumptions    []string       `json:"assumptions"`
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
		Item      string   `json:"item"`
		Unit      string   `json:"unit"`
		Kind      Kind     `json:"kind"`
		Printed   nullable `json:"printed"`
		Reference nullable `json:"reference"`
		From      string   `json:"reference_from"`
		Ours      nullable `json:"ours"`
		Error     nullable `json:"error"`
		Relative  nullable `json:"gate_relative"`
		Absolute  nullable `json:"gate_absolute"`
		Result    Verdict  `json:"result"`
		Note      string   `json:"note"`
	}
)

// RenderJSON writes the report as an object: the counts by kind and the papers. Figures are
// given by name.
func (r *Report) RenderJSON(w io.Writer) error {
	report := jsonReport{Headline: r.Headline(), Split: r.Split(), Papers: []jsonPaper{}}
	for _, p := range r.Papers {
		paper := jsonPaper{Paper: p.Name, Citation: p.Citation, Split: split(p.Sections), Sections: []jsonSection{}, Gaps: []jsonGap{}}
		for i := range p.Sections {
			paper.Sections = append(paper.Sections, p.Sections[i].json())
		}
		for _, g := range p.Gaps {
			paper.Gaps = append(paper.Gaps, jsonGap{g.Place, g.Shows, append([]string{}, g.Prints...), g.Why})
		}
		report.Papers = append(report.Papers, paper)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(report); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func (s *Section) json() jsonSection {
	sum := s.Summary()
	j := jsonSection{Name: s.Name, Title: s.Title, Covers: append([]string{}, s.Covers...), Method: s.Method, Assumptions: append([]string{}, s.Assumptions...), Constants: []jsonConstant{}, Lines: []jsonLine{},
		Contradictions: append([]string{}, s.Contradictions...), Figures: []string{}, Summary: jsonSummary{sum, nullable(sum.Worst)}}
	for _, c := range s.Constants {
		j.Constants = append(j.Constants, jsonConstant{c.Name, nullable(c.Value), c.Unit, c.From})
	}
	for i := range s.Lines {
		l := &s.Lines[i]
		reference, from := l.Target.Reference()
		j.Lines = append(j.Lines, jsonLine{l.Item, l.Unit, l.Kind, nullable(l.Target.Printed()), nullable(reference), from, nullable(l.Ours), nullable(l.Error()),
			nullable(gate(l.Gate.Relative)), nullable(gate(l.Gate.Absolute)), l.Verdict(), l.Note})
	}
	for _, f := range s.Figures {
		j.Figures = append(j.Figures, f.Name)
	}
	return j
}
