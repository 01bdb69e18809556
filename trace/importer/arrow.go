package importer

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/kvreplay/kvreplay/trace"
)

// decodeArrowFile reads an Arrow IPC file, one record batch at a time.
func decodeArrowFile(s *source, c *collector) error {
	file, size, err := s.randomAccess()
	if err != nil {
		return err
	}
	if err := checkFooter(file, size); err != nil {
		return err
	}
	r, err := ipc.NewFileReader(file, ipc.WithAllocator(newBounded(s.opts)))
	if err != nil {
		return fmt.Errorf("damaged: %w", err)
	}
	defer r.Close()
	t := &arrowTable{source: s, c: c}
	if err := t.schema(r.Schema()); err != nil {
		return err
	}
	for i := range r.NumRecords() {
		batch, err := r.RecordAt(i)
		if err != nil {
			return s.errorAt(t.row+1, "record batch %d is damaged: %w", i, err)
		}
		err = t.batch(batch)
		batch.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeArrowStream reads an Arrow IPC stream, one record batch at a time. The
// stream must end in its end-of-stream mark: without it nobody knows whether it is whole.
func decodeArrowStream(s *source, c *collector) error {
	input, err := s.reader()
	if err != nil {
		return err
	}
	mem := newBounded(s.opts)
	messages := &messageReader{r: input, mem: mem}
	r, err := ipc.NewReaderFromMessageReader(messages, ipc.WithAllocator(mem))
	if view := viewError(""); errors.As(err, &view) {
		return view
	}
	if err != nil {
		return fmt.Errorf("damaged: %w", err)
	}
	defer r.Release()
	t := &arrowTable{source: s, c: c}
	if err := t.schema(r.Schema()); err != nil {
		return err
	}
	for r.Next() {
		if err := t.batch(r.Record()); err != nil {
			return err
		}
	}
	if r.Err() != nil {
		return s.errorAt(t.row+1, "damaged: %w", r.Err())
	}
	if !messages.ended { // while dictionaries were read
		return s.errorAt(t.row+1, "damaged: %w", cutOff(io.EOF))
	}
	if n, err := io.Copy(io.Discard, input); n > 0 || err != nil {
		return errors.Join(s.errorAt(t.row+1, "%d bytes follow the end of the stream, expected none", n), err)
	}
	return nil
}

// bounded is an allocator for lengths that a file states: beyond its limit it
// panics, which guard turns into an error.
type bounded struct {
	memory.Allocator
	limit, used int64
}

func newBounded(o *Options) *bounded {
	return &bounded{Allocator: memory.NewGoAllocator(), limit: o.wholeLimit()}
}

func (b *bounded) take(n int64) {
	if b.used += n; b.used > b.limit || n < 0 && b.used < 0 {
		panic(fmt.Sprintf("a record batch asks for more than %d bytes, a quarter of the memory budget: raise --memory, unless the file is damaged", b.limit))
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

// Free gives p back.
func (b *bounded) Free(p []byte) {
	b.used -= int64(len(p))
	b.Allocator.Free(p)
}

// arrowTable adds the rows of record batches.
type arrowTable struct {
	source  *source
	c       *collector
	columns [numColumns]int // field numbers, -1 absent
	row     int64           // rows so far
	cells   cells
}

// schema finds the columns and what the table says of the trace.
func (t *arrowTable) schema(schema *arrow.Schema) error {
	var names []string
	for _, f := range schema.Fields() {
		names = append(names, f.Name)
	}
	ignored, err := checkColumns(names, t.source.opts)
	if err != nil {
		return err
	}
	for _, name := range ignored {
		t.c.warn("%s: column %s is not read", t.source.path, name)
	}
	for i, name := range columnNames {
		t.columns[i] = -1
		found := schema.FieldIndices(name)
		if len(found) > 0 && !(isOptional(i) && schema.Field(found[0]).Type.ID() == arrow.NULL) { // a column of None
			t.columns[i] = found[0]
		}
	}
	md := schema.Metadata()
	if err := trace.CheckSeal(md.GetValue); err != nil {
		return err
	}
	if text, ok := md.GetValue(metaKey); ok {
		m, err := parseMeta(text)
		if err != nil {
			return err
		}
		t.c.state(t.source, m)
	}
	return nil
}

// batch adds the rows of a record batch.
func (t *arrowTable) batch(batch arrow.Record) error {
	for i := range int(batch.NumRows()) {
		t.row++
		if err := t.readRow(batch, i); err != nil {
			return t.source.errorAt(t.row, "%w", err)
		}
		t.cells.at = t.row
		if err := t.c.add(t.source, &t.cells.record); err != nil {
			return err
		}
	}
	return nil
}
