package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/kvreplay/kvreplay/trace/files"
)

// RowError is a row that cannot be read. Errors of ReadRows that concern one line are
// of this type.
type RowError struct {
	File string // as given
	Line int    // from 1
	Err  error
}

func (e *RowError) Error() string { return fmt.Sprintf("read rows: %s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap returns the cause.
func (e *RowError) Unwrap() error { return e.Err }

// ReadRows reads result rows from a file, JSON lines or CSV by its content, or from
// every *.jsonl of a folder in the order of names. It is strict: an unknown schema or
// field, a missing or repeated field, counts that cannot be true (Row.Check) and a
// truncated last line are errors with file and line, never rows left out.
func ReadRows(path string) ([]Row, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	if !info.IsDir() {
		return readFile(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	var rows []Row
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) != ".jsonl" {
			continue
		}
		more, err := readFile(filepath.Join(path, e.Name()))
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("read rows: folder %s holds no *.jsonl", path)
	}
	return rows, nil
}

func readFile(path string) ([]Row, error) {
	if err := files.CheckStream(path); err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	defer f.Close()
	return DecodeRows(f, path)
}

// DecodeRows reads rows as ReadRows does, from r; name stands for the file in errors.
func DecodeRows(r io.Reader, name string) ([]Row, error) {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(4); string(magic) == "PAR1" {
		return nil, fmt.Errorf("read rows: %s: is Parquet, a trace or a profile; expected rows, which kvreplay replay makes of a trace", name)
	}
	if magic, _ := b.Peek(2); string(magic) == "\x1f\x8b" {
		return nil, fmt.Errorf("read rows: %s: is gzip'ed, expected rows as JSON lines or CSV: gunzip it first", name)
	}
	first, err := b.Peek(1)
	switch {
	case errors.Is(err, io.EOF):
		return nil, &RowError{name, 1, errors.New("the file is empty")}
	case err != nil:
		return nil, fmt.Errorf("read rows: %s: %w", name, err)
	case first[0] == '{':
		return decodeLines(b, name)
	}
	return decodeCSV(b, name)
}

func orDash(s *string) string {
	if s == nil {
		return "–"
	}
	return *s
}

// unite returns the distinct strings of both, sorted, nil where there are none.
func unite(a, b []string) []string {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}
