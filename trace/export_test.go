package trace

import (
	"io"
	"os"
	"sync/atomic"
)

// countingReader counts the bytes that are read.
type countingReader struct {
	io.ReaderAt
	bytes *atomic.Int64
}

func (c countingReader) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.bytes.Add(int64(n))
	return n, err
}

// OpenCounting is Open with a count of the bytes read, including those that Open reads.
func OpenCounting(path string) (*File, *atomic.Int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	count := new(atomic.Int64)
	f := &File{path: path, source: countingReader{file, count}, closer: file, size: info.Size()}
	if err := f.loadGuarded(nil); err != nil {
		return f, count, err
	}
	return f, count, f.finish()
}

// SetPageBytes changes the page size of Writers. The returned function restores it.
func SetPageBytes(n int) (restore func()) {
	old := pageBytes
	pageBytes = n
	return func() { pageBytes = old }
}

// SetRowGroupIndices changes the row group size of Writers. The returned function restores it.
func SetRowGroupIndices(n int) (restore func()) {
	old := rowGroupIndices
	rowGroupIndices = n
	return func() { rowGroupIndices = old }
}

// PageData lists the byte ranges of the file that hold page data. CRCs cover these bytes.
func PageData(f *File) (ranges [][2]int64) {
	return f.parquet.PageData()
}

// SetMostValues changes the largest number of values in the lists of a stream. The returned
// function restores it.
func SetMostValues(n int) (restore func()) {
	old := mostValues
	mostValues = n
	return func() { mostValues = old }
}

// SetIndexedGroups changes the number of row groups from which on a Writer stores a stream index. The
// returned function restores it.
func SetIndexedGroups(n int) (restore func()) {
	old := indexedGroups
	indexedGroups = n
	return func() { indexedGroups = old }
}

// SealIndex returns the seal of a stream index.
func SealIndex(text []byte, digest string) string { return seal(digest, string(text)) }

// SetGapBytes changes the longest gap that is read. The returned function restores it.
func SetGapBytes(n int64) (restore func()) {
	old := gapBytes
	gapBytes = n
	return func() { gapBytes = old }
}
