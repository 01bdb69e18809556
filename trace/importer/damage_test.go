package importer

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// A truncated source is an error and leaves no output. Only in JSON lines a cut at the end of a
// line is not visible.
func TestTruncated(t *testing.T) {
	cuts := 150
	if testing.Short() {
		cuts = 30
	}
	for _, s := range samples(t) {
		for _, packed := range []bool{false, true} {
			content := s.content
			if packed {
				content = zipped(t, content)
			}
			for cut := 0; cut < len(content); cut += 1 + len(content)/cuts {
				lineEnd := s.name == "jsonl" && !packed && (cut > 0 && content[cut-1] == '\n' || content[cut] == '\n')
				if lineEnd {
					continue
				}
				mustFail(t, s.options, nil, write(t, t.TempDir(), "cut", content[:cut]))
			}
			for cut := max(0, len(content)-20); cut < len(content)-1; cut++ { // the end marks
				mustFail(t, s.options, nil, write(t, t.TempDir(), "cut", content[:cut]))
			}
		}
	}
}

// A source with damaged bytes never panics, and any written file is a valid trace.
func TestDamaged(t *testing.T) {
	times := 250
	if testing.Short() {
		times = 50
	}
	for _, s := range samples(t) {
		r := rand.New(rand.NewPCG(3, 5))
		for n := range times {
			content := bytes.Clone(s.content)
			for range 1 + r.IntN(3) {
				at := r.IntN(len(content))
				if n%2 == 0 {
					at = r.IntN(min(len(content), 1024))
				}
				content[at] ^= 1 << r.IntN(8)
			}
			dir := t.TempDir()
			o := s.options
			o.Memory = 64 << 20
			_, err := Import(context.Background(), o, filepath.Join(dir, "out.parquet"), write(t, t.TempDir(), "damaged", content))
			left, _ := os.ReadDir(dir)
			if err != nil && len(left) > 0 {
				t.Errorf("%s: left behind %v after %v", s.name, left, err)
			}
		}
	}
}
