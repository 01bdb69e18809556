// Package jsonobject reads JSON objects that other programs wrote. It refuses text that encoding/json
// accepts silently: a repeated name, and text behind the object.
package jsonobject

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Member is a name of an object, with the text of its value.
type Member struct {
	Name  string
	Value []byte
}

// Null reports whether the value is null.
func (m *Member) Null() bool { return string(m.Value) == "null" }

// ErrNoObject is the error of JSON that is not an object, and of text that does not begin like one.
var ErrNoObject = errors.New("not a JSON object")

// Parse returns the members of an object in their order. Their values share the memory of text.
func Parse(text []byte) ([]Member, error) {
	if isObject(text) && !json.Valid(text) {
		return nil, Cause(json.Unmarshal(text, new(json.RawMessage)))
	}
	return Members(text)
}

// white is the white space of JSON.
const white = " \t\r\n"

// isObject reports whether a text begins like an object.
func isObject(text []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(text, white), []byte("{")) }

// Members is Parse for text that is known to be valid JSON.
func Members(text []byte) (members []Member, err error) {
	if !isObject(text) {
		return nil, ErrNoObject
	}
	seen := map[string]bool{}
	for rest := bytes.TrimLeft(text, white)[1:]; ; {
		if rest = bytes.TrimLeft(rest, white+","); rest[0] == '}' {
			return members, nil
		}
		var m Member
		end := stringEnd(rest)
		if err := json.Unmarshal(rest[:end], &m.Name); err != nil {
			return nil, err
		}
		if seen[m.Name] {
			return nil, fmt.Errorf("field %q appears twice", m.Name)
		}
		seen[m.Name] = true
		rest = bytes.TrimLeft(rest[end:], white+":")
		end = valueEnd(rest)
		m.Value, rest = bytes.TrimRight(rest[:end], white), rest[end:]
		members = append(members, m)
	}
}

// valueEnd returns the end of the value at the beginning of text, which a comma or bracket follows.
func valueEnd(text []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch text[i] {
		case '"':
			i += stringEnd(text[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 { // the object ends
				return i
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
}

// stringEnd returns the end of the string at the beginning of text.
func stringEnd(text []byte) int {
	for i := 1; ; i += 2 {
		i += bytes.IndexAny(text[i:], `"\\`)
		if text[i] == '"' {
			return i + 1
		}
	}
}

// Cause rewords an error of encoding/json. It adds the place, or the remedy for an incomplete file.
// An error of an incomplete file is an io.ErrUnexpectedEOF.
func Cause(err error) error {
	var syntax *json.SyntaxError
	isSyntax := errors.As(err, &syntax)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), isSyntax && strings.Contains(syntax.Error(), "unexpected end"):
		return fmt.Errorf("the text ends in the middle of a value: the file is incomplete, copy or make it again: %w", io.ErrUnexpectedEOF)
	case !isSyntax:
		return err
	case strings.Contains(syntax.Error(), "after top-level value"):
		return errors.New("text behind the JSON object")
	case strings.Contains(syntax.Error(), "'N'"), strings.Contains(syntax.Error(), "'I'"):
		return fmt.Errorf("%w at byte %d: NaN and Infinity are not JSON numbers", err, syntax.Offset)
	}
	return fmt.Errorf("%w at byte %d", err, syntax.Offset)
}

// ReadLine appends the next line to dst, without its end. A line may have at most most bytes. After the
// last line it returns io.EOF.
func ReadLine(r *bufio.Reader, dst []byte, most int) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		dst = append(dst, part...)
		switch {
		case len(dst) > most:
			return dst, fmt.Errorf("the line is longer than %d bytes, expected one JSON object a line", most)
		case err == nil || err == io.EOF && len(dst) > 0:
			return bytes.TrimRight(dst, "\r\n"), nil
		case err != bufio.ErrBufferFull:
			return dst, err
		}
	}
}
