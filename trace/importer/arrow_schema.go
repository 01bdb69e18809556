package importer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	flatbuffers "github.com/google/flatbuffers/go"
)

// checkMessage walks a message's metadata and returns the length of its body.
func checkMessage(meta []byte) (bodyLength int64, err error) {
	t := root(meta)
	if header := t.GetByteSlot(6, 0); header == 1 { // MessageHeader.Schema
		var schema flatbuffers.Table
		t.Union(&schema, flatbuffers.UOffsetT(t.Offset(8)))
		if err := (&schemaWalk{left: len(meta)}).schema(&schema); err != nil {
			return 0, err
		}
	}
	return t.GetInt64Slot(10, 0), nil
}

// checkFooter walks the schema in an Arrow file's footer, from which the library
// takes lengths unseen.
func checkFooter(file *os.File, size int64) error {
	var tail [10]byte
	if size < 20 {
		return fmt.Errorf("%d bytes are too few for an Arrow file", size)
	}
	if _, err := file.ReadAt(tail[:], size-10); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if string(tail[4:]) != "ARROW1" || n < 8 || n > min(size-18, maxArrowMeta) {
		return errors.New("the file does not end in an Arrow footer: it was cut off, or its writer never closed; copy or make it again")
	}
	footer := make([]byte, n)
	if _, err := file.ReadAt(footer, size-10-n); err != nil {
		return err
	}
	return guard(func() error {
		t := root(footer)
		at := flatbuffers.UOffsetT(t.Offset(6))
		if at == 0 {
			return errors.New("the footer has no schema")
		}
		schema := flatbuffers.Table{Bytes: footer, Pos: t.Indirect(at + t.Pos)}
		return (&schemaWalk{left: len(footer)}).schema(&schema)
	})
}

func root(b []byte) *flatbuffers.Table {
	return &flatbuffers.Table{Bytes: b, Pos: flatbuffers.GetUOffsetT(b)}
}

// viewError is of a column of that name whose layout the library does not read.
type viewError string

func (e viewError) Error() string {
	return fmt.Sprintf("column %s: is of a view type, expected strings and lists without views: write them so (polars: compat_level=pl.CompatLevel.oldest(); pyarrow: cast to string or list), or write Parquet", string(e))
}

// schemaWalk visits every vector of a schema, whose lengths the library allocates.
// left is how many elements may still come: no text holds more than its bytes.
type schemaWalk struct{ left int }

func (w *schemaWalk) schema(t *flatbuffers.Table) error {
	if err := w.vector(t, 8, nil); err != nil { // custom_metadata
		return err
	}
	return w.vector(t, 6, func(f *flatbuffers.Table) error { return w.field(f, 0) })
}

func (w *schemaWalk) field(t *flatbuffers.Table, depth int) error {
	if depth > 32 {
		return errors.New("schema is nested more than 32 deep")
	}
	if kind := t.GetByteSlot(8, 0); kind >= 23 { // BinaryView, Utf8View, ListView, LargeListView
		name := ""
		if o := flatbuffers.UOffsetT(t.Offset(4)); o > 0 {
			name = string(t.ByteVector(o + t.Pos))
		}
		return viewError(name)
	}
	if err := w.vector(t, 16, nil); err != nil { // custom_metadata
		return err
	}
	return w.vector(t, 14, func(f *flatbuffers.Table) error { return w.field(f, depth+1) })
}

// vector checks the length of the vector of tables in a slot and visits them.
func (w *schemaWalk) vector(t *flatbuffers.Table, slot flatbuffers.VOffsetT, visit func(*flatbuffers.Table) error) error {
	o := flatbuffers.UOffsetT(t.Offset(slot))
	if o == 0 {
		return nil
	}
	n, start := t.VectorLen(o), t.Vector(o)
	if w.left -= n; n < 0 || w.left < 0 || int(start)+4*n > len(t.Bytes) {
		return fmt.Errorf("schema announces a list of %d elements in %d bytes", n, len(t.Bytes))
	}
	for i := 0; i < n && visit != nil; i++ {
		element := flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(start + flatbuffers.UOffsetT(4*i))}
		if err := visit(&element); err != nil {
			return err
		}
	}
	return nil
}
