package prompts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/gunzip"
)

// maxLine is the length in bytes beyond which a line is refused: a prompt of a million
// tokens is about 6 MB.
const maxLine = 256 << 20

// required are the keys without which a line is no prompt. RULER's files have them all.
var required = []string{"index", "input", "outputs", "length"}

// RowError is a malformed line of a prompts file.
type RowError struct {
	File string
	Line int // from 1
	Err  error
}

func (e *RowError) Error() string {
	return fmt.Sprintf("read prompts: %s:%d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns what is wrong with the line.
func (e *RowError) Unwrap() error { return e.Err }

// Rows streams the rows of a file, gzip'ed or not, in order. The first error ends the
// stream: an I/O failure, or a *RowError for a line that is no row, lacks one of
// RULER's keys or repeats an id. Keys that Row does not have are ignored; empty lines
// are not allowed, but the last line needs no newline. A row belongs to the caller.
func Rows(path string) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(nil, fmt.Errorf("read prompts: %w", err))
			return
		}
		defer f.Close()
		for row, err := range scan(path, f) {
			if !yield(row, err) {
				return
			}
		}
	}
}

// ReadAll returns all rows of a file; errors are those of Rows, and a file without a
// row is one too.
func ReadAll(path string) ([]*Row, error) {
	var rows []*Row
	for row, err := range Rows(path) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("read prompts: %s: no rows", path)
	}
	return rows, nil
}

// scan is Rows of an open file.
func scan(name string, r io.Reader) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		lines, err := gunzip.Reader(r)
		if err != nil {
			yield(nil, fmt.Errorf("read prompts: %s: %w", name, err))
			return
		}
		seen := make(map[string]int)
		for line := 1; ; line++ {
			text, err := nextLine(lines)
			if err == io.EOF {
				return
			}
			var row *Row
			if err == nil {
				row, err = parse(text)
			}
			if err == nil && row.ID != "" {
				if first, ok := seen[row.ID]; ok {
					err = fmt.Errorf("id %q is that of line %d", row.ID, first)
				}
				seen[row.ID] = line
			}
			if err != nil {
				yield(nil, &RowError{name, line, err})
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// nextLine returns a line without its newline; io.EOF where there is none.
func nextLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("longer than %d bytes, expected one JSON object a line", maxLine)
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(line) > 0, err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		}
		return nil, err
	}
}

// parse reads one line.
func parse(line []byte) (*Row, error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, errors.New("empty line, expected a JSON object")
	}
	if !utf8.Valid(line) {
		return nil, errors.New("not UTF-8")
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(line, &keys); err != nil {
		return nil, fmt.Errorf("expected a JSON object: %w", err)
	}
	for _, key := range required {
		if value, ok := keys[key]; !ok || string(value) == "null" {
			return nil, fmt.Errorf("no key %q; a row has index, input, outputs and length", key)
		}
	}
	var row Row
	if err := json.Unmarshal(line, &row); err != nil {
		return nil, err
	}
	if err := row.Validate(); err != nil {
		return nil, err
	}
	return &row, nil
}
