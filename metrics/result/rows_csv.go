package result

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kvreplay/kvreplay/internal/printable"
)

// WriteCSV writes the rows with a header line of the JSON field names. No value is an empty cell.
// Warnings are a JSON list in one cell. A text that a spreadsheet would compute begins with a quote
// (printable.CSV), which reading removes.
func WriteCSV(w io.Writer, rows []Row) error {
	c := csv.NewWriter(w)
	if err := c.Write(FieldNames()); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	cells := make([]string, len(rowFields))
	for i := range rows {
		if err := rows[i].Check(); err != nil {
			return fmt.Errorf("write rows: row %d: %w", i+1, err)
		}
		for j, f := range rowFields {
			cells[j] = f.csvText(&rows[i])
		}
		if err := c.Write(printable.Record(cells)); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
	}
	c.Flush()
	return c.Error()
}

func (f *field) csvText(r *Row) string {
	if !f.scalar() {
		return JSONList(r.Warnings)
	}
	if f.nullable() && f.value(r).IsNil() {
		return ""
	}
	return f.text(r)
}

// JSONList returns texts as a JSON list, empty if there are none.
func JSONList(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	list, err := json.Marshal(texts)
	if err != nil {
		panic(err) // a list of strings always marshals
	}
	return string(list)
}

func (d *decoder) csv(b *bufio.Reader, name string) error {
	text, err := io.ReadAll(b)
	if err != nil {
		return fmt.Errorf("read rows: %s: %w", name, err)
	}
	if text[len(text)-1] != '\n' {
		return &RowError{name, bytes.Count(text, []byte{'\n'}) + 1, errors.New("the last line has no end: the file is truncated")}
	}
	c := csv.NewReader(bytes.NewReader(text))
	header, err := c.Read()
	if errors.Is(err, io.EOF) {
		return &RowError{name, 1, errEmpty}
	}
	if err != nil {
		return csvError(name, 1, err)
	}
	fields, err := csvHeader(header)
	if err != nil {
		return &RowError{name, 1, err}
	}
	for none := true; ; none = false {
		from := c.InputOffset()
		cells, err := c.Read()
		switch {
		case errors.Is(err, io.EOF) && none:
			return &RowError{name, 1, errors.New("a header without rows: replay again, or leave out the file")}
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, csv.ErrFieldCount):
			line, _ := c.FieldPos(0)
			return &RowError{name, line, fmt.Errorf("%d cells, expected %d as in the header", len(cells), len(fields))}
		case err != nil:
			return csvError(name, 1, err)
		}
		row, err := decodeCells(fields, cells)
		if err != nil {
			line, _ := c.FieldPos(0)
			return &RowError{name, line, err}
		}
		d.texts.shareAll(&row)
		if err := d.use(&row, false, c.InputOffset()-from); err != nil {
			return err
		}
	}
}

// csvError takes the line from the parser if the parser knows it.
func csvError(name string, line int, err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return &RowError{name, parse.Line, parse.Err}
	}
	return &RowError{name, line, err}
}

// csvHeader returns the columns' fields. Every field must appear once, in any order.
func csvHeader(names []string) ([]field, error) {
	fields := make([]field, len(names))
	seen := make([]bool, len(rowFields))
	for i, name := range names {
		f, err := fieldNamed(name)
		if err != nil {
			return nil, fmt.Errorf("header (rows are JSON lines or CSV): %w", err)
		}
		if seen[f.at] {
			return nil, fmt.Errorf("header: field %s appears twice", name)
		}
		fields[i], seen[f.at] = f, true
	}
	for i, ok := range seen {
		if !ok {
			return nil, fmt.Errorf("header: field %s is missing, as in rows of an earlier schema: replay the trace again", rowFields[i].name)
		}
	}
	return fields, nil
}

func decodeCells(fields []field, cells []string) (Row, error) {
	var row Row
	for i, f := range fields {
		if err := f.parseCSV(&row, cells[i]); err != nil {
			return row, err
		}
	}
	row.spellCapacity()
	return row, row.Check()
}

func (f *field) parseCSV(r *Row, text string) error {
	switch {
	case text == "" && (f.nullable() || !f.scalar()):
		return nil
	case !f.scalar():
		if err := json.Unmarshal([]byte(text), &r.Warnings); err != nil || len(r.Warnings) == 0 {
			return fmt.Errorf("field %s: %q is not a JSON list of texts", f.name, text)
		}
		return nil
	case f.nullable():
		return f.parsePresent(r, printable.FromCSV(text))
	}
	return f.parse(r, printable.FromCSV(text))
}
