package importer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// Every line of the JSONL is imported. The lists keep their order, because the real scores already
// fall. The scores are rounded to 10 bits.
func TestJSONLContent(t *testing.T) {
	text := unzip(t, read(t, "testdata/news.jsonl.gz"))
	result, streams := importAll(t, Options{Meta: trace.Meta{TopK: 256}}, "testdata/news.jsonl.gz")
	m := result.Meta
	if m.Order != trace.OrderRank || m.TopK != 256 || m.Candidates != 320 || result.Streams != 2 || result.Rows != 20 || result.Windows != 4 {
		t.Errorf("got %+v", result)
	}
	scan := bufio.NewScanner(bytes.NewReader(text))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var line struct {
			Layer  int32     `json:"layer_id"`
			Step   int32     `json:"step_idx"`
			Pos    []int32   `json:"selected_token_pos"`
			Scores []float32 `json:"scores_topk"`
		}
		fatal.If(t, json.Unmarshal(scan.Bytes(), &line))
		s := streams[line.Layer/15]
		row := slices.Index(s.Steps, line.Step)
		if s.Layer != line.Layer || s.PromptLen != 8192 || !slices.Equal(s.List(row), line.Pos) {
			t.Fatalf("layer %d step %d differs", line.Layer, line.Step)
		}
		for i, v := range line.Scores {
			if got := s.ScoreList(row)[i]; got != trace.RoundMantissa(v, 10) {
				t.Fatalf("layer %d step %d score %d: %v, wrote %v", line.Layer, line.Step, i, got, v)
			}
		}
	}
}

// Position p of the array is step p − prompt_tokens. Lists are sorted and have no padding.
func TestSGLangContent(t *testing.T) {
	var response struct {
		Meta struct {
			TopK string `json:"indexer_topk"`
		} `json:"meta_info"`
	}
	fatal.If(t, json.Unmarshal(unzip(t, read(t, "testdata/sglang.json.gz")), &response))
	raw, err := base64.StdEncoding.DecodeString(response.Meta.TopK)
	fatal.If(t, err)
	const prompt, rows, layers, topk = 72, 80, 3, 64
	result, streams := importAll(t, Options{}, "testdata/sglang.json.gz")
	if result.Meta.Order != trace.OrderIndex || result.Meta.TopK != topk || len(streams) != layers || result.First != -32 || result.Last != rows-prompt-1 {
		t.Errorf("got %+v", result)
	}
	for layer, s := range streams {
		for i, step := range s.Steps {
			var want []int32
			for k := range topk {
				at := ((prompt+int(step))*layers+layer)*topk + k
				if x := int32(binary.LittleEndian.Uint32(raw[4*at:])); x >= 0 {
					want = append(want, x)
				}
			}
			slices.Sort(want)
			if !slices.Equal(s.List(i), want) {
				t.Fatalf("layer %d step %d: %v, want %v", layer, step, s.List(i), want)
			}
		}
	}
}

// The first list equals the first bytes of the npz. Step 0 is the query at slot_ctx0.
func TestNPZContent(t *testing.T) {
	o := Options{RequestID: "niah", Meta: trace.Meta{Order: trace.OrderRank}}
	result, streams := importAll(t, o, "testdata/niah.npz")
	if result.Meta.TopK != 256 || result.Streams != 3 || result.First != 0 || result.Last != 7 {
		t.Errorf("got %+v", result)
	}
	first := streams[0].List(0)[:4] // the source has 4096, 4094, 4095, 4093
	if streams[0].PromptLen != 4096 || !slices.Equal(first, []int32{4096, 4094, 4095, 4093}) {
		t.Errorf("prompt %d, first list %v", streams[0].PromptLen, first)
	}
}

// The name of a source and gzip compression do not change the result.
func TestGzipAndNames(t *testing.T) {
	for _, s := range samples(t) {
		dir := t.TempDir()
		plain, _ := importAll(t, s.options, write(t, dir, "x.npz", s.content))
		packed, _ := importAll(t, s.options, write(t, dir, "x.parquet", zipped(t, s.content)))
		if plain.Digest != packed.Digest || !strings.Contains(packed.Sources[0], "(gzip)") {
			t.Errorf("%s: digest %s plain, %s gzip'ed (%v)", s.name, plain.Digest, packed.Digest, packed.Sources)
		}
	}
}

// Arrow and Parquet with the rows of the JSONL give the same trace.
func TestSameContentSameDigest(t *testing.T) {
	want := ""
	for _, s := range samples(t) {
		if s.name == "sglang" || s.name == "npz" {
			continue
		}
		result, _ := importAll(t, s.options, write(t, t.TempDir(), "x", s.content))
		if want == "" {
			want = result.Digest
		}
		if result.Digest != want {
			t.Errorf("%s: digest %s, jsonl has %s", s.name, result.Digest, want)
		}
	}
}

// The order of lines and the memory limit do not change the trace. Temporary files are removed.
func TestOrderAndMemory(t *testing.T) {
	lines := bytes.SplitAfter(unzip(t, read(t, "testdata/news.jsonl.gz")), []byte("\n"))
	lines = lines[:len(lines)-1]
	var many [][]byte // 40 requests, so that entries also overflow
	for i := range 40 {
		for _, line := range lines {
			many = append(many, bytes.Replace(line, []byte("9be57ba6"), []byte{byte('a' + i%26), byte('a' + i/26)}, 1))
		}
	}
	want := ""
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 7))
		r.Shuffle(len(many), func(i, j int) { many[i], many[j] = many[j], many[i] })
		path := write(t, t.TempDir(), "shuffled", bytes.Join(many, nil))
		o := Options{Tmp: t.TempDir()}
		if seed%2 == 1 {
			o.Memory = minMemory
		}
		result, _ := importAll(t, o, path)
		if want == "" {
			want = result.Digest
		}
		if result.Digest != want || result.Requests != 40 {
			t.Errorf("seed %d: digest %s, want %s; %d requests", seed, result.Digest, want, result.Requests)
		}
		if left, _ := os.ReadDir(o.Tmp); len(left) > 0 {
			t.Errorf("seed %d: temporary files left: %v", seed, left)
		}
	}
}

// Several files make one trace. The same file twice is a duplicate.
func TestSeveralSources(t *testing.T) {
	dir := t.TempDir()
	lines := bytes.SplitAfter(unzip(t, read(t, "testdata/news.jsonl.gz")), []byte("\n"))
	a, b := write(t, dir, "a", bytes.Join(lines[:7], nil)), write(t, dir, "b", bytes.Join(lines[7:], nil))
	whole, _ := importAll(t, Options{}, "testdata/news.jsonl.gz")
	parts, _ := importAll(t, Options{}, b, a)
	if whole.Digest != parts.Digest {
		t.Errorf("digest %s whole, %s of parts", whole.Digest, parts.Digest)
	}
	mustFail(t, Options{}, []string{a + ": line 1", "is also at", "step -4"}, a, b, a)
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	if _, err := Import(ctx, Options{}, filepath.Join(dir, "x.parquet"), "testdata/news.jsonl.gz"); err == nil {
		t.Error("a cancelled import succeeded")
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// An import of an npz, which is held in memory whole, stops in the middle if ctx ends.
func TestCancelledInArray(t *testing.T) {
	text := read(t, "testdata/niah.npz")
	for reads := range 8 {
		ctx, cancel := context.WithCancel(t.Context())
		file := &countedReads{bytes.NewReader(text), reads, cancel}
		if _, _, err := readNPZ(stoppable{ctx, file}, int64(len(text)), 1<<20); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d reads: %v", reads, err)
		}
		if file.left < -1 {
			t.Errorf("after %d reads: %d more", reads, -file.left)
		}
	}
}

// countedReads ends a context at its last read.
type countedReads struct {
	io.ReaderAt
	left int
	end  func()
}

func (c *countedReads) ReadAt(p []byte, at int64) (int, error) {
	if c.left--; c.left <= 0 {
		c.end()
	}
	return c.ReaderAt.ReadAt(p, at)
}

// pyarrow writes dictionaries, 64-bit integers, a double head with NaN, fixed-size lists and
// compressed buffers. The trace equals that of the lines they were made from.
func TestPyarrow(t *testing.T) {
	var lines [][]byte
	for _, line := range bytes.SplitAfter(unzip(t, read(t, "testdata/news.jsonl.gz")), []byte("\n")) {
		for _, step := range []string{"-1", "0", "1"} {
			if bytes.Contains(line, []byte(`"step_idx":`+step+`,`)) {
				lines = append(lines, line)
			}
		}
	}
	want, _ := importAll(t, Options{}, write(t, t.TempDir(), "lines", bytes.Join(lines, nil)))
	for _, name := range []string{"pyarrow.arrow", "pyarrow.stream", "pyarrow.parquet"} {
		got, _ := importAll(t, Options{}, filepath.Join("testdata", name))
		if got.Digest != want.Digest {
			t.Errorf("%s: digest %s, want %s", name, got.Digest, want.Digest)
		}
		unchecked := strings.Contains(strings.Join(got.Warnings, "\n"), "have no checksums")
		if unchecked != (name == "pyarrow.parquet") {
			t.Errorf("%s: warnings %q", name, got.Warnings)
		}
	}
}

// Progress counts the records that are read, then those that are written. It ends at the total.
func TestProgress(t *testing.T) {
	var all [][2]int64
	result, _ := importAll(t, Options{Progress: func(read, written int64) { all = append(all, [2]int64{read, written}) }}, "../../datasets/bundled/smollm2_multi_news_8k.parquet")
	last := [2]int64{0, 0}
	for _, now := range all {
		if now[0] < last[0] || now[1] < last[1] || now[1] > now[0] || last[1] > 0 && now[0] != last[0] {
			t.Errorf("after %v read and written comes %v", last, now)
		}
		last = now
	}
	if last[0] != last[1] || last[1] != result.Rows || len(all) < 4 || all[0][1] > 0 {
		t.Errorf("%v, of %d rows", all, result.Rows)
	}
}
