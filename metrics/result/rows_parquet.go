package result

import (
	"fmt"
	"io"
	"reflect"

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
	p := parquet.NewWriter(w, parquet.SchemaOf(reflect.New(parquetRow).Interface()), parquet.Compression(&parquet.Zstd), parquet.CreatedBy("kvreplay", "v1", ""))
	rows = MergeRows(rows, nil)
	for i := range rows {
		if err := rows[i].Check(); err != nil {
			return fmt.Errorf("write rows: row %d: %w", i+1, err)
		}
		row := reflect.New(parquetRow).Elem()
		for j, f := range rowFields {
			row.Field(j).Set(f.value(&rows[i]))
		}
		if err := p.Write(row.Interface()); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
	}
	if err := p.Close(); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	return nil
}
