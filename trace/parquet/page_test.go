package parquet

import (
	"bytes"
	"strings"
	"testing"

	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/format"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// The size in a page header is compared with the data if the data do not state a length. Without
// this check the ratio would permit 458 MiB for 7,000 bytes.
func TestPackedLength(t *testing.T) {
	plain := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	for _, codec := range []compress.Codec{&parquetgo.Gzip, &parquetgo.Brotli, &parquetgo.Zstd, &parquetgo.Snappy} {
		packed, err := codec.Encode(nil, plain)
		fatal.If(t, err)
		for n, good := range map[int]bool{len(plain): true, len(plain) + 1: false, 400 << 20: false} {
			head := &pageHead{PageHeader: format.PageHeader{UncompressedPageSize: int32(n), CompressedPageSize: int32(len(packed))}}
			err := checkPacked(&format.ColumnMetaData{Codec: codec.CompressionCodec()}, head, bytes.NewReader(packed), 0)
			if good && err != nil || !good && (err == nil || !strings.Contains(err.Error(), "data of 4194304 bytes uncompressed")) {
				t.Errorf("%v: %d bytes stated of %d: %v", codec, n, len(plain), err)
			}
		}
	}
}

// A dictionary must not have more values than bytes. A page of version 2 without values is an error
// that names it, because the library panics at one.
func TestPageHeaders(t *testing.T) {
	c, l := &format.ColumnMetaData{Codec: format.Uncompressed}, &Leaf{maxDef: 3, List: true}
	dictionary := &pageHead{PageHeader: format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: 40, CompressedPageSize: 40}}
	dictionary.DictionaryPageHeader.Valid = true
	for n, good := range map[int32]bool{10: true, 40: true, 41: false, 1 << 30: false, -1: false} {
		dictionary.DictionaryPageHeader.V.NumValues = n
		if err := checkPage(c, l, dictionary); (err == nil) != good {
			t.Errorf("dictionary of %d values in 40 bytes: %v", n, err)
		}
	}
	c.Encoding = []format.Encoding{format.Plain}
	empty := &pageHead{PageHeader: format.PageHeader{Type: format.DataPageV2}}
	empty.DataPageHeaderV2.Valid = true
	if err := checkPage(c, l, empty); err == nil || !strings.Contains(err.Error(), "data_page_version 1.0") {
		t.Errorf("a page of version 2 without values: %v", err)
	}
}
