package result

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/gunzip"
)

// decoder reads the rows of several inputs.
type decoder struct {
	texts texts
	hash  io.Writer // of the bytes of files
	// use receives each row, which took size bytes. The row is valid until use returns. same is true
	// if it is known to be of the kind of the row before (SameKind).
	use func(row *Row, same bool, size int64) error
}

// collector keeps the rows of a decoder.
type collector struct {
	rows []Row
	left int64 // bytes of the inputs that are still to be read, 0 if unknown
}

var errEmpty = errors.New("the file is empty, expected rows: replay again, or leave it out")

// file reads a file, or again the bytes of a pipe.
func (d *decoder) file(path string, of *pipe) error {
	if of != nil {
		r, err := of.again()
		if err != nil {
			return fmt.Errorf("read rows: %s: %w", path, err)
		}
		return d.decode(io.TeeReader(r, d.hash), path)
	}
	if err := files.CheckStream(path); err != nil {
		return fmt.Errorf("read rows: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read rows: %w", err)
	}
	defer f.Close()
	from, to := io.Pipe()
	var ahead sync.WaitGroup
	ahead.Go(func() {
		_, err := io.Copy(to, io.TeeReader(f, d.hash))
		to.CloseWithError(err)
	})
	defer ahead.Wait()
	defer from.Close()
	return d.decode(from, path)
}

func (d *decoder) decode(r io.Reader, name string) error {
	if d.texts == nil {
		d.texts = texts{}
	}
	b, err := gunzip.Reader(r)
	if err != nil {
		return fmt.Errorf("read rows: %s: %w", name, err)
	}
	if magic, _ := b.Peek(4); string(magic) == "PAR1" {
		return fmt.Errorf("read rows: %s: is Parquet (a trace, a profile or rows.parquet), expected rows as JSON lines or CSV, as kvreplay replay writes them", name)
	}
	if begin, _ := b.Peek(512); bytes.IndexByte(begin, 0) >= 0 {
		return fmt.Errorf("read rows: %s: is not text, expected rows as JSON lines or CSV, as kvreplay replay writes them", name)
	}
	first, err := b.Peek(1)
	switch {
	case errors.Is(err, io.EOF):
		return &RowError{name, 1, errEmpty}
	case err != nil:
		return fmt.Errorf("read rows: %s: %w", name, err)
	case first[0] == '{':
		return d.lines(b, name)
	}
	return d.csv(b, name)
}

// add keeps a row that took size bytes. Rows are large and many, so add makes room for all
// remaining rows at once. It estimates their number from this row's size, plus an eighth.
func (d *collector) add(row *Row, _ bool, size int64) error {
	if len(d.rows) == cap(d.rows) {
		d.rows = slices.Grow(d.rows, 1+int(d.left/size*9/8))
	}
	d.left -= min(d.left, size)
	d.rows = append(d.rows, *row)
	return nil
}

// texts has one copy of each text, because rows repeat most of theirs.
type texts map[string]*string

// shareAll replaces the row's texts by the copies that other rows have.
func (t texts) shareAll(r *Row) {
	for i := range rowFields {
		t.share(r, &rowFields[i])
	}
}

// share replaces a field's texts by the copies that other rows have.
func (t texts) share(r *Row, f *field) {
	v := f.value(r)
	switch {
	case !f.scalar():
		for i, w := range r.Warnings {
			r.Warnings[i] = *t.copy(w)
		}
	case f.element().Kind() != reflect.String || f.nullable() && v.IsNil():
	default:
		shared := reflect.ValueOf(t.copy(reflect.Indirect(v).String()))
		if !f.nullable() {
			shared = shared.Elem()
		}
		v.Set(shared)
	}
}

func (t texts) copy(text string) *string {
	shared, ok := t[text]
	if !ok {
		text = strings.Clone(text) // without keeping the line in memory
		shared = &text
		t[text] = shared
	}
	return shared
}

// copyOf is copy for the bytes of a text, which it copies only if they are new.
func (t texts) copyOf(text []byte) *string {
	if shared, ok := t[string(text)]; ok {
		return shared
	}
	return t.copy(string(text))
}
