package metrics

import (
	"encoding/json"
	"io"
	"reflect"
)

// RenderJSON writes the board as indented JSON; metrics/BOARD.md documents the fields.
func (b *Board) RenderJSON(w io.Writer) error { return writeJSON(w, b) }

// writeJSON writes a value as indented JSON.
func writeJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}

// fillLists makes nil lists empty ones, in depth: JSON's lists are never null.
func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fillLists(v.Elem())
		}
	case reflect.Slice:
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fillLists(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillLists(v.Field(i))
			}
		}
	}
}
