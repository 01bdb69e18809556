package result

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/optional"
)

// ErrNoRows is the error of a folder without files of rows.
var ErrNoRows = errors.New("holds no *.jsonl")

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

// ReadRows reads result rows from files, JSON lines or CSV by their content, and from folders. It
// reads every *.jsonl and *.jsonl.gz of a folder in the order of names. Files may be compressed with gzip. It is strict and never leaves out rows. Errors are an unknown,
// missing or repeated field, an unknown schema, counts that cannot be true (Row.Check), and a
// truncated last line. They name file and line.
func ReadRows(paths ...string) ([]Row, error) {
	names, err := allRowFiles(paths)
	if err != nil {
		return nil, err
	}
	var c collector
	d := decoder{use: c.add}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			c.left += info.Size()
		}
	}
	for _, name := range names {
		if err := d.file(name); err != nil {
			return nil, err
		}
	}
	return c.rows, nil
}

// EachRow reads rows as ReadRows does, but holds only one. use receives each row, which is valid
// until use returns. same is true if the row is known to be of the kind of the row before
// (SameKind). An error of use ends the reading. All files must be regular, so that the caller can
// read them again.
func EachRow(paths []string, use func(r *Row, same bool) error) error {
	names, err := allRowFiles(paths)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := files.CheckInput(name); err != nil {
			return fmt.Errorf("read rows: %w", err)
		}
	}
	d := decoder{use: func(row *Row, same bool, _ int64) error { return use(row, same) }}
	for _, name := range names {
		if err := d.file(name); err != nil {
			return err
		}
	}
	return nil
}

func allRowFiles(paths []string) (names []string, err error) {
	for _, path := range paths {
		of, err := rowFiles(path)
		if err != nil {
			return nil, err
		}
		names = append(names, of...)
	}
	return names, nil
}

// rowFiles returns the files of a path: itself, or those of a folder.
func rowFiles(path string) (names []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() && filepath.Ext(strings.TrimSuffix(e.Name(), ".gz")) == ".jsonl" {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	if names == nil {
		return nil, fmt.Errorf("read rows: folder %s %w", path, ErrNoRows)
	}
	return names, nil
}

// DecodeRows reads rows as ReadRows does, from r. name is the file's name in errors.
func DecodeRows(r io.Reader, name string) ([]Row, error) {
	var c collector
	if known, ok := r.(interface{ Len() int }); ok { // text in memory
		c.left = int64(known.Len())
	}
	d := decoder{use: c.add}
	if err := d.decode(r, name); err != nil {
		return nil, err
	}
	return c.rows, nil
}

// OrDash returns the text, or a dash for nil, such as the capacity of a policy without one.
func OrDash(s *string) string { return optional.Or(s, "–") }
