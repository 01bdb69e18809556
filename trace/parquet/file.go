// Package parquet reads columns of Parquet files whose bytes may be damaged or hostile.
//
// Checksums cover the data of pages, but neither their headers nor the footer. Open checks the
// lengths in the footer before it allocates memory for them. CheckFooter compares its numbers with
// each other. A Cursor reads the values of one column, and checks each page before it uses the
// page. CheckPages compares all page headers with the footer at once.
package parquet

import (
	"fmt"
	"io"
	"sync"

	parquetgo "github.com/parquet-go/parquet-go"
)

// Magic is the first and the last 4 bytes of a Parquet file.
const Magic = "PAR1"

// File is an open Parquet file. The embedded file of the library holds its schema and metadata.
type File struct {
	*parquetgo.File
	Leaves []Leaf // by column index
	// Unsummed is called for a page without a CRC, before its data are used. Nil accepts the page.
	Unsummed func() error

	source io.ReaderAt
	tail   *tail
	chunks []chunk // by row group, then by column index

	indexOnce sync.Once
	indexAt   int64 // first byte of indexes
	indexes   []byte
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
		if f.tail, err = readTail(source, size); err == nil {
			f.File, err = parquetgo.OpenFile(f.tail, size, parquetgo.SkipMagicBytes(true),
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
	f.chunks = make([]chunk, len(f.Leaves)*len(f.Metadata().RowGroups))
	return f, nil
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
