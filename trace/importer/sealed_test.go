package importer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// A trace with altered metadata is refused, with and without gzip.
func TestAlteredTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.parquet")
	randomTrace(t, 0, path)
	altered := bytes.Replace(read(t, path), []byte(`"topk":3`), []byte(`"topk":2`), 1)
	for _, content := range [][]byte{altered, zipped(t, altered)} {
		mustFail(t, Options{}, []string{"metadata were altered"}, write(t, t.TempDir(), "altered", content))
	}
}

// Content that does not match the stated digest is refused, with and without gzip.
func TestOtherDigest(t *testing.T) {
	content := sealedParquet(t, "sha256:"+hex.EncodeToString(make([]byte, 32)), "")
	for _, content := range [][]byte{content, zipped(t, content)} {
		mustFail(t, Options{}, []string{"content or metadata were altered after writing: digest"}, write(t, t.TempDir(), "other", content))
	}
}

// A seal is checked even if no digest is stated.
func TestSealWithoutDigest(t *testing.T) {
	sum := sha256.Sum256([]byte(sealedMeta + "\n"))
	importAll(t, Options{}, write(t, t.TempDir(), "good", sealedParquet(t, "", hex.EncodeToString(sum[:8]))))
	mustFail(t, Options{}, []string{"seal 0123456789abcdef"}, write(t, t.TempDir(), "bad", sealedParquet(t, "", "0123456789abcdef")))
}

const sealedMeta = `{"block_tokens":1,"candidates":2,"order":"rank","topk":2,"version":1}`

// sealedParquet returns a trace of one row with a digest and a seal. Empty means none.
func sealedParquet(t *testing.T, digest, seal string) []byte {
	t.Helper()
	type row struct {
		RequestID string  `parquet:"request_id"`
		LayerID   int32   `parquet:"layer_id"`
		PromptLen int32   `parquet:"prompt_len"`
		Step      int32   `parquet:"step"`
		SeqLen    int32   `parquet:"seq_len"`
		Indices   []int32 `parquet:"topk_indices,list"`
	}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[row](&out, parquet.KeyValueMetadata(metaKey, sealedMeta))
	for key, value := range map[string]string{"digest": digest, "seal": seal} {
		if value != "" {
			w.SetKeyValueMetadata(metaKey+"."+key, value)
		}
	}
	if _, err := w.Write([]row{{RequestID: "r", PromptLen: 9, SeqLen: 10, Indices: []int32{3, 1}}}); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, w.Close())
	return out.Bytes()
}

// An Arrow file keeps the keys of the trace that it was made from.
func TestArrowSeal(t *testing.T) {
	s := &trace.Stream{}
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: 9})
	s.Append(trace.Row{Indices: []int32{3, 1}})
	content := arrowBytes(t, true, sealedMeta, []*trace.Stream{s}, metaKey+".seal", "0123456789abcdef")
	mustFail(t, Options{}, []string{"seal 0123456789abcdef"}, write(t, t.TempDir(), "bad.arrow", content))
}
