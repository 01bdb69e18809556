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

// A damaged footer of a foreign file does not cause large allocations. It may make the library read
// page headers from other bytes, such as pages that begin two or four bytes later.
func TestDamageAllocatesLittle(t *testing.T) {
	raw := read(t, "testdata/pyarrow_half.parquet")
	footer := len(raw) - 8 - int(binary.LittleEndian.Uint32(raw[len(raw)-8:]))
	for at := footer; at < len(raw)-8; at++ {
		if raw[at-1] != 0x26 { // an i64 field whose number is two more than the one before, as data_page_offset is
			continue
		}
		damaged := bytes.Clone(raw)
		damaged[at] ^= 4
		if grown := importAllocates(t, Options{Memory: 64 << 20}, damaged); grown > 48<<20 {
			t.Errorf("%#x for %#x at byte %d of %d costs %d MiB", damaged[at], raw[at], at, len(raw), grown>>20)
		}
	}
}

// importAllocates returns the bytes that an import of a file allocates, whether it succeeds or
// fails.
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
