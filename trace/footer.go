package trace

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// magic are the first and the last bytes of a Parquet file.
const magic = "PAR1"

// openParquet reads the footer.
func (f *File) openParquet() error {
	var begin [4]byte
	if _, err := f.source.ReadAt(begin[:], 0); err != nil && err != io.EOF {
		return fmt.Errorf("open trace: %w", err)
	}
	if string(begin[:]) != magic {
		return fileError(f.path, RuleFile, "is not a Parquet file; %w", ErrForeign)
	}
	if err := f.readFooter(); err != nil {
		return f.corrupt(err)
	}
	return nil
}

func (f *File) readFooter() error {
	err := f.checkFooter()
	if err == nil {
		f.parquet, err = parquet.OpenFile(f.source, f.size,
			parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(1<<18))
	}
	return err
}

// checkFooter checks the lengths in the footer before the decoder allocates by them.
func (f *File) checkFooter() error {
	const tail = 8 // length and magic
	if f.size < 4+tail {
		return fmt.Errorf("%d bytes", f.size)
	}
	var end [tail]byte
	if _, err := f.source.ReadAt(end[:], f.size-tail); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if string(end[4:]) != magic || length > f.size-4-tail {
		return fmt.Errorf("no footer at the end, expected a length and PAR1")
	}
	footer := make([]byte, length)
	if _, err := f.source.ReadAt(footer, f.size-tail-length); err != nil {
		return err
	}
	if err := checkThrift(footer); err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	return nil
}
