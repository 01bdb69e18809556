package hardware

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Status is the origin of a number.
type Status string

// The origins of numbers.
const (
	Measured  Status = "measured"  // by the named source
	Datasheet Status = "datasheet" // a figure of the vendor, or a published configuration
	Derived   Status = "derived"   // arithmetic on sourced numbers that its note states
	Fitted    Status = "fitted"    // constant of a formula that meets the measured points in its note
	Assumed   Status = "assumed"   // no source has it, or only resellers and lists do, and the note justifies the value
)

var statuses = []string{string(Measured), string(Datasheet), string(Derived), string(Fitted), string(Assumed)}

// explained are the statuses whose numbers need a note.
var explained = []string{string(Derived), string(Fitted), string(Assumed)}

// Fact is a number with its status and source.
type Fact[D dimension] struct {
	Value   D
	Written string // text in the file: "3350 GB/s"
	Status  Status
	Source  string // the citation
	Note    string
}

// Known reports whether the file has the number. An optional number may be missing.
func (f *Fact[D]) Known() bool { return f != nil && f.Written != "" }

// Or returns the value, or other if the file has none.
func (f *Fact[D]) Or(other D) D {
	if f.Known() {
		return f.Value
	}
	return other
}

// Line is a fact as text, for listings.
type Line struct {
	Field  string  `json:"field"`
	Text   string  `json:"text"`
	Value  float64 `json:"value"` // SI: bytes, seconds, bytes/s, FLOP/s
	Status Status  `json:"status"`
	Source string  `json:"source"`
	Note   string  `json:"note,omitempty"`
}

func (f *Fact[D]) line(field string) Line {
	return Line{field, f.Written, float64(f.Value), f.Status, f.Source, f.Note}
}

// factKeys are the keys of a number in a file.
type factKeys struct {
	Value  string `yaml:"value"`
	Status string `yaml:"status" need:"no"`
	Source string `yaml:"source" need:"no"`
	Note   string `yaml:"note" need:"no"`
}

// bind reads {value: 3350 GB/s, status: datasheet, source: sheet}. In files with defaults it also
// reads the short form 61 for numbers without a unit.
func (f *Fact[D]) bind(b *binder, n *yaml.Node, opts fieldOptions) {
	var keys factKeys
	if n.Kind == yaml.ScalarNode {
		if len(D(0).units().list) > 0 {
			b.fail(n, "%s: expected {value: …, status: …, source: …}", opts.path)
			return
		}
		keys.Value = n.Value
	} else if !b.mapping(n, &keys, opts.path) {
		return
	}
	keys.Status, keys.Source = cmp.Or(keys.Status, b.defaults.Status), cmp.Or(keys.Source, b.defaults.Source)
	value, err := parse[D](keys.Value)
	switch {
	case err != nil:
	case value == 0 && !opts.zero:
		err = fmt.Errorf("%q, expected more than 0", keys.Value)
	case opts.most > 0 && (float64(value) != math.Trunc(float64(value)) || float64(value) > opts.most):
		err = fmt.Errorf("%q, expected a whole number of at most %s", keys.Value, Number(opts.most))
	case keys.Status == "":
		err = fmt.Errorf("no status, expected one of %s", strings.Join(statuses, ", "))
	case !slices.Contains(statuses, keys.Status):
		err = fmt.Errorf("status %q, expected one of %s%s", keys.Status, strings.Join(statuses, ", "), names.Nearest(keys.Status, statuses))
	case keys.Source == "":
		err = errors.New("no source: name one of the file's sources")
	case keys.Note == "" && slices.Contains(explained, keys.Status):
		err = fmt.Errorf("%s numbers need a note with their origin or the reason for the value", keys.Status)
	}
	if err != nil {
		b.fail(n, "%s: %v", opts.path, err)
		return
	}
	*f = Fact[D]{Value: value, Written: strings.TrimSpace(keys.Value), Status: Status(keys.Status), Source: b.citation(n, keys.Source, opts.path), Note: keys.Note}
}

// Measure is a quantity of a measured point. Its series states status and source.
type Measure[D dimension] struct {
	Value   D
	Written string
}

// Known reports whether the point has the quantity.
func (m *Measure[D]) Known() bool { return m.Written != "" }

// bind reads the short form "4 KiB".
func (m *Measure[D]) bind(b *binder, n *yaml.Node, opts fieldOptions) {
	value, err := parse[D](n.Value)
	switch {
	case n.Kind != yaml.ScalarNode:
		err = errors.New("expected a quantity")
	case err == nil && value == 0 && !opts.zero:
		err = fmt.Errorf("%q, expected more than 0", n.Value)
	}
	if err != nil {
		b.fail(n, "%s: %v", opts.path, err)
		return
	}
	*m = Measure[D]{value, n.Value}
}

// Citation is a source, which files name by its key.
type Citation string

func (c *Citation) bind(b *binder, n *yaml.Node, opts fieldOptions) {
	*c = Citation(b.citation(n, n.Value, opts.path))
}

// Lines lists the numbers of an item in the order of its file format, as text.
func Lines(it Item) []Line {
	var lines []Line
	addLines(reflect.ValueOf(it).Elem(), "", &lines)
	return lines
}

func addLines(v reflect.Value, path string, lines *[]Line) {
	if fact, ok := v.Addr().Interface().(interface {
		Known() bool
		line(field string) Line
	}); ok { // a Fact of any dimension
		if fact.Known() {
			*lines = append(*lines, fact.line(path))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			addLines(v.Elem(), path, lines)
		}
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			addLines(v.FieldByIndex(f.index), join(path, f.name), lines)
		}
	case reflect.Slice:
		for i := range v.Len() {
			addLines(v.Index(i), fmt.Sprintf("%s[%d]", path, i), lines)
		}
	}
}
