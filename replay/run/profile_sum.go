package run

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/kvreplay/kvreplay/internal/optional"
)

// ProfileSum is a digest of a profile's rows and metadata. Parquet has checksums for pages, but
// none for their headers and for the footer with the metadata.
type ProfileSum struct {
	hash hash.Hash
	row  []byte
}

// NewProfileSum returns the sum of no rows.
func NewProfileSum() *ProfileSum { return &ProfileSum{hash: sha256.New()} }

// Add adds the next row.
func (s *ProfileSum) Add(r *ProfileRow) {
	b := s.row[:0]
	number := func(n int64) { b = binary.LittleEndian.AppendUint64(b, uint64(n)) }
	text := func(t string) {
		number(int64(len(t)))
		b = append(b, t...)
	}
	text(r.RequestID)
	text(r.Policy)
	text(optional.Or(r.Capacity, "")) // a capacity is never empty
	text(r.Above)
	for _, n := range []int64{int64(r.LayerID), int64(optional.Or(r.Head, -1)), int64(r.Tier), int64(r.Step), int64(r.SeqLen), int64(r.Demand), int64(r.Misses), int64(r.MissRuns),
		int64(r.Births), int64(r.Resident), r.Moved, r.Listed, int64(r.Positions), int64(len(r.MissedIndices))} {
		number(n)
	}
	for _, i := range r.MissedIndices {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
	}
	s.hash.Write(b)
	s.row = b
}

// Digest returns the digest of the rows so far and of the metadata's text.
func (s *ProfileSum) Digest(meta string) string {
	sum := sha256.New()
	sum.Write(s.hash.Sum(nil))
	sum.Write([]byte(meta))
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}
