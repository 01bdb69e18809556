package result

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// openings are the texts before each field's value in a line of WriteJSONL.
var openings = slice.Map(rowFields, func(f field) []byte {
	return []byte(map[bool]string{true: "{", false: ","}[f.at == 0] + `"` + f.name + `":`)
})

// ofCounts are the fields in which rows of one kind (SameKind) may differ.
var ofCounts = slice.Map(rowFields, func(f field) bool { return !f.ofCell() || f.name == "warnings" })

// canonicalLines reads lines of WriteJSONL one after the other: all fields in their order, nothing
// between them, and escapes only in warnings. Rows repeat most values of the row before them, so it
// parses and checks only the values that differ.
type canonicalLines struct {
	texts  texts
	row    Row    // of the last line
	line   []byte // the last line. Empty if it was not read
	starts []int  // of the fields in line, with their openings, and of the end
	next   []int
	places []any // pointers to the fields that quick sets, in row
	same   bool  // whether the rows of this line and of the line before are of one kind
	ints   []int64
	floats []float64
}

// decode reads the row of a line. The row can share pointers and lists with the rows before it. It
// is the row of decodeObject, many times faster. decode returns false for any other line, valid or
// not, and for a row that fails Check.
func (c *canonicalLines) decode(line []byte) bool {
	if len(c.line) == 0 {
		c.row, c.starts, c.next = Row{}, make([]int, len(rowFields)+1), make([]int, len(rowFields)+1)
		c.places = placesOf(&c.row)
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
	c.same = known
	for i := 0; i < len(rowFields); i++ {
		if known {
			from := c.starts[i]
			same := commonBytes(c.line[from:], line[at:])
			shift := at - from
			for i < len(rowFields) && c.starts[i+1]-from < same { // with the delimiter behind the value
				c.next[i] = c.starts[i] + shift
				i++
			}
			at = c.starts[i] + shift
			if i == len(rowFields) {
				break
			}
		}
		c.next[i], c.same = at, c.same && ofCounts[i]
		if !bytes.HasPrefix(line[at:], openings[i]) {
			return false
		}
		value := line[at+len(openings[i]):]
		n := valueLength(value)
		if n < 0 || !c.quick(i, value[:n]) && !c.slow(i, value[:n]) {
			return false
		}
		at += len(openings[i]) + n
	}
	c.next[len(rowFields)] = at
	if string(line[at:]) != "}\n" || c.row.checkCounts() != nil {
		return false
	}
	if c.same { // the row before has the other fields
		return c.row.checkPart() == nil
	}
	return c.row.checkSchema() == nil && c.row.checkIdentity() == nil
}

// slow sets and checks any field.
func (c *canonicalLines) slow(i int, value []byte) bool {
	f := &rowFields[i]
	if !f.parseJSON(&c.row, value) {
		return false
	}
	if f.name == "capacity" {
		c.row.spellCapacity()
	}
	if f.check(&c.row) != nil {
		return false
	}
	c.texts.share(&c.row, f)
	return true
}

// placesOf returns pointers to the fields of a row. The capacity has none, because it has several
// spellings.
func placesOf(r *Row) []any {
	places := make([]any, len(rowFields))
	for i := range rowFields {
		if f := &rowFields[i]; f.name != "capacity" {
			places[i] = f.value(r).Addr().Interface()
		}
	}
	return places
}

// quick sets a field as slow does, if its value is of a form that most rows have: a count, a number
// or a text of printable ASCII. It returns false for any other value, valid or not.
func (c *canonicalLines) quick(i int, value []byte) bool {
	switch p := c.places[i].(type) {
	case *int64:
		x, ok := count(value)
		if ok {
			*p = x
		}
		return ok
	case **int64:
		x, ok := count(value)
		if ok {
			*p = kept(&c.ints, x)
		}
		return ok
	case *float64:
		x, ok := number(value)
		if ok {
			*p = x
		}
		return ok
	case **float64:
		x, ok := number(value)
		if ok {
			*p = kept(&c.floats, x)
		}
		return ok
	case *string:
		if plainText(value) {
			*p = *c.texts.copyOf(value[1 : len(value)-1])
			return true
		}
	case **string:
		if plainText(value) {
			*p = c.texts.copyOf(value[1 : len(value)-1])
			return true
		}
	}
	return false
}

// kept returns a pointer to a copy of x. It makes room for several values at once.
func kept[T any](room *[]T, x T) *T {
	if len(*room) == cap(*room) {
		*room = make([]T, 0, 64)
	}
	*room = append(*room, x)
	return &(*room)[len(*room)-1]
}

// commonBytes returns the number of bytes with which both texts begin.
func commonBytes(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// count parses an integer ≥ 0 of at most 18 digits.
func count(text []byte) (x int64, ok bool) {
	if len(text) == 0 || len(text) > 18 || text[0] == '0' && len(text) > 1 {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		x = 10*x + int64(c-'0')
	}
	return x, true
}

// number parses a JSON number ≥ 0 without an exponent.
func number(text []byte) (float64, bool) {
	if x, ok := count(text); ok && x < 1<<53 {
		return float64(x), true
	}
	whole, decimals, _ := bytes.Cut(text, []byte("."))
	if _, ok := count(whole); !ok || len(decimals) == 0 {
		return 0, false
	}
	for _, c := range decimals {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	x, err := strconv.ParseFloat(string(text), 64)
	return x, err == nil
}

// plainText reports whether a JSON value is a text of printable ASCII without escapes.
func plainText(value []byte) bool {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return false
	}
	for _, c := range value[1 : len(value)-1] {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
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
	for n, c := range text {
		if c == ',' || c == '}' {
			return n
		}
	}
	return -1
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
