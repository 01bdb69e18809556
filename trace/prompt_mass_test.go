package trace_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// A prompt without tokens has an empty mass list if other streams have masses. It is written, read
// and digested as an empty list at any place in the file.
func TestEmptyPromptMass(t *testing.T) {
	for _, emptyFirst := range []bool{false, true} {
		var streams []*trace.Stream
		for layer := range int32(2) {
			s := &trace.Stream{}
			if empty := (layer == 0) == emptyFirst; empty {
				s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Layer: layer, Head: trace.NoHead}})
				s.EmptyPromptMass = true
			} else {
				s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Layer: layer, Head: trace.NoHead}, PromptLen: 1})
				s.PromptMass = []float32{0.5}
			}
			s.Append(trace.Row{Indices: []int32{0}})
			streams = append(streams, s)
		}
		path := writeTrace(t, trace.Meta{Order: trace.OrderRank, TopK: 1, BlockTokens: 1}, streams...)
		f, err := trace.Open(path)
		fatal.If(t, err)
		defer f.Close()
		reader := f.NewReader(trace.ReadAll)
		defer reader.Close()
		for i, want := range streams {
			var s trace.Stream
			fatal.If(t, reader.Read(i, &s))
			want.StreamInfo = s.StreamInfo
			compare(t, uint64(i), &s, want)
		}
		if got, want := f.StoredDigest(), massDigest(t, f.Meta(), streams); got != want || digestOf(t, path) != want {
			t.Errorf("digest %s stored, %s of the content, expected %s", got, digestOf(t, path), want)
		}
	}
}

// massDigest returns the digest of streams with one row, one index and prompt masses.
func massDigest(t *testing.T, m *trace.Meta, streams []*trace.Stream) string {
	t.Helper()
	all := []byte("kvreplay trace 1\n")
	text, err := m.Canonical()
	fatal.If(t, err)
	all = append(append(all, text...), '\n')
	for _, s := range streams {
		var b bytes.Buffer
		for _, v := range []any{uint32(1), []byte("r"), s.Layer, int32(-1), s.PromptLen, int32(1),
			[]int32{0, 16, 1, 0}, int32(len(s.PromptMass)), s.PromptMass} {
			fatal.If(t, binary.Write(&b, binary.LittleEndian, v))
		}
		sum := sha256.Sum256(b.Bytes())
		all = append(all, sum[:]...)
	}
	sum := sha256.Sum256(all)
	return "sha256:" + hex.EncodeToString(sum[:])
}
