package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"
	"sync"

	"github.com/parquet-go/bitpack"
	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Sizes of a page header, in bytes. Most take 20 to 60. Headers with statistics are longer.
const (
	pageHeaderGuess = 512
	pageHeaderLimit = 1 << 16
)

// pageHead is a page's header and place.
type pageHead struct {
	format.PageHeader
	at   int64 // first byte of the header
	data int64 // first byte of the data
}

func (p *pageHead) isData() bool { return p.DataPageHeader.Valid || p.DataPageHeaderV2.Valid }

func (p *pageHead) end() int64 { return p.data + int64(p.CompressedPageSize) }

// hasCRC reports whether a checksum protects the page's data. The CRC of no bytes is 0, as in
// dictionaries of columns with only nulls.
func (p *pageHead) hasCRC() bool { return p.CRC != 0 || p.CompressedPageSize == 0 }

// values returns the number of levels in a data page.
func (p *pageHead) values() int64 {
	if p.DataPageHeaderV2.Valid {
		return int64(p.DataPageHeaderV2.V.NumValues)
	}
	return int64(p.DataPageHeader.V.NumValues)
}

// isDictionary reports whether the values of a data page are codes of a dictionary.
func (p *pageHead) isDictionary() bool {
	e := p.encoding()
	return e == parquetgo.RLEDictionary.Encoding() || e == parquetgo.PlainDictionary.Encoding()
}

func (p *pageHead) encoding() format.Encoding {
	if p.DataPageHeaderV2.Valid {
		return p.DataPageHeaderV2.V.Encoding
	}
	return p.DataPageHeader.V.Encoding
}

// chunkRange returns the part of the file that holds a column chunk.
func chunkRange(c *format.ColumnMetaData) (from, to int64) {
	from = c.DataPageOffset
	if c.DictionaryPageOffset > 0 {
		from = min(from, c.DictionaryPageOffset)
	}
	return from, from + c.TotalCompressedSize
}

// rows returns the number of rows that begin in a data page. Pages of version 1 with lists do not
// state it.
func (p *pageHead) rows(list bool) (n int64, known bool) {
	if p.DataPageHeaderV2.Valid {
		return int64(p.DataPageHeaderV2.V.NumRows), true
	}
	return p.values(), !list
}

// walkPages calls visit for the header of every page of a chunk, in file order. The pages must fill
// the chunk exactly.
func (f *File) walkPages(c *format.ColumnMetaData, visit func(*pageHead) error) error {
	if err := f.checkRange(c); err != nil {
		return err
	}
	at, end := chunkRange(c)
	buf := make([]byte, pageHeaderGuess)
	for at < end {
		head, err := f.pageHead(at, end, buf)
		if err == nil {
			err = visit(head)
		}
		if err != nil {
			return fmt.Errorf("page at byte %d: %w", at, err)
		}
		at = head.end()
	}
	return nil
}

// pageHead reads the header at offset at, in a chunk that ends at end.
func (f *File) pageHead(at, end int64, buf []byte) (*pageHead, error) {
	head := &pageHead{at: at}
	for {
		n := min(int64(len(buf)), end-at)
		if _, err := f.source.ReadAt(buf[:n], at); err != nil {
			return nil, err
		}
		used, err := decodeHeader(buf[:n], &head.PageHeader)
		if err == nil {
			head.data = at + int64(used)
			break
		}
		if n < int64(len(buf)) || n == pageHeaderLimit {
			return nil, fmt.Errorf("page header: %w", err)
		}
		buf = make([]byte, pageHeaderLimit) // statistics make longer headers
	}
	if head.CompressedPageSize < 0 || head.end() > end {
		return nil, fmt.Errorf("page of %d bytes reaches past the end of its column chunk at byte %d", head.CompressedPageSize, end)
	}
	return head, nil
}

func decodeHeader(buf []byte, header *format.PageHeader) (used int, err error) {
	var protocol thrift.CompactProtocol
	*header = format.PageHeader{}
	r := protocol.NewReaderFromBytes(buf)
	err = Guard(func() error { return thrift.NewDecoder(r).Decode(header) })
	return r.BytesRead(), err
}

// buffers is the memory of pages. Readers pass it on to each other.
type buffers struct {
	packed, plain, rep, def []byte
	values                  []int32
}

var unused = sync.Pool{New: func() any { return new(buffers) }}

// pages reads the data pages of a column chunk, one after the other.
type pages struct {
	file       *File
	group      int
	leaf       *Leaf
	chunk      *format.ColumnMetaData
	places     []place // of a chunk that is checked page by page, else nil
	trusted    bool    // pages need no CRC, because their digest is being computed
	buffers    *buffers
	header     []byte // scratch
	at, end    int64  // the next page's header, and the end of the chunk
	dictionary []byte // in its encoding, nil before it was read

	prepared bool
	row      int64 // rows that begin before byte at, -1 if the pages do not state it

	head pageHead // of the page that was read last
	// Levels and values of the last page. Nulls and empty lists have a level but no value.
	levels, present int
	rep, def        []byte
	encoded         []byte // values of the last page
}

func (p *pages) open(f *File, g int, l *Leaf) {
	if p.buffers == nil {
		p.buffers, p.header = unused.Get().(*buffers), make([]byte, pageHeaderGuess)
	}
	p.file, p.group, p.leaf, p.chunk = f, g, l, &f.Metadata().RowGroups[g].Columns[l.Index].MetaData
	p.dictionary, p.places, p.prepared = nil, nil, false
	p.rewind()
}

// prepare decides how the chunk is checked.
func (p *pages) prepare() (err error) {
	if !p.prepared {
		p.places, err = p.file.prepare(p.group, p.leaf)
		p.prepared = err == nil
	}
	return err
}

// admit checks the header of a page. Unless it states its numbers twice, admit checks the whole
// chunk. It then reports that the chunk's index is not usable.
func (p *pages) admit(head *pageHead) (indexed bool, err error) {
	if err := checkPage(p.chunk, p.leaf, head); err != nil {
		return false, fmt.Errorf("page at byte %d: %w", head.at, err)
	}
	if p.places == nil {
		return false, nil
	}
	rows := p.file.Metadata().RowGroups[p.group].NumRows
	i, found := slices.BinarySearchFunc(p.places, head.at, func(p place, at int64) int { return int(min(max(p.at-at, -1), 1)) })
	if found && head.twice(p.chunk, p.leaf, p.places[i], rowsAt(p.places, i, rows)) {
		return true, nil
	}
	p.places = nil
	return false, p.file.distrust(p.group, p.leaf)
}

func (p *pages) rewind() {
	p.at, p.end = chunkRange(p.chunk)
	p.head, p.row, p.levels = pageHead{}, 0, 0
}

// Close releases memory. The cursor may be opened again.
func (p *pages) Close() {
	if p.buffers != nil {
		unused.Put(p.buffers)
		p.buffers = nil
	}
}

// advance reads the header of the next data page, and the dictionary if it comes first. It returns
// io.EOF after the last page.
func (p *pages) advance() error {
	if err := p.prepare(); err != nil {
		return err
	}
	for p.at < p.end {
		head, err := p.file.pageHead(p.at, p.end, p.header)
		if err != nil {
			return err
		}
		if _, err := p.admit(head); err != nil {
			return err
		}
		p.at = head.end()
		if head.isData() {
			p.head = *head
			if n, known := head.rows(p.leaf.List); known && p.row >= 0 {
				p.row += n
			} else {
				p.row = -1
			}
			return nil
		}
		if p.dictionary == nil {
			packed, err := p.read(head)
			if err != nil {
				return err
			}
			if packed, err = p.unpack(packed, int(head.UncompressedPageSize)); err != nil {
				return err
			}
			p.dictionary = append([]byte{}, packed...)
		}
	}
	return io.EOF
}

// seek goes to the page that holds a row, as far as headers state it. It returns the number of rows
// in that page before the row.
func (p *pages) seek(row int64) (before int64, err error) {
	defer func() {
		if err != nil && err != io.EOF {
			err = fmt.Errorf("column %s: %w", p.leaf.Name, err)
		}
	}()
	p.levels = 0
	if err := p.prepare(); err != nil {
		return 0, err
	}
	if p.places != nil {
		if found, err := p.jump(row); err != nil || found {
			return row - p.row, err
		}
	}
	n, _ := p.head.rows(p.leaf.List)
	if p.row < 0 || row < p.row-n {
		p.rewind()
	}
	for row >= p.row {
		if err := p.advance(); err != nil {
			return 0, err
		}
		if p.row < 0 {
			p.rewind()
			return row, nil
		}
	}
	n, _ = p.head.rows(p.leaf.List)
	p.at, p.row = p.head.at, p.row-n
	return row - p.row, nil
}

// jump goes to the page that holds a row by the offset index. If the page does not agree with the
// index, it reports false.
func (p *pages) jump(row int64) (found bool, err error) {
	to := p.places[pageOf(p.places, row)]
	head, err := p.file.pageHead(to.at, p.end, p.header)
	if err == nil {
		found, err = p.admit(head)
	} else if err = p.file.distrust(p.group, p.leaf); err == nil {
		p.places = nil
	}
	if found {
		p.at, p.row, p.head = to.at, to.row, *head
	} else {
		p.rewind()
	}
	return found, err
}

func (p *pages) next() error {
	p.levels = 0
	if err := p.advance(); err != nil {
		return err
	}
	b, h, plain := p.buffers, &p.head, int(p.head.UncompressedPageSize)
	body, err := p.read(h)
	if err != nil {
		return err
	}
	if p.places != nil {
		if err := checkPacked(p.chunk, h, bytes.NewReader(body), 0); err != nil {
			return fmt.Errorf("page at byte %d: %w", h.at, err)
		}
	}
	var rep, def []byte
	if v2 := &h.DataPageHeaderV2.V; h.DataPageHeaderV2.Valid {
		n, m := int(v2.RepetitionLevelsByteLength), int(v2.DefinitionLevelsByteLength)
		rep, def, body = body[:n], body[n:n+m], body[n+m:]
		if stored := v2.IsCompressed.Valid && !v2.IsCompressed.V; !stored {
			body, err = p.unpack(body, plain-n-m)
		}
	} else if body, err = p.unpack(body, plain); err == nil {
		if p.leaf.List {
			rep, body, err = cutLevels(body, h.DataPageHeader.V.RepetitionLevelEncoding)
		}
		if err == nil && p.leaf.maxDef > 0 {
			def, body, err = cutLevels(body, h.DataPageHeader.V.DefinitionLevelEncoding)
		}
	}
	if err != nil {
		return err
	}
	levels := int(h.values())
	p.present, p.encoded, p.rep, p.def = levels, body, nil, nil
	if p.leaf.List {
		if p.rep, err = decodeLevels(&b.rep, rep, 1, levels); err != nil {
			return err
		}
		if h.DataPageHeaderV2.Valid && p.rep[0] != 0 {
			return errors.New("page of version 2 that begins inside a row")
		}
	}
	if p.leaf.maxDef > 0 {
		if p.def, err = decodeLevels(&b.def, def, p.leaf.maxDef, levels); err != nil {
			return err
		}
		p.present = bytes.Count(p.def, []byte{p.leaf.maxDef})
	}
	if p.places != nil {
		if err := p.counted(); err != nil {
			return fmt.Errorf("page at byte %d: %w", h.at, err)
		}
	}
	p.levels = levels
	return nil
}

// counted compares the numbers in a page's header with its data. The other headers of the chunk
// need not be read then.
func (p *pages) counted() error {
	v2 := &p.head.DataPageHeaderV2.V
	if present := int(v2.NumValues - v2.NumNulls); present != p.present {
		return fmt.Errorf("levels of %d values, the page header states %d", p.present, present)
	}
	if rows := bytes.Count(p.rep, []byte{0}); p.leaf.List && rows != int(v2.NumRows) {
		return fmt.Errorf("levels of %d rows, the page header states %d", rows, v2.NumRows)
	}
	if n, ok := deltaValues(p.encoded); p.head.encoding() == format.DeltaBinaryPacked && (!ok || n != p.present) {
		return fmt.Errorf("%d delta values, the page header states %d", n, p.present)
	}
	return p.file.sawPage(p.group, p.leaf, p.head.at, p.head.values())
}

func (p *pages) read(head *pageHead) ([]byte, error) {
	b, n := p.buffers, int(head.CompressedPageSize)
	b.packed = slices.Grow(b.packed[:0], n+bitpack.PaddingInt32)[:n]
	if !head.hasCRC() && !p.trusted && p.file.Unsummed != nil {
		if err := p.file.Unsummed(); err != nil {
			return nil, err
		}
	}
	if _, err := p.file.source.ReadAt(b.packed, head.data); err != nil {
		return nil, err
	}
	if sum := crc32.ChecksumIEEE(b.packed); head.CRC != 0 && sum != uint32(head.CRC) {
		return nil, fmt.Errorf("crc32 checksum mismatch: the page has %08x, its header states %08x", sum, uint32(head.CRC))
	}
	return b.packed, nil
}

// unpack decompresses data to the given number of bytes.
func (p *pages) unpack(data []byte, size int) (plain []byte, err error) {
	if p.chunk.Codec == format.Uncompressed {
		return data, nil
	}
	b := p.buffers
	b.plain = slices.Grow(b.plain[:0], size+bitpack.PaddingInt32)[:size]
	plain, err = parquetgo.LookupCompressionCodec(p.chunk.Codec).Decode(b.plain, data)
	if err == nil && len(plain) != size {
		err = fmt.Errorf("%v data of %d bytes uncompressed, the page header states %d", p.chunk.Codec, len(plain), size)
	}
	return plain, err
}

// cutLevels splits the levels of a page of version 1 from its data.
func cutLevels(data []byte, e format.Encoding) (levels, rest []byte, err error) {
	if e != format.RLE {
		return nil, nil, fmt.Errorf("levels of encoding %v, expected RLE", e)
	}
	if len(data) < 4 || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-4) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	n := 4 + int(binary.LittleEndian.Uint32(data))
	return data[4:n], data[n:], nil
}

// decodeLevels decodes n levels from 0 to most into a buffer.
func decodeLevels(buffer *[]byte, data []byte, most byte, n int) ([]byte, error) {
	levels, err := (&rle.Encoding{BitWidth: bits.Len8(most)}).DecodeLevels((*buffer)[:0], data)
	*buffer = levels
	if err == nil && len(levels) < n {
		err = fmt.Errorf("%d levels, expected %d", len(levels), n)
	}
	return levels[:min(n, len(levels))], err
}
