package trace_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// The reader skips row groups without rows. pyarrow writes them for empty tables.
func TestEmptyRowGroups(t *testing.T) {
	path := writeRaw(t, map[string]string{"kvreplay": rawMeta}, goodRows()[:3], goodRows()[3:])
	want := digestOf(t, path)
	withEmptyGroups(t, path)
	if rules, messages := violated(t, path); rules != nil {
		t.Errorf("a file with empty row groups breaks %q:\n%s", rules, messages)
	}
	if got := digestOf(t, path); got != want {
		t.Errorf("digest %s, expected %s", got, want)
	}
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	if f.RowGroups() != 5 || len(f.Streams()) != 2 || f.Streams()[1].RowGroup != 3 {
		t.Errorf("%d row groups, streams %+v", f.RowGroups(), f.Streams())
	}
}

// withEmptyGroups puts row groups without rows before, between and behind those of a file. Their
// chunks point to the beginning of the file, as pyarrow writes them.
func withEmptyGroups(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	fatal.If(t, err)
	f, err := parquet.OpenFile(bytes.NewReader(raw), int64(len(raw)))
	fatal.If(t, err)
	meta := *f.Metadata()
	empty := meta.RowGroups[0]
	empty.NumRows, empty.TotalByteSize, empty.Columns = 0, 0, slices.Clone(empty.Columns)
	for i := range empty.Columns {
		m := &empty.Columns[i].MetaData
		m.NumValues, m.DataPageOffset, m.DictionaryPageOffset, m.TotalCompressedSize = 0, 0, 0, 29
	}
	meta.RowGroups = slices.Concat(meta.RowGroups[:0:0], []format.RowGroup{empty}, meta.RowGroups[:1], []format.RowGroup{empty}, meta.RowGroups[1:], []format.RowGroup{empty})
	for i := range meta.RowGroups {
		meta.RowGroups[i].Ordinal = int16(i)
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &meta)
	fatal.If(t, err)
	old := binary.LittleEndian.Uint32(raw[len(raw)-8:])
	raw = append(raw[:len(raw)-8-int(old)], footer...)
	raw = append(binary.LittleEndian.AppendUint32(raw, uint32(len(footer))), "PAR1"...)
	fatal.If(t, os.WriteFile(path, raw, 0o600))
}
