package metrics

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// document reads a document of the package.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every field has its line in the tables, in the order of the fields.
func TestRowFieldsAreDocumented(t *testing.T) {
	var names []string
	for _, first := range tableLine.FindAllStringSubmatch(document(t, "ROWS.md"), -1) {
		for _, name := range fieldName.FindAllStringSubmatch(first[1], -1) {
			names = append(names, name[1])
		}
	}
	if want := FieldNames(); !slices.Equal(names, want) {
		t.Errorf("ROWS.md documents\n%v\nrows have\n%v", names, want)
	}
}

var (
	tableLine = regexp.MustCompile("(?m)^\\| (`[^|]*) \\|")
	fieldName = regexp.MustCompile("`(\\w+)`")
)

func TestBoardFieldsAreDocumented(t *testing.T) {
	text := document(t, "BOARD.md")
	for _, name := range append(jsonNames(reflect.TypeFor[Board]()), boardColumns...) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("BOARD.md does not document `%s`", name)
		}
	}
}

// jsonNames lists the JSON names of a type's fields, in depth.
func jsonNames(t reflect.Type) []string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return jsonNames(t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	var names []string
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() {
			if tag := f.Tag.Get("json"); tag != "" {
				names = append(names, tag)
			}
			names = append(names, jsonNames(f.Type)...)
		}
	}
	return names
}
