package trace

import (
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// Foreign is a Parquet file of any columns, of which a trace can be made.
type Foreign struct{ file File }

// OpenForeign reads the footer of the Parquet file that the size bytes of source are. Lengths
// in it are checked before memory is taken for them.
func OpenForeign(source io.ReaderAt, size int64) (*Foreign, error) {
	f := &Foreign{File{source: source, size: size}}
	if err := guard(f.file.readFooter); err != nil {
		return nil, err
	}
	schema := f.file.parquet.Schema()
	for _, path := range schema.Columns() {
		found, _ := schema.Lookup(path...)
		f.file.foreignLeaves = append(f.file.foreignLeaves, leaf{index: found.ColumnIndex, name: strings.Join(path, "."),
			maxDef: byte(found.MaxDefinitionLevel), list: found.MaxRepetitionLevel > 0, foreign: true})
	}
	return f, nil
}

// Parquet is the file to the library.
func (f *Foreign) Parquet() *parquet.File { return f.file.parquet }

// CheckPages holds all page headers against the footer, as Open does of a trace: the library
// takes memory by what they announce, and no checksum covers them. crc is whether every page
// of data has one.
func (f *Foreign) CheckPages() (crc bool, err error) {
	p := guard(func() error { crc, err = f.file.checkPages(); return nil })
	if p != nil {
		return false, p
	}
	return crc, err
}
