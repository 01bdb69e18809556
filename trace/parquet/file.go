// Package parquet reads columns of Parquet files whose bytes may be damaged or hostile.
//
// Checksums cover the data of pages, but neither their headers nor the footer. Open checks the
// lengths in the footer before it allocates memory for them. CheckPages compares all page headers
// with the footer. A Cursor then reads the values of one column.
package parquet

import (
	"encoding/binary"
	"fmt"
	"io"

	parquetgo "github.com/parquet-go/parquet-go"
)

// Magic is the first and the last 4 bytes of a Parquet file.
const Magic = "PAR1"

// File is an open Parquet file. The embedded file of the library holds its schema and metadata.
type File struct {
	*parquetgo.File
	Leaves []Leaf // by column index
	source io.ReaderAt
}

// Leaf describes a leaf column, which holds values.
type Leaf struct {
	Index int    // in a row group's columns
	Name  string // name of the column, without nested groups
	List  bool   // the rows hold lists of values

	maxDef  byte // definition level of a value that is not null
	listDef byte // least definition level of a list that is not null
}

// Open reads the footer of a Parquet file of size bytes.
func Open(source io.ReaderAt, size int64) (*File, error) {
	f := &File{source: source}
	err := Guard(func() (err error) {
		if err = checkFooter(source, size); err == nil {
			f.File, err = parquetgo.OpenFile(source, size,
				parquetgo.SkipPageIndex(true), parquetgo.SkipBloomFilters(true), parquetgo.ReadBufferSize(1<<18))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, path := range f.Schema().Columns() {
		found, _ := f.Schema().Lookup(path...)
		l := Leaf{Index: found.ColumnIndex, Name: path[0], List: found.MaxRepetitionLevel > 0, maxDef: byte(found.MaxDefinitionLevel)}
		if l.List { // levels: [list optional] + repeated + [element optional]
			l.listDef = l.maxDef - 1
			if found.Node.Optional() {
				l.listDef--
			}
		}
		f.Leaves = append(f.Leaves, l)
	}
	return f, nil
}

// checkFooter checks the lengths in the footer, because the decoder allocates them.
func checkFooter(source io.ReaderAt, size int64) error {
	const tail = 8 // length and magic
	if size < 4+tail {
		return fmt.Errorf("%d bytes", size)
	}
	var end [tail]byte
	if _, err := source.ReadAt(end[:], size-tail); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if string(end[4:]) != Magic || length > size-4-tail {
		return fmt.Errorf("no footer at the end, expected a length and PAR1")
	}
	footer := make([]byte, length)
	if _, err := source.ReadAt(footer, size-tail-length); err != nil {
		return err
	}
	if err := checkThrift(footer); err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	return nil
}

// Guard runs f and turns a panic of the Parquet decoder into an error. Corrupt pages can cause such
// panics.
func Guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("corrupt data: %v", p)
		}
	}()
	return f()
}
