// Package csvrows reads CSV files of measurements: fixed columns, and lines with # as comments.
package csvrows

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// mark is the byte order mark that spreadsheets write before the first byte of UTF-8.
const mark = "\ufeff"

// SkipMark returns r without a byte order mark at its beginning.
func SkipMark(r io.Reader) io.Reader {
	buffered := bufio.NewReader(r)
	if begin, _ := buffered.Peek(len(mark)); string(begin) == mark {
		_, _ = buffered.Discard(len(mark)) // they were peeked
	}
	return buffered
}

// Read reads the header, which has to be columns, and then a value from each record, at least one.
// parse makes a value of a record and the number of its line. Lines that begin with # are ignored.
// Errors name the file and the line.
func Read[T any](r io.Reader, name string, columns []string, parse func(record []string, line int) (T, error)) (all []T, err error) {
	in := csv.NewReader(r)
	in.Comment = '#'
	expected := strings.Join(columns, ",")
	header, err := in.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s is empty, expected the columns %s", name, expected)
	case err != nil:
		return nil, fmt.Errorf("%s: %w, expected the columns %s", name, err, expected)
	}
	line, _ := in.FieldPos(0)
	if !slices.Equal(header, columns) {
		return nil, fmt.Errorf("%s:%d: columns %.200s, expected %s", name, line, strings.Join(header, ","), expected)
	}
	for {
		record, err := in.Read()
		switch {
		case errors.Is(err, io.EOF) && len(all) == 0:
			return nil, fmt.Errorf("%s has a header and no measurements", name)
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
