package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"unsafe"
)

// digestBuffer is the number of bytes that are hashed in one call.
const digestBuffer = 4 << 10

// Digester computes the digest of a trace: SHA-256 over the canonical metadata and
// the digests of the streams in key order. It does not depend on encoding, page
// or row-group sizes (FORMAT.md, "Digest").
type Digester struct {
	streams  []byte // 32 bytes per stream, in key order
	row      hash.Hash
	buf      []byte // not hashed yet
	portable []byte // scratch of littleEndian
}

// NewDigester returns an empty digester.
func NewDigester() *Digester { return &Digester{row: sha256.New(), buf: make([]byte, 0, digestBuffer)} }

// Add digests the next stream. Streams must be added in key order, and s must hold all columns.
func (d *Digester) Add(s *Stream) {
	d.begin(&s.StreamInfo)
	d.rows(s)
	d.end()
}

// begin starts the next stream, which has s.Rows rows.
func (d *Digester) begin(s *StreamInfo) {
	d.row.Reset()
	d.buf = binary.LittleEndian.AppendUint32(d.buf[:0], uint32(len(s.Request)))
	d.buf = append(d.buf, s.Request...)
	d.numbers(s.Layer, s.Head, s.PromptLen, int32(s.Rows))
}

// rows digests the next rows of the stream.
func (d *Digester) rows(s *Stream) {
	flags := s.flags()
	for i := range s.Steps {
		list := s.List(i)
		d.numbers(s.Steps[i], flags, int32(len(list)))
		flags &^= flagPromptMass
		words(d, list)
		words(d, s.ScoreList(i))
		if len(s.CoveredMass) > 0 {
			words(d, s.CoveredMass[i:i+1])
		}
		words(d, s.MassList(i))
		if p := s.PredictedList(i); len(s.PredictedOffsets) > 0 {
			d.numbers(int32(len(p)))
			words(d, p)
		}
		if i == 0 && s.hasPromptMass() {
			d.numbers(int32(len(s.PromptMass)))
			words(d, s.PromptMass)
		}
	}
}

func (d *Digester) end() {
	d.row.Write(d.buf)
	d.buf = d.buf[:0]
	d.streams = d.row.Sum(d.streams)
}

// numbers hashes a few numbers between lists.
func (d *Digester) numbers(values ...int32) { d.buf = appendLittleEndian(d.buf, values) }

// words hashes values in little-endian byte order. Long lists are hashed in place and short ones
// are gathered first, because each hash call has a fixed cost.
func words[T int32 | float32](d *Digester, values []T) {
	raw := littleEndian(&d.portable, values)
	if len(d.buf)+len(raw) <= digestBuffer {
		d.buf = append(d.buf, raw...)
		return
	}
	d.row.Write(d.buf)
	d.row.Write(raw)
	d.buf = d.buf[:0]
}

// Sum returns "sha256:" and the hexadecimal digest of metadata m and the streams added.
func (d *Digester) Sum(m *Meta) (string, error) {
	text, err := m.Canonical()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write([]byte("kvreplay trace 1\n"))
	h.Write(text)
	h.Write([]byte("\n"))
	h.Write(d.streams)
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// seal returns the first 16 hexadecimal digits of the SHA-256 of two texts, with "\n" between them. It
// protects them against changes: the stored metadata and the digest, or the digest and an index.
func seal(first, second string) string {
	sum := sha256.Sum256([]byte(first + "\n" + second))
	return hex.EncodeToString(sum[:8])
}

// littleEndianMachine reports whether this machine is little-endian.
var littleEndianMachine = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// littleEndian returns values as little-endian bytes, 4 each. On a little-endian machine these are
// the memory of values, which the caller must not change. Otherwise they are in *scratch.
func littleEndian[T int32 | float32](scratch *[]byte, values []T) []byte {
	if littleEndianMachine {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
	}
	*scratch = appendLittleEndian((*scratch)[:0], values)
	return *scratch
}

// appendLittleEndian appends values as little-endian bytes on any machine.
func appendLittleEndian[T int32 | float32](dst []byte, values []T) []byte {
	for _, v := range values {
		switch v := any(v).(type) {
		case int32:
			dst = binary.LittleEndian.AppendUint32(dst, uint32(v))
		case float32:
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
		}
	}
	return dst
}
