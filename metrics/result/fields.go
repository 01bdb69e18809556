package result

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// null is how text names the absence of a value: `--where capacity=null`.
const null = "null"

// field is one field of Row: its JSON name, and how its value is read and written as text.
type field struct {
	name  string
	index int
	kind  reflect.Type
}

var (
	rowFields  = fieldsOf(reflect.TypeFor[Row]())
	fieldIndex = indexOf(rowFields)
)

func fieldsOf(t reflect.Type) []field {
	fields := make([]field, t.NumField())
	for i := range fields {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields[i] = field{name, i, t.Field(i).Type}
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

// FieldNames lists the fields of a row by their JSON names, in file order.
func FieldNames() []string {
	list := make([]string, len(rowFields))
	for i, f := range rowFields {
		list[i] = f.name
	}
	return list
}

func fieldNamed(name string) (field, error) {
	i, ok := fieldIndex[name]
	if !ok {
		if near := names.Nearest(name, FieldNames()); near != "" {
			return field{}, fmt.Errorf("unknown field %.60q%s", name, near)
		}
		return field{}, fmt.Errorf("unknown field %.60q; known: %s", name, strings.Join(FieldNames(), ", "))
	}
	return rowFields[i], nil
}

func (f field) value(r *Row) reflect.Value { return reflect.ValueOf(r).Elem().Field(f.index) }

func (f field) nullable() bool { return f.kind.Kind() == reflect.Pointer }

// element is the type of the value where there is one.
func (f field) element() reflect.Type {
	if f.nullable() {
		return f.kind.Elem()
	}
	return f.kind
}

// scalar is false for lists, which have no text form to filter by.
func (f field) scalar() bool { return f.kind.Kind() != reflect.Slice }

// text is the value as text: the shortest that parses back, "null" for no value.
func (f field) text(r *Row) string {
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

// same reports whether two rows have one value, or both none.
func (f field) same(a, b *Row) bool {
	v, w := f.value(a), f.value(b)
	if !f.nullable() {
		return v.Equal(w)
	}
	if v.IsNil() || w.IsNil() {
		return v.IsNil() == w.IsNil()
	}
	return v.Elem().Equal(w.Elem())
}

// parse sets the value from text.
func (f field) parse(r *Row, text string) error {
	if f.nullable() && text == null {
		f.value(r).SetZero()
		return nil
	}
	return f.parsePresent(r, text)
}

// parsePresent sets the value from text that does not mean null.
func (f field) parsePresent(r *Row, text string) error {
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
	}
	return "a text"
}
