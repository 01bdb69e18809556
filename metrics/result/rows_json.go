package result

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/jsonobject"
)

// WriteJSONL writes the rows in the canonical form, one JSON object per line, with fields in Row's
// order. Equal rows give equal bytes. A row that fails Check is an error.
func WriteJSONL(w io.Writer, rows []Row) error {
	b := bufio.NewWriterSize(w, 1<<16)
	var r Row // one for all: reflection takes its address
	for i := range rows {
		r = rows[i]
		if err := r.Check(); err != nil {
			return fmt.Errorf("write rows: row %d: %w", i+1, err)
		}
		if r.Warnings == nil {
			r.Warnings = []string{}
		}
		line, err := appendFields(b.AvailableBuffer(), rowFields, reflect.ValueOf(&r).Elem())
		if err != nil {
			return fmt.Errorf("write rows: row %d: %w", i+1, err)
		}
		b.Write(append(line, '\n')) // Flush returns the error
	}
	return b.Flush()
}

// MarshalJSON writes the fields in their order.
func (r Row) MarshalJSON() ([]byte, error) {
	return appendFields(nil, rowFields, reflect.ValueOf(r))
}

// MarshalSetting writes a struct that embeds Setting as JSON. The tags of its fields that Row
// describes give their order.
func MarshalSetting(v any) ([]byte, error) {
	return appendFields(nil, fieldsOf(reflect.TypeOf(v)), reflect.ValueOf(v))
}

func appendFields(dst []byte, fields []field, v reflect.Value) (_ []byte, err error) {
	next := byte('{')
	for _, f := range fields {
		dst = append(append(append(dst, next, '"'), f.name...), `":`...)
		next = ','
		if dst, err = appendValue(dst, f.in(v)); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.name, err)
		}
	}
	return append(dst, '}'), nil
}

// appendValue writes a value as encoding/json does, without escapes for HTML.
func appendValue(dst []byte, v reflect.Value) ([]byte, error) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return append(dst, null...), nil
		}
		return appendValue(dst, v.Elem())
	case reflect.Int, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case reflect.String:
		if text := v.String(); plainJSON(text) {
			return append(append(append(dst, '"'), text...), '"'), nil
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v.Interface())
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...), err
}

// plainJSON reports whether a text needs no escape in JSON.
func plainJSON(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (d *decoder) lines(b *bufio.Reader, name string) error {
	lines := canonicalLines{texts: d.texts}
	var long []byte // a line that the reader's buffer does not hold
	for line := 1; ; line++ {
		text, err := b.ReadSlice('\n')
		for long = long[:0]; errors.Is(err, bufio.ErrBufferFull); text, err = b.ReadSlice('\n') {
			long = append(long, text...)
		}
		if len(long) > 0 {
			long = append(long, text...)
			text = long
		}
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return &RowError{name, line, errors.New("the last line has no end: the file is truncated")}
		case err != nil:
			return fmt.Errorf("read rows: %s: %w", name, err)
		}
		row, same := &lines.row, lines.decode(text) && lines.same && line > 1
		if len(lines.line) == 0 { // not a canonical line
			other, err := decodeObject(text)
			if err != nil {
				return &RowError{name, line, err}
			}
			row = &other
			d.texts.shareAll(row)
		}
		if err := d.use(row, same, int64(len(text))); err != nil {
			return err
		}
	}
}

// decodeObject reads a line field by field. encoding/json alone would accept other spellings, null for
// a number, repeated fields and missing fields.
func decodeObject(text []byte) (Row, error) {
	var row Row
	if !utf8.Valid(text) {
		return row, errors.New("not UTF-8")
	}
	members, err := jsonobject.Parse(text)
	if err != nil {
		return row, err
	}
	seen := make([]bool, len(rowFields))
	for _, m := range members {
		f, err := fieldNamed(m.Name)
		if err != nil {
			return row, err
		}
		seen[f.at] = true
		if m.Null() && !f.nullable() {
			return row, fmt.Errorf("field %s: null", f.name)
		}
		if err := json.Unmarshal(m.Value, f.value(&row).Addr().Interface()); err != nil {
			return row, fmt.Errorf("field %s: %.40s is not %s", f.name, m.Value, kindName(f.element().Kind()))
		}
	}
	return finishRow(row, seen)
}

// finishRow checks a decoded row. It checks the schema first, because another schema may have other
// fields.
func finishRow(row Row, seen []bool) (Row, error) {
	if len(row.Warnings) == 0 {
		row.Warnings = nil
	}
	if seen[fieldIndex["schema"]] && row.Schema != RowSchema {
		return row, row.Check()
	}
	for i, f := range rowFields {
		if !seen[i] {
			return row, fmt.Errorf("field %s is missing", f.name)
		}
	}
	row.spellCapacity()
	return row, row.Check()
}
