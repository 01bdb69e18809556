package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// A chunk's pages are checked in one of two ways. If the file has an offset index and the pages
// state their numbers twice, each page is checked when it is read. Otherwise all page headers of
// the chunk are compared with the footer when its first page is read.

// maxIndexBytes bounds the offset indexes that a file may announce. An index has about 10 bytes per
// page, so more would mean terabytes of pages.
const maxIndexBytes = 1 << 28

// place is the entry of a page in the offset index.
type place struct {
	at   int64 // first byte of the header
	size int64 // header and data
	row  int64 // rows of the group before it
}

// chunk is the state of the checks of a column chunk.
type chunk struct {
	mu     sync.Mutex
	listed bool    // places was read
	known  bool    // prepare or CheckPages was called
	places []place // pages of a chunk that is checked page by page, else nil
	err    error   // of the comparison of all headers
	seen   []bool  // places that were read
	unseen int
	values int64 // in the pages that were read
}

// chunkOf returns the state of the chunk of leaf l in row group g.
func (f *File) chunkOf(g int, l *Leaf) *chunk { return &f.chunks[g*len(f.Leaves)+l.Index] }

// prepare decides how the chunk is checked, and compares all headers if it has no usable index.
func (f *File) prepare(g int, l *Leaf) (places []place, err error) {
	c := f.chunkOf(g, l)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		c.known = true
		if f.list(c, g, l) == nil {
			c.err = f.compare(g, l)
		}
		c.seen, c.unseen = make([]bool, len(c.places)), len(c.places)
	}
	return c.places, c.err
}

// list returns the places of c, and reads them at the first call.
func (f *File) list(c *chunk, g int, l *Leaf) []place {
	if !c.listed {
		c.listed, c.places = true, f.places(g, l)
	}
	return c.places
}

// distrust compares all headers of a chunk with the footer. It is called for a page that does not
// agree with the offset index, or does not state its numbers twice. The index is not used any more.
func (f *File) distrust(g int, l *Leaf) error {
	c := f.chunkOf(g, l)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places != nil {
		c.places, c.err = nil, f.compare(g, l)
	}
	return c.err
}

// compare compares all page headers of a chunk with the footer.
func (f *File) compare(g int, l *Leaf) error {
	_, err := f.checkChunk(&f.Metadata().RowGroups[g], l.Index, false)
	return err
}

// sawPage notes the values of a page that was read. After the last page of the chunk it compares
// their sum with the footer.
func (f *File) sawPage(g int, l *Leaf, at, values int64) error {
	c := f.chunkOf(g, l)
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := slices.BinarySearchFunc(c.places, at, func(p place, at int64) int { return int(min(max(p.at-at, -1), 1)) })
	if !ok || c.seen[i] {
		return nil
	}
	c.seen[i] = true
	c.unseen--
	c.values += values
	if want := f.Metadata().RowGroups[g].Columns[l.Index].MetaData.NumValues; c.unseen == 0 && c.values != want {
		return fmt.Errorf("pages of %d values in a column chunk of %d", c.values, want)
	}
	return nil
}

// places returns the pages of a chunk as the offset index lists them. It returns nil if the chunk
// has a dictionary, or no index, or one whose pages do not fill the chunk.
func (f *File) places(g int, l *Leaf) []place {
	group := &f.Metadata().RowGroups[g]
	column := &group.Columns[l.Index]
	m := &column.MetaData
	raw := f.rawIndex(column)
	if raw == nil || m.DictionaryPageOffset > 0 || checkThrift(raw) != nil {
		return nil
	}
	var index format.OffsetIndex
	if Guard(func() error {
		var protocol thrift.CompactProtocol
		return thrift.NewDecoder(protocol.NewReaderFromBytes(raw)).Decode(&index)
	}) != nil {
		return nil
	}
	at, end := chunkRange(m)
	row := int64(-1)
	list := make([]place, 0, len(index.PageLocations))
	for _, p := range index.PageLocations {
		if p.Offset != at || p.CompressedPageSize <= 0 || p.FirstRowIndex <= row || p.FirstRowIndex >= group.NumRows {
			return nil
		}
		list = append(list, place{p.Offset, int64(p.CompressedPageSize), p.FirstRowIndex})
		at, row = at+int64(p.CompressedPageSize), p.FirstRowIndex
	}
	if at != end || len(list) == 0 || list[0].row != 0 {
		return nil
	}
	return list
}

// rawIndex returns the offset index of a chunk, or nil.
func (f *File) rawIndex(c *format.ColumnChunk) []byte {
	f.indexOnce.Do(f.readIndexes)
	from := c.OffsetIndexOffset - f.indexAt
	if c.OffsetIndexOffset <= 0 || c.OffsetIndexLength <= 0 || from < 0 || from+int64(c.OffsetIndexLength) > int64(len(f.indexes)) {
		return nil
	}
	return f.indexes[from : from+int64(c.OffsetIndexLength)]
}

// readIndexes reads the offset indexes of all chunks in one piece, because writers put them next to
// each other. If they are elsewhere or cannot be read, the chunks have no index.
func (f *File) readIndexes() {
	from, to := f.Size(), int64(0)
	for _, g := range f.Metadata().RowGroups {
		for i := range g.Columns {
			if c := &g.Columns[i]; c.OffsetIndexOffset > 0 && c.OffsetIndexLength > 0 {
				from, to = min(from, c.OffsetIndexOffset), max(to, c.OffsetIndexOffset+int64(c.OffsetIndexLength))
			}
		}
	}
	if from < 0 || to > f.Size() || to-from <= 0 || to-from > maxIndexBytes {
		return
	}
	raw := make([]byte, to-from)
	if _, err := f.tail.ReadAt(raw, from); err == nil {
		f.indexAt, f.indexes = from, raw
	}
}

// twice reports whether the header and the data of a page both state its numbers of values and
// rows. Its entry p in the offset index must agree. The header is then checked without the other
// headers of the chunk.
func (h *pageHead) twice(c *format.ColumnMetaData, l *Leaf, p place, rows int64) bool {
	wide := c.Type == format.Int32 || c.Type == format.Float
	e := h.encoding()
	fixed := wide && (e == format.Plain || e == format.ByteStreamSplit)
	n, _ := h.rows(l.List)
	return h.DataPageHeaderV2.Valid && (fixed || c.Type == format.Int32 && e == format.DeltaBinaryPacked) &&
		slices.Contains(c.Encoding, e) && h.at == p.at && h.end() == p.at+p.size && n == rows && (l.List || h.values() == rows)
}

// rowsAt returns the number of rows in page i of a group with the given rows.
func rowsAt(places []place, i int, rows int64) int64 {
	if i+1 < len(places) {
		rows = places[i+1].row
	}
	return rows - places[i].row
}

// pageOf returns the page that holds a row.
func pageOf(places []place, row int64) int {
	return max(0, sort.Search(len(places), func(i int) bool { return places[i].row > row })-1)
}

// Span is a range of bytes of a file, without its last.
type Span struct{ From, To int64 }

// Spans appends the bytes that hold the rows from first to last of a column, without last. Without
// an offset index it appends the whole column chunk.
func (f *File) Spans(dst []Span, g int, l *Leaf, first, last int64) []Span {
	group := &f.Metadata().RowGroups[g]
	from, to := chunkRange(&group.Columns[l.Index].MetaData)
	c := f.chunkOf(g, l)
	c.mu.Lock()
	defer c.mu.Unlock()
	if places := f.list(c, g, l); places != nil && last > first {
		k := pageOf(places, last-1)
		end := to
		// A header is read with its successors' first bytes.
		from, to = places[pageOf(places, first)].at, min(end, places[k].at+places[k].size+pageHeaderGuess)
	}
	return append(dst, Span{from, to})
}

// CheckFooter checks the numbers in the footer that need no page: rows, columns, compressions and
// the places of column chunks. Pages are then checked when they are read.
func (f *File) CheckFooter() (err error) {
	return Guard(func() error {
		return f.checkGroups(func(group *format.RowGroup, i int) error {
			m := &group.Columns[i].MetaData
			if err := CheckCodec(m); err != nil {
				return err
			}
			return f.checkRange(m)
		})
	})
}

func (f *File) checkRange(c *format.ColumnMetaData) error {
	if at, end := chunkRange(c); at < 4 || c.TotalCompressedSize < 0 || end > f.Size() {
		return fmt.Errorf("column chunk at bytes %d to %d of a file of %d", at, end, f.Size())
	}
	return nil
}

// tail is a source whose last bytes are in memory.
type tail struct {
	io.ReaderAt
	at    int64
	bytes []byte
}

// tailBytes is the number of last bytes that Open reads in one piece. They hold the footer and the
// offset indexes of most files.
const tailBytes = 64 << 10

// ReadAt copies bytes from memory, or reads from the source.
func (t *tail) ReadAt(p []byte, at int64) (int, error) {
	if at < t.at || at+int64(len(p)) > t.at+int64(len(t.bytes)) {
		return t.ReaderAt.ReadAt(p, at)
	}
	return copy(p, t.bytes[at-t.at:]), nil
}

// readTail reads the end of a file of size bytes, with its whole footer.
func readTail(source io.ReaderAt, size int64) (*tail, error) {
	const length = 8 // length and magic
	if size < int64(len(Magic))+length {
		return nil, fmt.Errorf("%d bytes", size)
	}
	t := &tail{source, max(0, size-tailBytes), make([]byte, min(size, tailBytes))}
	if _, err := source.ReadAt(t.bytes, t.at); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	end := t.bytes[len(t.bytes)-length:]
	footer := int64(binary.LittleEndian.Uint32(end))
	if string(end[4:]) != Magic || footer > size-int64(len(Magic))-length {
		return nil, errors.New("no footer at the end, expected a length and PAR1")
	}
	if from := size - length - footer; from < t.at {
		rest := make([]byte, t.at-from, size-from)
		if _, err := source.ReadAt(rest, from); err != nil {
			return nil, err
		}
		t.at, t.bytes = from, append(rest, t.bytes...)
	}
	if err := checkThrift(t.bytes[size-length-footer-t.at : size-length-t.at]); err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	return t, nil
}
