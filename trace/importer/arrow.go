package importer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/parquet"
)

// maxArrowMeta is the largest message metadata or footer that is read, in bytes.
const maxArrowMeta = 64 << 20

// decodeArrow reads an Arrow IPC stream, one record batch at a time. An Arrow file is a stream
// between a magic and a footer, which repeats the places of its parts. A stream must end in its
// end-of-stream mark. Without the mark it may be truncated.
func decodeArrow(s *source, c *collector) error {
	input, batches, err := arrowMessages(s)
	if err != nil {
		return err
	}
	mem := &bounded{Allocator: memory.NewGoAllocator(), limit: s.opts.wholeLimit()}
	messages := &messageReader{r: input, mem: mem, file: s.found.Format == ArrowFile}
	r, err := ipc.NewReaderFromMessageReader(messages, ipc.WithAllocator(mem))
	if view := viewError(""); errors.As(err, &view) {
		return view
	}
	if err != nil {
		return fmt.Errorf("damaged: %w", err)
	}
	defer r.Release()
	t, err := newArrowTable(s, c, r.Schema())
	if err != nil {
		return err
	}
	read := 0
	for ; r.Next(); read++ {
		batch := r.Record()
		for i := range int(batch.NumRows()) {
			if err := t.add(func(c *cells) error { return t.fill(c, batch, i) }); err != nil {
				return err
			}
		}
	}
	switch {
	case r.Err() != nil:
		return s.errorAt(t.row+1, "damaged: %w", r.Err())
	case !messages.ended: // the stream ended while dictionaries were read
		return s.errorAt(t.row+1, "damaged: %w", cutOff(io.EOF))
	case messages.file && read != batches:
		return fmt.Errorf("damaged: %d record batches, the footer lists %d", read, batches)
	case messages.file:
		return nil
	}
	if n, err := io.Copy(io.Discard, input); n > 0 || err != nil {
		return errors.Join(s.errorAt(t.row+1, "%d bytes follow the end of the stream, expected none", n), err)
	}
	return nil
}

// arrowMessages returns the messages of a stream or a file, and the number of record batches in the
// footer of a file.
func arrowMessages(s *source) (r io.Reader, batches int, err error) {
	if s.found.Format != ArrowFile {
		r, err = s.reader()
		return r, 0, err
	}
	file, size, err := s.randomAccess()
	if err != nil {
		return nil, 0, err
	}
	const magic, tail = 8, 10 // the magic at the end has no padding
	var end [tail]byte
	if size < magic+tail {
		return nil, 0, fmt.Errorf("%d bytes are too few for an Arrow file", size)
	}
	if _, err := file.ReadAt(end[:], size-tail); err != nil {
		return nil, 0, err
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if string(end[4:]) != "ARROW1" || n < 8 || n > min(size-magic-tail, maxArrowMeta) {
		return nil, 0, errors.New("the file has no Arrow footer: it was cut off or never closed. Copy or make it again")
	}
	footer := make([]byte, n)
	if _, err := file.ReadAt(footer, size-tail-n); err != nil {
		return nil, 0, err
	}
	err = parquet.Guard(func() error {
		t := root(footer)
		if o := flatbuffers.UOffsetT(t.Offset(10)); o > 0 { // recordBatches
			batches = t.VectorLen(o)
		}
		return nil
	})
	return bufio.NewReaderSize(io.NewSectionReader(file, magic, size-magic-tail-n), 1<<18), batches, err
}

// bounded is an allocator for lengths that a file states. It panics above its limit, and guard
// turns the panic into an error.
type bounded struct {
	memory.Allocator
	limit, used int64
}

func (b *bounded) take(n int64) {
	if b.used += n; b.used > b.limit || n < 0 && b.used < 0 {
		panic(fmt.Sprintf("a record batch needs more than %d bytes, a quarter of the memory budget. Raise --memory, unless the file is damaged", b.limit))
	}
}

// Allocate returns n bytes.
func (b *bounded) Allocate(n int) []byte {
	if n < 0 {
		panic("negative length")
	}
	b.take(int64(n))
	return b.Allocator.Allocate(n)
}

// Reallocate changes the length of p to n bytes.
func (b *bounded) Reallocate(n int, p []byte) []byte {
	if n < 0 {
		panic("negative length")
	}
	b.take(int64(n) - int64(len(p)))
	return b.Allocator.Reallocate(n, p)
}

// Free releases p.
func (b *bounded) Free(p []byte) {
	b.used -= int64(len(p))
	b.Allocator.Free(p)
}

// arrowTable is a table of record batches.
type arrowTable struct {
	*table
	fields [trace.NumColumns]int // by column, -1 absent
}

func newArrowTable(s *source, c *collector, schema *arrow.Schema) (*arrowTable, error) {
	names := slice.Map(schema.Fields(), func(f arrow.Field) string { return f.Name })
	md := schema.Metadata()
	inner, err := newTable(s, c, names, md.GetValue)
	if err != nil {
		return nil, err
	}
	t := &arrowTable{table: inner}
	for column, name := range trace.ColumnNames {
		t.fields[column] = -1
		found := schema.FieldIndices(name)
		if len(found) == 0 {
			continue
		}
		typ := schema.Field(found[0]).Type
		if isOptional(column) && typ.ID() == arrow.NULL { // a column with only None
			continue
		}
		if err := checkArrowType(column, typ); err != nil {
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
		t.fields[column] = found[0]
	}
	return t, nil
}

func checkArrowType(column int, typ arrow.DataType) error {
	if d, ok := typ.(*arrow.DictionaryType); ok {
		typ = d.ValueType
	}
	if trace.IsList(column) {
		list, ok := typ.(arrow.ListLikeType)
		if !ok {
			return fmt.Errorf("has the type %v, expected a list of numbers", typ)
		}
		typ = list.Elem()
	}
	k := others
	switch id := typ.ID(); {
	case id == arrow.STRING || id == arrow.LARGE_STRING:
		k = texts
	case arrow.IsInteger(id):
		k = wholes
	case id == arrow.FLOAT16 || id == arrow.FLOAT32:
		k = singles
	case id == arrow.FLOAT64:
		k = doubles
	}
	return checkKind(column, k, typ)
}

func (t *arrowTable) fill(c *cells, batch arrow.Record, i int) error {
	for column, field := range t.fields {
		if field < 0 {
			continue
		}
		values, at := batch.Column(field), i
		if d, ok := values.(*array.Dictionary); ok && !d.IsNull(i) { // the dictionary value may be null
			values, at = d.Dictionary(), d.GetValueIndex(i)
		}
		if values.IsNull(at) {
			continue
		}
		var err error
		switch {
		case column == trace.ColRequestID:
			c.id, c.hasID = values.(interface{ Value(int) string }).Value(at), true
		case trace.IsList(column):
			err = c.putArrowList(column, values.(array.ListLike), at)
		default:
			err = c.put(column, arrowNumber(values, at))
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", trace.ColumnNames[column], err)
		}
	}
	return nil
}

func (c *cells) putArrowList(column int, list array.ListLike, i int) error {
	c.startList(column)
	start, end := list.ValueOffsets(i)
	inner := list.ListValues()
	if start < 0 || end < start || end > int64(inner.Len()) {
		return fmt.Errorf("list at %d to %d of %d values: damaged", start, end, inner.Len())
	}
	for j := start; inner.NullN() > 0 && j < end; j++ {
		if inner.IsNull(int(j)) {
			return fmt.Errorf("value %d of the list is null, expected a number", j-start)
		}
	}
	switch a := inner.(type) { // the most frequent types come first
	case *array.Int32:
		l := c.positions(column)
		*l = append(*l, a.Int32Values()[start:end]...)
		return nil
	case *array.Float32:
		l := c.reals(column)
		*l = append(*l, a.Float32Values()[start:end]...)
		return nil
	}
	for j := start; j < end; j++ {
		if err := c.put(column, arrowNumber(inner, int(j))); err != nil {
			return err
		}
	}
	return nil
}

// arrowNumber returns value i. Its type is one that checkArrowType accepts.
func arrowNumber(values arrow.Array, i int) numeric {
	switch a := values.(type) {
	case *array.Int8:
		return numeric{kind: wholes, whole: int64(a.Value(i))}
	case *array.Int16:
		return numeric{kind: wholes, whole: int64(a.Value(i))}
	case *array.Int32:
		return numeric{kind: wholes, whole: int64(a.Value(i))}
	case *array.Int64:
		return numeric{kind: wholes, whole: a.Value(i)}
	case *array.Uint8:
		return numeric{kind: wholes, whole: int64(a.Value(i))}
	case *array.Uint16:
		return numeric{kind: wholes, whole: int64(a.Value(i))}
	case *array.Uint32:
		return numeric{kind: wholes, whole: int64(a.Value(i))}
	case *array.Uint64:
		return numeric{kind: wholes, whole: int64(a.Value(i)), huge: a.Value(i) > math.MaxInt64}
	case *array.Float16:
		return numeric{kind: singles, real: float64(half(a.Value(i).Uint16()))}
	case *array.Float32:
		return numeric{kind: singles, real: float64(a.Value(i))}
	}
	return numeric{kind: doubles, real: values.(*array.Float64).Value(i)}
}

// messageReader reads the messages of an Arrow stream. Unlike the library's reader, it
// distinguishes the end mark from the end of the file. It also checks lengths before it allocates
// memory.
type messageReader struct {
	r     io.Reader
	mem   memory.Allocator
	file  bool // the messages of a file may end without a mark before its footer
	last  *ipc.Message
	ended bool // the end mark was read
}

// Retain does nothing: decodeArrow owns the reader.
func (m *messageReader) Retain() {}

// Release frees the last message.
func (m *messageReader) Release() {
	if m.last != nil {
		m.last.Release()
		m.last = nil
	}
}

// Message returns the next message, valid until the next call. At the end mark it returns io.EOF.
func (m *messageReader) Message() (*ipc.Message, error) {
	meta, err := m.metadata()
	if err != nil {
		return nil, err
	}
	var length int64
	if err := parquet.Guard(func() error { length, err = checkMessage(meta); return err }); err != nil {
		return nil, err
	}
	body := memory.NewResizableBuffer(m.mem)
	defer body.Release()
	if length < 0 || length > 1<<40 {
		return nil, fmt.Errorf("message body of %d bytes: damaged", length)
	}
	body.Resize(int(length))
	if _, err := io.ReadFull(m.r, body.Bytes()); err != nil {
		return nil, cutOff(err)
	}
	m.Release()
	m.last = ipc.NewMessage(memory.NewBufferBytes(meta), body)
	return m.last, nil
}

// metadata reads the continuation mark, the length and the metadata.
func (m *messageReader) metadata() ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(m.r, head[:]); err == io.EOF && m.file {
		m.ended = true
		return nil, err
	} else if err != nil {
		return nil, cutOff(err)
	}
	if mark := binary.LittleEndian.Uint32(head[:]); mark != 0xffffffff {
		return nil, fmt.Errorf("message begins with %#x, expected the continuation mark 0xffffffff (streams of Arrow before 0.15 have none)", mark)
	}
	n := binary.LittleEndian.Uint32(head[4:])
	if n == 0 {
		m.ended = true
		return nil, io.EOF
	}
	if n < 8 || n > maxArrowMeta {
		return nil, fmt.Errorf("message metadata of %d bytes, expected 8 to %d", n, maxArrowMeta)
	}
	meta := make([]byte, n)
	if _, err := io.ReadFull(m.r, meta); err != nil {
		return nil, cutOff(err)
	}
	return meta, nil
}

// cutOff turns the end of the file into an error about the missing end mark.
func cutOff(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("the stream has no end mark: it was cut off or never closed. Copy or make it again")
	}
	return err
}

// checkMessage checks a message's metadata and returns the length of its body in bytes.
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

func root(b []byte) *flatbuffers.Table {
	return &flatbuffers.Table{Bytes: b, Pos: flatbuffers.GetUOffsetT(b)}
}

// viewError names a column whose layout the library does not read.
type viewError string

func (e viewError) Error() string {
	return fmt.Sprintf("column %s: has a view type, expected strings and lists without views (polars: compat_level=pl.CompatLevel.oldest(), pyarrow: cast them) or Parquet", string(e))
}

// schemaWalk visits every vector of a schema, because the library allocates their lengths. left is
// the number of elements that may follow: at most one per byte of the text.
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
		return fmt.Errorf("schema states a list of %d elements in %d bytes: damaged", n, len(t.Bytes))
	}
	for i := 0; i < n && visit != nil; i++ {
		element := flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(start + flatbuffers.UOffsetT(4*i))}
		if err := visit(&element); err != nil {
			return err
		}
	}
	return nil
}
