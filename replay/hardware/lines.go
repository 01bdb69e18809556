package hardware

import (
	"fmt"
	"reflect"
)

// lined is a fact of any dimension.
type lined interface {
	Known() bool
	line(field string) Line
}

// Lines lists the numbers of an item in the order of its file format, as text.
func Lines(it Item) []Line {
	var lines []Line
	walk(reflect.ValueOf(it).Elem(), "", &lines)
	return lines
}

func walk(v reflect.Value, path string, lines *[]Line) {
	for _, f := range fieldsOf(v.Type()) {
		visit(v.FieldByIndex(f.index), join(path, f.name), lines)
	}
}

func visit(v reflect.Value, path string, lines *[]Line) {
	if fact, ok := v.Addr().Interface().(lined); ok {
		if fact.Known() {
			*lines = append(*lines, fact.line(path))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Elem(), path, lines)
		}
	case reflect.Struct:
		walk(v, path, lines)
	case reflect.Slice:
		for i := range v.Len() {
			visit(v.Index(i), fmt.Sprintf("%s[%d]", path, i), lines)
		}
	}
}
