package reproduce

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/internal/names"
)

// document is a paper's data file, paper.yaml.
type document struct {
	file string

	Figures  int              `yaml:"figures"` // the paper numbers its figures 1 to Figures
	Tables   int              `yaml:"tables"`  // and its tables 1 to Tables
	Printed  map[string][]Row `yaml:"printed"` // printed tables and lists of settings, by name
	Sections []*outline       `yaml:"sections"`
	Gaps     []Gap            `yaml:"gaps"`
}

// Row is a row of a printed table, values by column. Texts of the data file name columns in braces,
// as in "batch {batch}" or "{share:%.1f} %".
type Row map[string]any

// outline is a section of a data file: a report's section without our figures.
type outline struct {
	Section        string            `yaml:"section"`
	Title          string            `yaml:"title"`
	Covers         []string          `yaml:"covers"`
	Traces         bool              `yaml:"traces"` // the study replays real traces for it
	Method         string            `yaml:"method"`
	More           map[string]string `yaml:"more"` // sentences that the study may add to the method, by name
	Assumptions    []string          `yaml:"assumptions"`
	Constants      []constantText    `yaml:"constants"`
	Defaults       yaml.Node         `yaml:"defaults"` // default keys of the lines
	Lines          []yaml.Node       `yaml:"lines"`
	Contradictions []string          `yaml:"contradictions"`
	Figures        []figureText      `yaml:"figures"`

	specs []*spec // the lines
}

type constantText struct {
	ID    string   `yaml:"id"` // of the value that the study sets with Let
	Name  string   `yaml:"name"`
	Unit  string   `yaml:"unit"`
	From  string   `yaml:"from"`
	Value *float64 `yaml:"value"` // of a constant that the study does not compute
}

type figureText struct {
	Name   string    `yaml:"name"`
	Alt    string    `yaml:"alt"`
	Title  string    `yaml:"title"`
	X      string    `yaml:"x"`
	Y      string    `yaml:"y"`
	Open   bool      `yaml:"open"` // the y axis ends above the data, not at 1
	Ticks  []float64 `yaml:"ticks"`
	Series []string  `yaml:"series"` // names of a bar's values
}

// spec is a line of a data file. README.md explains its keys.
type spec struct {
	ID           string   `yaml:"id"`
	Item         string   `yaml:"item"`
	Unit         *string  `yaml:"unit"`
	Kind         Kind     `yaml:"kind"`
	Printed      any      `yaml:"printed"` // a number, or the name of a column or value
	Reference    any      `yaml:"reference"`
	From         string   `yaml:"from"`
	GateRelative float64  `yaml:"gate_relative"`
	GateAbsolute float64  `yaml:"gate_absolute"`
	Above        *float64 `yaml:"above"` // a statement holds if our figure is above, below, …
	Below        *float64 `yaml:"below"`
	AtLeast      *float64 `yaml:"at_least"`
	AtMost       *float64 `yaml:"at_most"`
	Note         string   `yaml:"note"`   // note of the line
	Miss         string   `yaml:"miss"`   // reason of a known miss
	Absent       string   `yaml:"absent"` // reason if the study has no figure
	Each         string   `yaml:"each"`   // repeats the line for each row of a printed table, or as the study requires

	place string // file and line
}

// Gap is a figure, a table or a passage of a paper for which no line exists.
type Gap struct {
	Place  string   `json:"place" yaml:"place"`     // "Fig. 14", "Fig. 7, second row", "Table 2", "Section 6.2"
	Shows  string   `json:"shows" yaml:"shows"`     // content in a few words
	Prints []string `json:"printed" yaml:"printed"` // printed numbers without a line, as printed
	Why    string   `json:"why" yaml:"why"`         // reason that no line exists
}

// parse reads a data file. It rejects unknown and duplicate keys. It rejects lines without a unit
// or without a key that their kind requires. It also rejects a data file that leaves out figures of
// the paper.
func parse(file, text string) (*document, error) {
	d := &document{}
	loader, err := yaml.NewLoader(bytes.NewReader([]byte(text)), yaml.WithKnownFields(), yaml.WithSingleDocument())
	if err == nil {
		err = loader.Load(d)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, names.OfYAML(err, []byte(text), d))
	}
	d.file = file
	seen := map[string]bool{}
	for _, o := range d.Sections {
		if o.Section == "" || seen[o.Section] {
			return nil, fmt.Errorf("%s: two sections are named %q", file, o.Section)
		}
		seen[o.Section] = true
		if err := o.read(file); err != nil {
			return nil, err
		}
	}
	for i := range d.Gaps {
		d.Gaps[i].Prints = append([]string{}, d.Gaps[i].Prints...) // [] in JSON, not null
	}
	return d, d.account()
}

func (o *outline) read(file string) error {
	seen := map[string]bool{}
	for i := range o.Lines {
		l := spec{place: fmt.Sprintf("%s:%d: section %s", file, o.Lines[i].Line, o.Section)}
		for _, node := range []*yaml.Node{&o.Defaults, &o.Lines[i]} {
			if node.IsZero() { // no defaults
				continue
			}
			if err := node.Load(&l, yaml.WithKnownFields()); err != nil {
				return fmt.Errorf("%s: %w", l.place, names.OfFields(err, l))
			}
		}
		l.ID = cmp.Or(l.ID, l.Item)
		if seen[l.ID] {
			return fmt.Errorf("%s: two lines are named %q", l.place, l.ID)
		}
		seen[l.ID] = true
		if err := l.check(); err != nil {
			return fmt.Errorf("%s, %s: %w", l.place, l.ID, err)
		}
		o.specs = append(o.specs, &l)
	}
	return nil
}

// check reports a line that lacks a required key, independent of the figures in the study.
func (l *spec) check() error {
	switch {
	case l.Item == "" || l.Unit == nil:
		return errors.New(`item and unit are required, unit: "" for ratios, counts and statements`)
	case l.Kind != Ordinal && l.limited():
		return errors.New("only statements have limits, figures have gates")
	case l.Reference != nil && (l.From == "" || l.Printed != nil):
		return errors.New("a reference needs from, its origin, and no printed figure")
	}
	// Names of columns stand for a number that is known only when the study runs.
	line := l.line(func(v any) Number {
		if v == nil {
			return Number(None)
		}
		return 1
	})
	return line.check()
}

// limited reports whether the data file states limits for the statement.
func (l *spec) limited() bool {
	return l.Above != nil || l.Below != nil || l.AtLeast != nil || l.AtMost != nil
}

func (l *spec) holds(ours float64) bool {
	return (l.Above == nil || ours > *l.Above) && (l.Below == nil || ours < *l.Below) &&
		(l.AtLeast == nil || ours >= *l.AtLeast) && (l.AtMost == nil || ours <= *l.AtMost)
}

// line returns the line without our figure. number returns the value of a target.
func (l *spec) line(number func(any) Number) Line {
	line := Line{Item: l.Item, Unit: *l.Unit, Kind: l.Kind, Note: l.Note, Ours: Number(None),
		Printed: number(l.Printed), Reference: number(l.Reference), Relative: Number(None), Absolute: Number(None)}
	if l.Reference != nil {
		line.From = l.From
	}
	if l.Kind != Ordinal && l.Kind != NotComputable {
		if l.GateRelative > 0 {
			line.Relative = Number(l.GateRelative)
		}
		if l.GateAbsolute > 0 {
			line.Absolute = Number(l.GateAbsolute)
		}
	}
	return line
}

// account checks that each figure and table of a paper has a section or a gap.
func (d *document) account() error {
	var places []string
	for _, o := range d.Sections {
		places = append(places, o.Covers...)
	}
	for _, g := range d.Gaps {
		if g.Place == "" || g.Shows == "" || g.Why == "" {
			return fmt.Errorf("%s: gap %q lacks a place, a description or a reason", d.file, g.Place)
		}
		places = append(places, g.Place)
	}
	for prefix, last := range map[string]int{"Fig.": d.Figures, "Table": d.Tables} {
		for n := range last {
			figure := fmt.Sprintf("%s %d", prefix, n+1)
			if !slices.ContainsFunc(places, func(place string) bool { return partOf(place, figure) }) {
				return fmt.Errorf("%s: no section and no gap names %s", d.file, figure)
			}
		}
	}
	return nil
}

// partOf reports whether a place such as "Fig. 1b" or "Fig. 1, second row" is part of a
// figure or table such as "Fig. 1".
func partOf(place, figure string) bool {
	rest, ok := strings.CutPrefix(place, figure)
	return ok && (rest == "" || rest[0] < '0' || rest[0] > '9')
}

// number converts a value of a data file, NaN if it is not a number.
func number(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case float64:
		return v
	}
	return math.NaN()
}
