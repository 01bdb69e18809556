package result

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// null is the text of an absent value: `--where capacity=null`.
const null = "null"

// field is a field of a row in files: its JSON name, its place, and the reading and writing of its
// value as text.
type field struct {
	name    string
	at      int   // position among the fields
	index   []int // in the struct
	kind    reflect.Type
	role    string // the tag "setting"
	words   string // the tag "words"
	unbound string // the tag "unbound"
}

var (
	rowFields     = fieldsOf(reflect.TypeFor[Row]())
	fieldIndex    = indexOf(rowFields)
	settingFields = settingsThat(func(string) bool { return true })
)

// fieldsOf lists the fields of a struct and of its embedded Setting, in the order of files. That is
// the order of declaration, changed by the tag "moves" of the embedded struct and the tag "before"
// of other fields. "a<b" moves a before b. "a<" leaves a out.
func fieldsOf(t reflect.Type) (fields []field) {
	var moves []string
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			moves = append(moves, strings.Fields(f.Tag.Get("moves"))...)
			continue
		}
		tag := f.Tag
		name, _, _ := strings.Cut(tag.Get("json"), ",")
		fields = append(fields, field{name: name, index: f.Index, kind: f.Type,
			role: tag.Get("setting"), words: tag.Get("words"), unbound: tag.Get("unbound")})
		if before := tag.Get("before"); before != "" {
			moves = append(moves, name+"<"+before)
		}
	}
	at := func(name string) int { return slices.IndexFunc(fields, func(f field) bool { return f.name == name }) }
	for _, move := range moves {
		name, before, _ := strings.Cut(move, "<")
		f := fields[at(name)]
		fields = slices.Delete(fields, at(name), at(name)+1)
		if before != "" {
			fields = slices.Insert(fields, at(before), f)
		}
	}
	for i := range fields {
		fields[i].at = i
	}
	return fields
}

func indexOf(fields []field) map[string]int {
	index := make(map[string]int, len(fields))
	for i, f := range fields {
		index[f.name] = i
	}
	return index
}

// settingsThat returns the settings whose role fulfils a condition, in the order of Setting.
func settingsThat(fits func(role string) bool) (fields []field) {
	for _, f := range fieldsOf(reflect.TypeFor[Setting]()) {
		if fits(f.role) {
			fields = append(fields, rowFields[fieldIndex[f.name]])
		}
	}
	return fields
}

// FieldNames lists the fields of a row by their JSON names, in file order.
func FieldNames() []string {
	return slice.Map(rowFields, func(f field) string { return f.name })
}

func fieldNamed(name string) (field, error) {
	i, ok := fieldIndex[name]
	if !ok {
		if near := names.Nearest(name, FieldNames()); near != "" {
			return field{}, fmt.Errorf("unknown field %.60q%s", name, near)
		}
		return field{}, fmt.Errorf("unknown field %.60q; known: %s (metrics/ROWS.md)", name, names.Some(FieldNames()))
	}
	return rowFields[i], nil
}

func (f *field) value(r *Row) reflect.Value { return f.in(reflect.ValueOf(r).Elem()) }

func (f *field) in(v reflect.Value) reflect.Value {
	for _, i := range f.index {
		v = v.Field(i)
	}
	return v
}

func (f *field) nullable() bool { return f.kind.Kind() == reflect.Pointer }

// element returns the type of a value that is not null.
func (f *field) element() reflect.Type {
	if f.nullable() {
		return f.kind.Elem()
	}
	return f.kind
}

// ofCell is false for the parts of a cell and their counts, in which rows of one cell differ.
func (f *field) ofCell() bool {
	return (f.at < fieldIndex["request_id"] || f.at > fieldIndex["resident_peak"]) && f.name != "capacity_entries"
}

// scalar is false for lists, which have no text form to filter by.
func (f *field) scalar() bool { return f.kind.Kind() != reflect.Slice }

// text returns the value as text: the shortest that parses back, "null" for no value.
func (f *field) text(r *Row) string {
	v := f.value(r)
	if f.nullable() {
		if v.IsNil() {
			return null
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

// same reports whether two rows have the same value, or both none.
func (f *field) same(a, b *Row) bool {
	v, w := f.value(a), f.value(b)
	if !f.nullable() {
		return v.Equal(w)
	}
	if v.IsNil() || w.IsNil() {
		return v.IsNil() == w.IsNil()
	}
	return v.Elem().Equal(w.Elem())
}

func (f *field) parse(r *Row, text string) error {
	if f.nullable() && text == null {
		f.value(r).SetZero()
		return nil
	}
	return f.parsePresent(r, text)
}

// parsePresent sets the value from text that does not mean null.
func (f *field) parsePresent(r *Row, text string) error {
	v := f.value(r)
	if f.nullable() {
		v.Set(reflect.New(f.element()))
		v = v.Elem()
	}
	if err := setText(v, text); err != nil {
		return fmt.Errorf("field %s: %q is not %s", f.name, text, kindName(v.Kind()))
	}
	return nil
}

func setText(v reflect.Value, text string) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(text == "true")
		if text != "true" && text != "false" {
			return strconv.ErrSyntax
		}
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		v.SetFloat(x)
		return err
	case reflect.Uint64:
		x, err := strconv.ParseUint(text, 10, 64)
		v.SetUint(x)
		return err
	case reflect.Int, reflect.Int32, reflect.Int64:
		x, err := strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(x)
		return err
	default:
		panic("result: no text form for fields of kind " + v.Kind().String())
	}
	return nil
}

func kindName(k reflect.Kind) string {
	switch k {
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Uint64:
		return "an integer ≥ 0"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Slice:
		return "a list of texts"
	}
	return "a text"
}
