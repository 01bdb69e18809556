package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
)

// Digester computes the digest of a trace: SHA-256 over the canonical metadata and
// the digests of the streams in key order. It does not depend on encoding, page
// or row-group sizes (FORMAT.md, "Digest").
type Digester struct {
	streams []byte // 32 bytes a stream, in key order
	row     hash.Hash
	buf     []byte
}

// NewDigester returns an empty digester.
func NewDigester() *Digester { return &Digester{row: sha256.New(), buf: make([]byte, 0, 1<<14)} }

// Add digests the next stream; streams come in key order. s must hold all columns.
func (d *Digester) Add(s *Stream) {
	h := d.row
	h.Reset()
	d.buf = binary.LittleEndian.AppendUint32(d.buf[:0], uint32(len(s.Request)))
	d.buf = append(d.buf, s.Request...)
	d.ints(h, []int32{s.Layer, s.Head, s.PromptLen, int32(s.Rows)})
	for i := range s.Steps {
		list := s.List(i)
		var flags int32
		for bit, on := range []bool{len(s.Scores) > 0, len(s.CoveredMass) > 0, len(s.AttentionMass) > 0, len(s.PredictedOffsets) > 0, i == 0 && len(s.PromptMass) > 0} {
			if on {
				flags |= 1 << bit
			}
		}
		d.ints(h, []int32{s.Steps[i], flags, int32(len(list))})
		d.ints(h, list)
		d.floats(h, s.ScoreList(i))
		if len(s.CoveredMass) > 0 {
			d.floats(h, s.CoveredMass[i:i+1])
		}
		if len(s.AttentionMass) > 0 {
			d.floats(h, s.AttentionMass[s.Offsets[i]:s.Offsets[i+1]])
		}
		if p := s.PredictedList(i); len(s.PredictedOffsets) > 0 {
			d.ints(h, []int32{int32(len(p))})
			d.ints(h, p)
		}
		if i == 0 && len(s.PromptMass) > 0 {
			d.ints(h, []int32{int32(len(s.PromptMass))})
			d.floats(h, s.PromptMass)
		}
	}
	h.Write(d.buf)
	d.buf = d.buf[:0]
	d.streams = h.Sum(d.streams)
}

// ints hashes values as they stand in memory of a little-endian machine.
func (d *Digester) ints(h hash.Hash, values []int32) {
	for len(values) > 0 {
		n := min(len(values), d.room(h))
		for i, b := 0, d.grow(n); i < n; i, b = i+1, b[4:] {
			binary.LittleEndian.PutUint32(b, uint32(values[i]))
		}
		values = values[n:]
	}
}

func (d *Digester) floats(h hash.Hash, values []float32) {
	for len(values) > 0 {
		n := min(len(values), d.room(h))
		for i, b := 0, d.grow(n); i < n; i, b = i+1, b[4:] {
			binary.LittleEndian.PutUint32(b, math.Float32bits(values[i]))
		}
		values = values[n:]
	}
}

// room is how many values the buffer takes: it is hashed and emptied where it is full.
func (d *Digester) room(h hash.Hash) int {
	if cap(d.buf)-len(d.buf) < 4 {
		h.Write(d.buf)
		d.buf = d.buf[:0]
	}
	return (cap(d.buf) - len(d.buf)) / 4
}

// grow makes the buffer longer by n values and returns where they go.
func (d *Digester) grow(n int) []byte {
	end := len(d.buf)
	d.buf = d.buf[:end+4*n]
	return d.buf[end:]
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

// seal protects the stored metadata and digest themselves: the first 16 hexadecimal
// digits of their SHA-256.
func seal(meta []byte, digest string) string {
	h := sha256.New()
	h.Write(meta)
	h.Write([]byte("\n" + digest))
	return hex.EncodeToString(h.Sum(nil)[:8])
}
