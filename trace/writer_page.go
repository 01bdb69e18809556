package trace

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// listPages makes a list column's data pages, of version 2. The library encodes what is in
// them.
type listPages struct {
	parquet.LeafColumn
	levels   levels
	values   []byte // of the last page, encoded, where they are to be compressed
	protocol thrift.CompactProtocol
}

// page is a data page as the file has it.
type page struct {
	head bytes.Buffer // the header and the levels
	data []byte       // the values
}

// size is the page's length in the file.
func (p *page) size() int { return p.head.Len() + len(p.data) }

// fill makes to a page of rows with lists of such lengths, which have count values. It
// returns the page's header.
func (p *listPages) fill(to *page, lengths []int32, values encoding.Values, count int) (*format.PageHeader, error) {
	if err := p.levels.of(lengths); err != nil {
		return nil, err
	}
	plain, err := p.encode(to, values)
	if err != nil {
		return nil, err
	}
	repetition, definition := p.levels.repetition, p.levels.definition
	if size := len(repetition) + len(definition) + plain; size > math.MaxInt32 {
		return nil, fmt.Errorf("column %s: a page of %d bytes, the format has %d at most; rows hold too many values", columnNames[p.ColumnIndex], size, math.MaxInt32)
	}
	sum := crc32.ChecksumIEEE(repetition)
	sum = crc32.Update(sum, crc32.IEEETable, definition)
	sum = crc32.Update(sum, crc32.IEEETable, to.data)
	head := &format.PageHeader{
		Type:                 format.DataPageV2,
		UncompressedPageSize: int32(len(repetition) + len(definition) + plain),
		CompressedPageSize:   int32(len(repetition) + len(definition) + len(to.data)),
		CRC:                  int32(sum),
		DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{
			NumValues:                  int32(p.levels.count),
			NumNulls:                   int32(p.levels.count - count),
			NumRows:                    int32(len(lengths)),
			Encoding:                   p.Node.Encoding().Encoding(),
			DefinitionLevelsByteLength: int32(len(definition)),
			RepetitionLevelsByteLength: int32(len(repetition)),
			IsCompressed:               thrift.New(p.Node.Compression() != nil),
		}),
	}
	to.head.Reset()
	if err := thrift.NewEncoder(p.protocol.NewWriter(&to.head)).Encode(head); err != nil {
		return nil, err
	}
	to.head.Write(repetition)
	to.head.Write(definition)
	return head, nil
}

// encode encodes a page's values, and compresses them where the column is compressed. It
// returns their length before that.
func (p *listPages) encode(to *page, values encoding.Values) (plain int, err error) {
	codec, kind, how := p.Node.Compression(), p.Node.Type(), p.Node.Encoding()
	if codec == nil {
		to.data, err = kind.Encode(to.data[:0], values, how)
		return len(to.data), err
	}
	if p.values, err = kind.Encode(p.values[:0], values, how); err != nil {
		return 0, err
	}
	to.data, err = codec.Encode(to.data[:0], p.values)
	return len(p.values), err
}
