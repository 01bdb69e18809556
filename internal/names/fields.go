package names

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// unknownField is how encoding/json and go.yaml.in/yaml say that a struct lacks a field. Both
// report it as text only.
var unknownField = regexp.MustCompile(`(?:unknown field "([^"]+)"|field (\S+) not found in type \S+)`)

// OfFields adds the nearest names to an error of encoding/json or go.yaml.in/yaml about a
// field that v, which was decoded into, does not have. It returns other errors as they are.
func OfFields(err error, v any) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	at := unknownField.FindStringSubmatchIndex(text)
	if at == nil {
		return err
	}
	name := ""
	for i := 2; i < len(at); i += 2 {
		if at[i] >= 0 {
			name = text[at[i]:at[i+1]]
		}
	}
	known := fieldsOf(reflect.TypeOf(v), map[reflect.Type]bool{})
	return errors.New(text[:at[0]] + fmt.Sprintf("unknown field %q%s", name, Nearest(name, known)) + text[at[1]:])
}

// fieldsOf lists the fields of a type and of the types within it, by their tags.
func fieldsOf(t reflect.Type, seen map[reflect.Type]bool) (list []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return nil
	}
	seen[t] = true
	for _, f := range reflect.VisibleFields(t) {
		for _, key := range []string{"json", "yaml"} {
			if name, _, _ := strings.Cut(f.Tag.Get(key), ","); name != "" && name != "-" {
				list = append(list, name)
			}
		}
		list = append(list, fieldsOf(f.Type, seen)...)
	}
	return list
}
