package result

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// WriteJSONL writes the rows one JSON object a line, fields in Row's order, the
// canonical form: equal rows give equal bytes. A row that fails Check is an error.
func WriteJSONL(w io.Writer, rows []Row) error {
	b := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	var r Row // one for all: the encoder is given its address
	for i := range rows {
		r = rows[i]
		if err := r.Check(); err != nil {
			return fmt.Errorf("write rows: row %d: %w", i+1, err)
		}
		if r.Warnings == nil {
			r.Warnings = []string{}
		}
		if err := enc.Encode(&r); err != nil {
			return fmt.Errorf("write rows: row %d: %w", i+1, err)
		}
	}
	return b.Flush()
}

func (d *decoder) lines(b *bufio.Reader, name string) error {
	for line := 1; ; line++ {
		text, err := b.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return &RowError{name, line, errors.New("the last line has no end: the file is truncated")}
		case err != nil:
			return fmt.Errorf("read rows: %s: %w", name, err)
		}
		row, err := decodeLine(text)
		if err != nil {
			return &RowError{name, line, err}
		}
		d.add(row, int64(len(text)))
	}
}

// decodeLine reads one JSON object in which every field of Row stands exactly once.
func decodeLine(text []byte) (Row, error) {
	if row, ok := decodeCanonical(text); ok && row.Check() == nil {
		return row, nil
	}
	return decodeObject(text)
}

// decodeObject reads a line token by token: encoding/json alone would take other
// spellings, null for a number, fields twice and fields left out.
func decodeObject(text []byte) (Row, error) {
	var row Row
	if !utf8.Valid(text) {
		return row, errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return row, errors.New("not a JSON object")
	}
	seen := make([]bool, len(rowFields))
	for dec.More() {
		if err := decodeField(dec, &row, seen); err != nil {
			return row, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return row, fmt.Errorf("JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return row, errors.New("text behind the JSON object")
	}
	return finishRow(row, seen)
}

func decodeField(dec *json.Decoder, row *Row, seen []bool) error {
	key, err := dec.Token()
	if err != nil {
		return fmt.Errorf("JSON: %w", err)
	}
	f, err := fieldNamed(key.(string))
	if err != nil {
		return err
	}
	if seen[f.index] {
		return fmt.Errorf("field %s stands twice", f.name)
	}
	seen[f.index] = true
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return fmt.Errorf("field %s: JSON: %w", f.name, err)
	}
	if string(raw) == null && !f.nullable() {
		return fmt.Errorf("field %s: null", f.name)
	}
	if err := json.Unmarshal(raw, f.value(row).Addr().Interface()); err != nil {
		return fmt.Errorf("field %s: %w", f.name, err)
	}
	return nil
}

// finishRow checks a decoded row: the schema first, for the fields of another schema
// may differ.
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
