// Package bom reads texts that begin with a byte order mark, as editors and spreadsheets write
// them. It drops the mark and converts UTF-16 to UTF-8. A text without a mark is unchanged.
package bom

import (
	"bytes"
	"io"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Reader returns r without its byte order mark, in UTF-8.
func Reader(r io.Reader) io.Reader {
	return transform.NewReader(r, unicode.BOMOverride(transform.Nop))
}

// Bytes returns text without its byte order mark, in UTF-8.
func Bytes(text []byte) ([]byte, error) { return io.ReadAll(Reader(bytes.NewReader(text))) }
