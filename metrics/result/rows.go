package result

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"

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
	return (&Files{names: names}).All()
}

// Files are files of rows that can be read several times. Each time they have the same rows, or an
// error says that one was changed.
type Files struct {
	names   []string
	pipes   []*pipe // nil for regular files, and for pipes that are read once
	hash    maphash.Hash
	digests []uint64 // of the files that were read to the end, in the order of names
}

// NewFiles opens the files that ReadRows reads. The bytes of pipes are kept in a temporary file.
func NewFiles(paths ...string) (*Files, error) {
	names, err := allRowFiles(paths)
	if err != nil {
		return nil, err
	}
	f := &Files{names: names, pipes: make([]*pipe, len(names))}
	for i, name := range names {
		if files.CheckInput(name) == nil {
			continue
		}
		if f.pipes[i], err = openPipe(name); err != nil {
			return nil, fmt.Errorf("read rows: %w", err)
		}
	}
	return f, nil
}

// Each reads rows as ReadRows does, but holds only one. use receives each row, which is valid
// until use returns. same is true if the row is known to be of the kind of the row before
// (SameKind). An error of use ends the reading.
func (f *Files) Each(use func(r *Row, same bool) error) error {
	return f.read(func(row *Row, same bool, _ int64) error { return use(row, same) })
}

// All returns the rows of ReadRows.
func (f *Files) All() ([]Row, error) {
	var c collector
	for _, name := range f.names {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			c.left += info.Size()
		}
	}
	if err := f.read(c.add); err != nil {
		return nil, err
	}
	return c.rows, nil
}

// read reads the files in order. It compares each with the digest of the first time.
func (f *Files) read(use func(row *Row, same bool, size int64) error) error {
	d := decoder{use: use, hash: &f.hash}
	for i, name := range f.names {
		f.hash.Reset()
		var of *pipe
		if f.pipes != nil {
			of = f.pipes[i]
		}
		if err := d.file(name, of); err != nil {
			return err
		}
		digest := f.hash.Sum64()
		if i == len(f.digests) {
			f.digests = append(f.digests, digest)
		}
		if f.digests[i] != digest {
			return fmt.Errorf("read rows: %s: was changed while kvreplay read it, expected the same rows to the end. "+
				"Run again when no program writes to it", name)
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
	names, err = files.Ending(path, ".jsonl", ".jsonl.gz")
	switch {
	case err != nil:
		return nil, fmt.Errorf("read rows: %w", err)
	case names == nil:
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
