package result

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// openings are the texts before each field's value in a line of WriteJSONL.
var openings = openingsOf(rowFields)

func openingsOf(fields []field) [][]byte {
	texts := slice.Map(fields, func(f field) []byte { return []byte(`,"` + f.name + `":`) })
	texts[0][0] = '{'
	return texts
}

// canonicalLines reads lines of WriteJSONL one after the other: all fields in their order, nothing
// between them, and escapes only in warnings. Rows repeat most values of the row before them, so it
// parses and checks only the values that differ.
type canonicalLines struct {
	texts  texts
	row    Row    // of the last line
	line   []byte // the last line. Empty if it was not read
	starts []int  // of the fields in line, with their openings, and of the end
	next   []int
}

// decode reads the row of a line. The row can share pointers and lists with the rows before it. It
// is the row of decodeObject, many times faster. decode returns false for any other line, valid or
// not, and for a row that fails Check.
func (c *canonicalLines) decode(line []byte) bool {
	if len(c.line) == 0 {
		c.row, c.starts, c.next = Row{}, make([]int, len(rowFields)+1), make([]int, len(rowFields)+1)
	}
	ok := c.fields(line)
	if !ok {
		c.line = c.line[:0]
		return false
	}
	c.line = append(c.line[:0], line...)
	c.starts, c.next = c.next, c.starts
	return true
}

func (c *canonicalLines) fields(line []byte) bool {
	at, known := 0, len(c.line) > 0
	for i := range rowFields {
		f := &rowFields[i]
		c.next[i] = at
		if known {
			same := c.line[c.starts[i]:c.starts[i+1]]
			if end := at + len(same); end < len(line) && (line[end] == ',' || line[end] == '}') && string(line[at:end]) == string(same) {
				at = end
				continue
			}
		}
		if !bytes.HasPrefix(line[at:], openings[i]) {
			return false
		}
		value := line[at+len(openings[i]):]
		n := valueLength(value)
		if n < 0 || !f.parseJSON(&c.row, value[:n]) {
			return false
		}
		if f.name == "capacity" {
			c.row.spellCapacity()
		}
		if f.check(&c.row) != nil {
			return false
		}
		c.texts.share(&c.row, f)
		at += len(openings[i]) + n
	}
	c.next[len(rowFields)] = at
	return string(line[at:]) == "}\n" && c.row.checkSchema() == nil && c.row.checkTogether() == nil
}

// valueLength returns the number of bytes of the JSON value at the start of text. A list must be
// the last field, a text ends at the next quote, and anything else at the next field. It returns -1
// if no value ends there.
func valueLength(text []byte) int {
	switch {
	case len(text) == 0:
		return -1
	case text[0] == '[':
		return bytes.LastIndexByte(text, '}')
	case text[0] == '"':
		if n := bytes.IndexByte(text[1:], '"'); n >= 0 {
			return n + 2
		}
		return -1
	}
	return bytes.IndexAny(text, ",}")
}

// parseJSON sets the value from its JSON. It returns false if that is not valid, if the field has no
// such values, or if the value is a text with an escape.
func (f *field) parseJSON(r *Row, value []byte) bool {
	if !utf8.Valid(value) || !json.Valid(value) {
		return false
	}
	switch text := string(value); {
	case !f.scalar():
		r.Warnings = nil
		if text[0] != '[' || json.Unmarshal(value, &r.Warnings) != nil {
			return false
		}
		if r.Warnings = slices.Clip(r.Warnings); len(r.Warnings) == 0 {
			r.Warnings = nil
		}
		return true
	case text == null:
		f.value(r).SetZero()
		return f.nullable()
	case f.element().Kind() != reflect.String:
		return f.parsePresent(r, text) == nil
	case text[0] != '"' || strings.Contains(text, `\`):
		return false
	default:
		return f.parsePresent(r, text[1:len(text)-1]) == nil
	}
}
