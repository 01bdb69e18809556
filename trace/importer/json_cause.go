package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// jsonCause says in words what encoding/json only hints at.
func jsonCause(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return fmt.Errorf("the text ends in the middle of a value: the file is incomplete, copy or make it again: %w", io.ErrUnexpectedEOF)
	case errors.As(err, &kind):
		return typeCause(kind)
	case !errors.As(err, &syntax):
		return err
	case strings.Contains(syntax.Error(), "unexpected end"):
		return fmt.Errorf("the text ends in the middle of a value: the file is incomplete, copy or make it again: %w", io.ErrUnexpectedEOF)
	case strings.Contains(syntax.Error(), "'N'") || strings.Contains(syntax.Error(), "'I'"):
		return fmt.Errorf("%w at byte %d: NaN and Infinity are no JSON numbers and no scores", err, syntax.Offset)
	}
	return fmt.Errorf("%w at byte %d", err, syntax.Offset)
}

// typeCause says which field has a value of another type.
func typeCause(e *json.UnmarshalTypeError) error {
	field, want := e.Field, "a whole number that int32 holds, with neither point nor exponent"
	switch e.Type.Kind() {
	case reflect.Slice:
		want = "a list of numbers"
	case reflect.Struct:
		want = "an object"
	case reflect.Float64:
		want = "a number that a double holds"
	case reflect.Int, reflect.Int64:
		want = "a whole number"
	}
	if field == "" {
		field = "the value"
	}
	return fmt.Errorf("%s: found %s, expected %s", field, e.Value, want)
}
