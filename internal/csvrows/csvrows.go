// Package csvrows reads CSV files of measurements: fixed columns, and lines with # as comments.
package csvrows

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/bom"
)

// Read reads the header, which has to be columns, and then a value from each record, at least one.
// parse makes a value of a record and the number of its line. Lines that begin with # are ignored, and
// so is a byte order mark. Errors name the file and the line.
func Read[T any](r io.Reader, name string, columns []string, parse func(record []string, line int) (T, error)) ([]T, error) {
	expected := "the columns " + strings.Join(columns, ",")
	return ReadBy(r, name, expected, func(header []string) (func(record []string, line int) (T, error), error) {
		if !slices.Equal(header, columns) {
			return nil, fmt.Errorf("columns %.200s, expected %s", strings.Join(header, ","), strings.Join(columns, ","))
		}
		return parse, nil
	})
}

// ReadBy is Read for files whose header decides how to parse the records. expected describes the
// header in errors.
func ReadBy[T any](r io.Reader, name, expected string, parser func(header []string) (func(record []string, line int) (T, error), error)) (all []T, err error) {
	buffered := bufio.NewReader(bom.Reader(r))
	if begin, _ := buffered.Peek(beginning); !isText(begin) {
		return nil, fmt.Errorf("%s is not a CSV file: name a text file with %s", name, expected)
	}
	in := csv.NewReader(buffered)
	in.Comment = '#'
	header, err := in.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s is empty, expected %s", name, expected)
	case err != nil:
		return nil, fmt.Errorf("%s: %w, expected %s", name, err, expected)
	}
	line, _ := in.FieldPos(0)
	parse, err := parser(header)
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, line, err)
	}
	for {
		record, err := in.Read()
		switch {
		case errors.Is(err, io.EOF) && len(all) == 0:
			return nil, fmt.Errorf("%s has a header and no measurements: add at least one line", name)
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := in.FieldPos(0)
		value, err := parse(record, line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		all = append(all, value)
	}
}

// beginning is the number of bytes that tell whether a file is a text.
const beginning = 512

// isText reports whether the beginning of a file is UTF-8 without control characters. Its last character may
// be cut.
func isText(begin []byte) bool {
	for len(begin) > 0 {
		c, n := utf8.DecodeRune(begin)
		if c == utf8.RuneError && n == 1 {
			return !utf8.FullRune(begin)
		}
		if unicode.IsControl(c) && !unicode.IsSpace(c) {
			return false
		}
		begin = begin[n:]
	}
	return true
}

// Whole reads a whole number of a column.
func Whole(column, text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s %.60q, expected a whole number of %d to %d", column, text, least, most)
	}
	return n, nil
}

// Microseconds reads the column time_us.
func Microseconds(text string) (float64, error) {
	us, err := strconv.ParseFloat(text, 64)
	if err != nil || !(us >= 1e-3 && us <= 1e9) {
		return 0, fmt.Errorf("time_us %.60q, expected 0.001 to 1000000000", text)
	}
	return us, nil
}
