// Package bom reads texts that begin with a byte order mark, as editors and spreadsheets
// leave them: the mark is dropped, and UTF-16 becomes UTF-8. Texts without one stay as they
// are.
package bom

import (
	"bytes"
	"io"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Reader reads r without its byte order mark.
func Reader(r io.Reader) io.Reader {
	return transform.NewReader(r, unicode.BOMOverride(transform.Nop))
}

// Bytes is text without its byte order mark.
func Bytes(text []byte) ([]byte, error) { return io.ReadAll(Reader(bytes.NewReader(text))) }
