package result

import (
	"fmt"
	"io"
	"os"

	"github.com/kvreplay/kvreplay/internal/files"
)

// pipe is an input that can be read once, such as a pipe. It keeps the bytes that were read in a
// temporary file, so that they can be read again.
type pipe struct {
	from   *os.File
	copied *os.File // all bytes that were read
	err    error    // of the end
}

func openPipe(path string) (*pipe, error) {
	if err := files.CheckStream(path); err != nil {
		return nil, err
	}
	from, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	copied, err := os.CreateTemp("", "kvreplay-rows-*")
	if err != nil {
		from.Close()
		return nil, temporary(err)
	}
	os.Remove(copied.Name()) // the system frees it when the program ends, even by a signal
	return &pipe{from: from, copied: copied}, nil
}

// again returns a reader of all bytes from the first on. It ends the use of other readers.
func (p *pipe) again() (io.Reader, error) {
	n, err := p.copied.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, temporary(err)
	}
	return io.MultiReader(io.NewSectionReader(p.copied, 0, n), p), nil
}

// Read reads bytes for the first time.
func (p *pipe) Read(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.from.Read(b)
	if _, failed := p.copied.Write(b[:n]); failed != nil {
		n, err = 0, temporary(failed)
	}
	if p.err = err; err != nil {
		p.from.Close()
	}
	return n, err
}

func temporary(err error) error {
	return fmt.Errorf("temporary file ($TMPDIR names its folder): %w", err)
}
