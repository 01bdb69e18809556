package trace

import (
	"fmt"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Bytes read for a page header, which takes 20 to 60, and at most, with statistics.
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

// hasCRC reports whether damage to the page's data is seen. The CRC of no bytes is 0: such
// are the dictionaries of columns that are null throughout.
func (p *pageHead) hasCRC() bool { return p.CRC != 0 || p.CompressedPageSize == 0 }

// values is the number of levels in a data page.
func (p *pageHead) values() int64 {
	if p.DataPageHeaderV2.Valid {
		return int64(p.DataPageHeaderV2.V.NumValues)
	}
	return int64(p.DataPageHeader.V.NumValues)
}

func (p *pageHead) encoding() format.Encoding {
	if p.DataPageHeaderV2.Valid {
		return p.DataPageHeaderV2.V.Encoding
	}
	return p.DataPageHeader.V.Encoding
}

// chunkRange is the part of the file that a column chunk takes.
func chunkRange(c *format.ColumnMetaData) (from, to int64) {
	from = c.DataPageOffset
	if c.DictionaryPageOffset > 0 {
		from = min(from, c.DictionaryPageOffset)
	}
	return from, from + c.TotalCompressedSize
}

// walkPages hands over the header of every page of a chunk, in file order. Together
// the pages fill the chunk exactly.
func (f *File) walkPages(c *format.ColumnMetaData, visit func(*pageHead) error) error {
	at, end := chunkRange(c)
	if at < 4 || c.TotalCompressedSize < 0 || end > f.size {
		return fmt.Errorf("column chunk at bytes %d to %d of a file of %d", at, end, f.size)
	}
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

// pageHead reads the header at byte at of a chunk that ends at end.
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
	err = guard(func() error { return thrift.NewDecoder(r).Decode(header) })
	return r.BytesRead(), err
}
