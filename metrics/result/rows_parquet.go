package result

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// parquetRow is Row with the columns of a Parquet file: one per field, with its name and in its
// order. A field that can be null is an optional column, and warnings are a list.
var parquetRow = parquetType()

func parquetType() reflect.Type {
	fields := make([]reflect.StructField, len(rowFields))
	for i, f := range rowFields {
		fields[i] = reflect.TypeFor[Row]().FieldByIndex(f.index)
		tag := f.name
		if !f.scalar() {
			tag += ",list"
		}
		fields[i].Tag = reflect.StructTag(fmt.Sprintf("parquet:%q", tag))
	}
	return reflect.StructOf(fields)
}

// WriteParquet writes the rows as a Parquet file for DuckDB, pandas and others, in canonical order
// and each cell once. Equal rows give equal bytes in any order. A row that fails Check is an error.
func WriteParquet(w io.Writer, rows []Row) error {
	p := NewParquetWriter(w)
	rows = MergeRows(rows, nil)
	for i := range rows {
		if err := p.write(&rows[i]); err != nil {
			return err
		}
	}
	return p.Close()
}

// ParquetWriter is WriteParquet for rows that come one at a time. They have to be in the order of
// MergeRows.
type ParquetWriter struct {
	file *parquet.GenericWriter[any]
	rows int
	last Row
	row  reflect.Value
}

// ErrNotSorted means that rows are not in the order of MergeRows, or are there twice. WriteParquet
// sorts them.
var ErrNotSorted = errors.New("rows need to be sorted")

// NewParquetWriter returns a writer to w.
func NewParquetWriter(w io.Writer) *ParquetWriter {
	file := parquet.NewGenericWriter[any](w, parquet.SchemaOf(reflect.New(parquetRow).Interface()), parquet.Compression(&parquet.Zstd), parquet.CreatedBy("kvreplay", "v1", ""))
	return &ParquetWriter{file: file, row: reflect.New(parquetRow).Elem()}
}

// Add writes a row. The error is ErrNotSorted if the row does not follow the last one.
func (p *ParquetWriter) Add(r *Row) error {
	if p.rows > 0 {
		c := CompareRows(&p.last, r)
		if c == 0 {
			c = strings.Compare(p.last.CellID(), r.CellID())
		}
		if c >= 0 {
			return ErrNotSorted
		}
	}
	p.last = *r
	return p.write(r)
}

func (p *ParquetWriter) write(r *Row) error {
	p.rows++
	if err := r.Check(); err != nil {
		return fmt.Errorf("write rows: row %d: %w", p.rows, err)
	}
	for i, f := range rowFields {
		p.row.Field(i).Set(f.value(r))
	}
	if _, err := p.file.Write([]any{p.row.Interface()}); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	return nil
}

// Close writes the end of the file.
func (p *ParquetWriter) Close() error {
	if err := p.file.Close(); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	return nil
}
