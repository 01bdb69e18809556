package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// metaFields are the names of Meta's fields in JSON.
var metaFields = func() (list []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Meta]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		list = append(list, name)
	}
	return list
}()

// checkFields reports what encoding/json lets pass: a field that is not spelled as in
// FORMAT.md, one that stands twice, text after the object.
func checkFields(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := checkValue(dec, metaFields, metaDepth); err == io.EOF {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("text after the JSON object")
	}
	return nil
}

// metaDepth is how deep metadata may nest: notes are an object in an object.
const metaDepth = 16

// checkValue consumes the next value, which nests no deeper than depth. In every object of it
// a field stands once; known are those of the outermost, nil for any.
func checkValue(dec *json.Decoder, known []string, depth int) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	object := t == json.Delim('{')
	if !object && t != json.Delim('[') {
		return nil
	}
	if depth == 0 {
		return fmt.Errorf("nested more than %d deep", metaDepth)
	}
	seen := map[string]bool{}
	for dec.More() {
		if object {
			if err := checkField(dec, known, seen); err != nil {
				return err
			}
		}
		if err := checkValue(dec, nil, depth-1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// checkField consumes the name of a field.
func checkField(dec *json.Decoder, known []string, seen map[string]bool) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	name, _ := t.(string)
	switch {
	case known != nil && !slices.Contains(known, name):
		return fmt.Errorf("unknown field %.60q%s; format v1 has %s", name, names.Nearest(name, known), strings.Join(known, ", "))
	case seen[name]:
		return fmt.Errorf("field %q stands twice", name)
	}
	seen[name] = true
	return nil
}
