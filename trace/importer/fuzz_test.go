package importer

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvreplay/kvreplay/trace"
)

// fuzzImport checks that any bytes give a valid trace, or an error and no file, and no panic.
func fuzzImport(t *testing.T, o Options, content []byte) {
	t.Helper()
	dir := t.TempDir()
	source, out := write(t, dir, "source", content), filepath.Join(dir, "out.parquet")
	o.Memory, o.Tmp = 16<<20, dir
	_, err := Import(context.Background(), o, out, source)
	_, statErr := os.Stat(out)
	if (err == nil) != (statErr == nil) {
		t.Fatalf("error %v, but output: %v", err, statErr)
	}
	if err != nil {
		return
	}
	if _, err := trace.Validate(t.Context(), out, func(e *trace.Error) bool { t.Error(e); return true }); err != nil {
		t.Error(err)
	}
}

// seeds adds the whole sample and a few damaged ones to the corpus.
func seeds(f *testing.F, name string) (o Options) {
	for _, s := range samples(f) {
		if s.name != name {
			continue
		}
		o = s.options
		f.Add(s.content)
		f.Add(s.content[:len(s.content)/2])
		f.Add(zipped(f, s.content))
	}
	return o
}

func FuzzSGLang(f *testing.F) {
	o := seeds(f, "sglang")
	f.Add([]byte(`{"meta_info":{"id":"a","prompt_tokens":1,"completion_tokens":2,"indexer_topk":"AAAAAP////8AAAAAAQAAAA=="}}`))
	f.Add([]byte(`[[{"meta_info":{"id":1,"prompt_tokens":-1,"completion_tokens":2,"indexer_topk":""}}],[]]`))
	f.Fuzz(func(t *testing.T, b []byte) { fuzzImport(t, o, b) })
}

func FuzzNPZ(f *testing.F) {
	o := seeds(f, "npz")
	f.Fuzz(func(t *testing.T, b []byte) { fuzzImport(t, o, b) })
}

func FuzzJSONL(f *testing.F) {
	f.Add([]byte(line(0, 11, "1,2", scored) + line(1, 12, "3,-1", `,"scores_topk":[1,2]`)))
	f.Add([]byte(line(-1, 10, "1,2", scored) + "\n" + line(0, 11, "3", `,"scores_topk":[null]`)))
	f.Add([]byte(line(0, 11, "2147483647", "") + line(2147483647, 1, "3", "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzImport(t, Options{}, b)
		fuzzImport(t, Options{PromptLen: 5, Meta: trace.Meta{Order: trace.OrderIndex}}, b)
	})
}

func FuzzArrow(f *testing.F) {
	seeds(f, "arrow file")
	seeds(f, "arrow stream")
	var s trace.Stream
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: 9})
	s.Append(trace.Row{Indices: []int32{3, 1}, Predicted: []int32{2}})
	for _, file := range []bool{false, true} {
		f.Add(arrowBytes(f, file, `{"version":1,"order":"rank","topk":1,"candidates":0,"block_tokens":1}`, []*trace.Stream{&s}))
	}
	f.Fuzz(func(t *testing.T, b []byte) { fuzzImport(t, Options{Meta: trace.Meta{Order: trace.OrderRank}}, b) })
}

func FuzzDetect(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(s.content[:min(len(s.content), 4096)])
	}
	for _, m := range magics {
		f.Add([]byte(m.bytes))
	}
	f.Add([]byte(`[[{"a":{"b":[1,{}]},"meta_info":0}]]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		format, err := sniff(bytes.NewReader(b))
		if (format == Unknown) != (err != nil) {
			t.Fatalf("format %v with error %v", format, err)
		}
		path := write(t, t.TempDir(), "x", b)
		if found, err := Detect(path); err == nil && !found.Gzip && found.Format != format {
			t.Fatalf("Detect finds %v, sniff %v", found, format)
		}
	})
}
