package importer

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// What a damaged footer of a foreign file makes the library take for page headers is not
// allocated: data pages that begin two or four bytes on, among others.
func TestDamageAllocatesLittle(t *testing.T) {
	raw := read(t, "testdata/pyarrow_half.parquet")
	footer := len(raw) - 8 - int(binary.LittleEndian.Uint32(raw[len(raw)-8:]))
	for at := footer; at < len(raw)-8; at++ {
		if raw[at-1] != 0x26 { // a field of the type i64, two after the one before: data_page_offset is one
			continue
		}
		damaged := bytes.Clone(raw)
		damaged[at] ^= 4
		if grown := importAllocates(t, Options{Memory: 64 << 20}, damaged); grown > 48<<20 {
			t.Errorf("%#x for %#x at byte %d of %d costs %d MiB", damaged[at], raw[at], at, len(raw), grown>>20)
		}
	}
}

// importAllocates is the memory that an import of a file takes, of whatever outcome.
func importAllocates(t *testing.T, o Options, content []byte) uint64 {
	t.Helper()
	dir := t.TempDir()
	path := write(t, dir, "damaged", content)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = Import(context.Background(), o, filepath.Join(dir, "out.parquet"), path)
	runtime.ReadMemStats(&after)
	os.RemoveAll(dir)
	return after.TotalAlloc - before.TotalAlloc
}
