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
	levels         levels
	values, packed []byte // of the last page: encoded, and then compressed
	head           bytes.Buffer
	protocol       thrift.CompactProtocol
}

// append writes a page to dst: rows with lists of such lengths, which have count values. It
// returns the page's head.
func (p *listPages) append(dst *bytes.Buffer, lengths []int32, values encoding.Values, count int) (*format.PageHeader, error) {
	if err := p.levels.of(lengths); err != nil {
		return nil, err
	}
	data, err := p.encode(values)
	if err != nil {
		return nil, err
	}
	repetition, definition := p.levels.repetition, p.levels.definition
	if size := len(repetition) + len(definition) + len(p.values); size > math.MaxInt32 {
		return nil, fmt.Errorf("column %s: a page of %d bytes, the format has %d at most; rows hold too many values", columnNames[p.ColumnIndex], size, math.MaxInt32)
	}
	sum := crc32.ChecksumIEEE(repetition)
	sum = crc32.Update(sum, crc32.IEEETable, definition)
	sum = crc32.Update(sum, crc32.IEEETable, data)
	head := &format.PageHeader{
		Type:                 format.DataPageV2,
		UncompressedPageSize: int32(len(repetition) + len(definition) + len(p.values)),
		CompressedPageSize:   int32(len(repetition) + len(definition) + len(data)),
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
	p.head.Reset()
	if err := thrift.NewEncoder(p.protocol.NewWriter(&p.head)).Encode(head); err != nil {
		return nil, err
	}
	for _, part := range [][]byte{p.head.Bytes(), repetition, definition, data} {
		dst.Write(part)
	}
	return head, nil
}

// encode encodes a page's values, and compresses them where the column is compressed.
func (p *listPages) encode(values encoding.Values) (data []byte, err error) {
	if p.values, err = p.Node.Type().Encode(p.values[:0], values, p.Node.Encoding()); err != nil {
		return nil, err
	}
	codec := p.Node.Compression()
	if codec == nil {
		return p.values, nil
	}
	p.packed, err = codec.Encode(p.packed[:0], p.values)
	return p.packed, err
}
