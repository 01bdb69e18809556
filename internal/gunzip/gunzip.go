// Package gunzip reads data that may be compressed with gzip. It looks at the first bytes and never
// at a file's name.
package gunzip

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// magic is the first bytes of gzip data (RFC 1952, section 2.3.1).
var magic = []byte{0x1f, 0x8b}

// Begins reports whether head is the beginning of a gzip file.
func Begins(head []byte) bool { return bytes.HasPrefix(head, magic) }

// Reader returns a reader of r, decompressed if it is gzip. Errors in gzip data state a remedy.
// Errors of r are unchanged.
func Reader(r io.Reader) (*bufio.Reader, error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	head, err := buffered.Peek(len(magic))
	switch {
	case err != nil && err != io.EOF:
		return nil, err
	case !Begins(head):
		return buffered, nil
	}
	unpacked, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, cause(err)
	}
	return bufio.NewReaderSize(reader{unpacked}, 1<<16), nil
}

// reader is a gzip reader whose errors state a remedy.
type reader struct{ *gzip.Reader }

func (r reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = cause(err)
	}
	return n, err
}

// cause adds a remedy to an error in the data.
func cause(err error) error {
	switch {
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return errors.New("the gzip data ends too early: the file is incomplete. Copy or make it again")
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, new(flate.CorruptInputError)):
		return fmt.Errorf("the gzip data is damaged. Copy or make the file again: %w", err)
	}
	return err
}
