package trace

import (
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

// File is an open trace: its metadata and the directory of its streams. It is safe
// for concurrent use; each goroutine reads through its own Reader.
type File struct {
	path    string
	os      *os.File
	parquet *parquet.File
	leaves  [numColumns]leaf
	meta    Meta
	digest  string
	crc     bool // every column chunk begins with a page that has a CRC
	streams []StreamInfo
	sparse  map[int][]int32 // step numbers of streams that skip steps
	indices int64
}

// Open opens the trace at path and checks what needs no lists: schema, metadata and
// its seal, key order, seq_len. Pages are checked by their CRC when they are read; a
// file without CRCs is verified against its digest here, once, and one with neither
// is an error.
func Open(path string) (*File, error) {
	f, err := open(path, nil)
	if err != nil {
		return nil, err
	}
	if !f.crc {
		if err := f.verifyUnchecked(); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// open opens path; broken key and seq_len rules go to report, nil stops at the first.
func open(path string, report func(*Error) bool) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	if info.IsDir() {
		return nil, fileError(path, RuleFile, "is a directory, expected a trace file (*.parquet)")
	}
	if info.Size() == 0 {
		return nil, fileError(path, RuleFile, "is empty, expected a trace (Parquet)")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	f := &File{path: path, os: file}
	if err := f.load(info.Size(), report); err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) load(size int64, report func(*Error) bool) error {
	var magic [4]byte
	if _, err := f.os.ReadAt(magic[:], 0); err != nil && err != io.EOF {
		return fmt.Errorf("open trace: %w", err)
	}
	if string(magic[:]) != "PAR1" {
		return fileError(f.path, RuleFile, "is not a Parquet file; foreign formats become traces by `kvreplay import`")
	}
	err := guard(func() (err error) {
		f.parquet, err = parquet.OpenFile(f.os, size,
			parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(1<<18))
		return err
	})
	if err != nil {
		return fileError(f.path, RuleFile, "truncated or corrupt Parquet file: %w", err)
	}
	if err := f.bindColumns(); err != nil {
		return err
	}
	if err := f.bindMetadata(); err != nil {
		return err
	}
	if f.crc, err = f.probeChecksums(); err != nil {
		return fileError(f.path, RuleFile, "truncated or corrupt Parquet file: %w", err)
	}
	return f.readDirectory(report)
}

// Close closes the file.
func (f *File) Close() error { return f.os.Close() }

// Path is the path the file was opened with.
func (f *File) Path() string { return f.path }

// Meta is the file's metadata.
func (f *File) Meta() *Meta { return &f.meta }

// StoredDigest is the digest that the file states, empty where it states none.
func (f *File) StoredDigest() string { return f.digest }

// Digest is the digest of content and metadata: the stored one, or computed by
// reading everything where the file states none.
func (f *File) Digest() (string, error) {
	if f.digest != "" {
		return f.digest, nil
	}
	return f.ComputeDigest()
}

// Streams is the directory, in key order. Callers must not change it.
func (f *File) Streams() []StreamInfo { return f.streams }

// RowGroups is the number of row groups.
func (f *File) RowGroups() int { return len(f.parquet.RowGroups()) }

// Indices is the number of indices of all lists, an upper bound where some are null.
func (f *File) Indices() int64 { return f.indices }

// HasScores reports whether the file states scores in any row group.
func (f *File) HasScores() bool { return f.has(colScores) }

// HasPredicted reports whether the file has predicted lists.
func (f *File) HasPredicted() bool { return f.has(colPredicted) }

// HasAttentionMass reports whether the file has attention masses.
func (f *File) HasAttentionMass() bool { return f.has(colAttentionMass) }

// has reports whether a list column holds more levels than rows' nulls: an all-null
// column has exactly one level a row.
func (f *File) has(column int) bool {
	l := f.leaves[column]
	if l.index < 0 {
		return false
	}
	var levels, rows int64
	for _, g := range f.parquet.Metadata().RowGroups {
		levels += g.Columns[l.index].MetaData.NumValues
		rows += g.NumRows
	}
	return levels > rows || f.listsOfOne(l)
}

// listsOfOne decides the one case that level counts cannot: lists of one value.
func (f *File) listsOfOne(l leaf) bool {
	found := false
	_ = guard(func() error {
		for _, g := range f.parquet.RowGroups() {
			pages := g.ColumnChunks()[l.index].Pages()
			page, err := pages.ReadPage()
			if err == nil {
				found = found || page.NumNulls() < page.NumValues()
				parquet.Release(page)
			}
			pages.Close()
		}
		return nil
	})
	return found
}
