package tokens

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// TestGolden: testdata/NAME.json are two small files from the tokenizers library (0.23.3), by the
// forms of the same name in testdata/peer.py. golden.json has the ids and the text that the library
// gave. If Python is available, TestPeers compares many more.
func TestGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/golden.json")
	fatal.If(t, err)
	var golden map[string][][3]json.RawMessage
	fatal.If(t, json.Unmarshal(text, &golden))
	for name, rows := range golden {
		tok, err := Open(filepath.Join("testdata", name+".json"))
		fatal.If(t, err)
		for _, row := range rows {
			var given, want string
			var ids []int
			for i, to := range []any{&given, &ids, &want} {
				fatal.If(t, json.Unmarshal(row[i], to))
			}
			if got := tok.Encode(given); !slices.Equal(got, ids) || Count(tok, given) != len(ids) {
				t.Errorf("%s: %q became %v, want %v", name, given, got, ids)
			}
			if got, err := tok.Decode(ids); err != nil || got != want {
				t.Errorf("%s: %v decoded to %q, %v, want %q", name, ids, got, err, want)
			}
		}
	}
}

// TestFolder: a folder is opened by the tokenizer.json in it, and the name is the content's.
func TestFolder(t *testing.T) {
	text, err := os.ReadFile("testdata/llama3.json")
	fatal.If(t, err)
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), text, 0o644))
	here, err := Open("testdata/llama3.json")
	fatal.If(t, err)
	there, err := Open(dir)
	fatal.If(t, err)
	if here.Name() != there.Name() || !strings.HasPrefix(here.Name(), "tokenizer.json:sha256:") || strings.Contains(there.Name(), dir) {
		t.Errorf("names %q and %q", here.Name(), there.Name())
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("empty folder: %v", err)
	}
}

func TestRefused(t *testing.T) {
	const model = `"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}`
	for text, want := range map[string]string{
		"":    "expected a tokenizer.json",
		"[1]": "expected a tokenizer.json",
		"{}":  `no key "model"`,
		`{"model":{"type":"Unigram","vocab":[["a",0]]}}`:                                                 `type "Unigram", expected BPE`,
		`{"model":{"type":"WordPiece","vocab":{"a":0}}}`:                                                 `type "WordPiece", expected BPE`,
		`{"model":{"type":"BPE","vocab":{},"merges":[]}}`:                                                "vocab is empty",
		`{"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}}`:                                          "id -1",
		`{"model":{"type":"BPE","vocab":{"a":9999999999},"merges":[]}}`:                                  "id 9999999999",
		`{"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}}`:                                     "id 0 is shared by",
		`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}}`:                                        "has 1 parts",
		`{"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","b"]]}}`:                                  `merge 0 of "a" and "b"`,
		`{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"end_of_word_suffix":"</w>"}}`:               "end_of_word_suffix",
		`{` + model + `,"normalizer":{"type":"BertNormalizer"}}`:                                         `normalizer "BertNormalizer"`,
		`{` + model + `,"normalizer":{"type":"Replace","pattern":{"Regex":"a"},"content":"b"}}`:          "with a regular expression",
		`{` + model + `,"pre_tokenizer":{"type":"UnicodeScripts"}}`:                                      `pre_tokenizer "UnicodeScripts"`,
		`{` + model + `,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"}}`: `expression "("`,
		`{` + model + `,"pre_tokenizer":{"type":"Split","pattern":{"String":" "},"behavior":"Odd"}}`:     `behavior "Odd"`,
		`{` + model + `,"pre_tokenizer":{"type":"Split","behavior":"Isolated"}}`:                         "without a pattern",
		`{` + model + `,"decoder":{"type":"CTC"}}`:                                                       `decoder "CTC"`,
		`{` + model + `,"added_tokens":[{"id":-4,"content":"x"}]}`:                                       "id -4",
		`{` + model + `,"added_tokens":[{"id":4,"content":"x","single_word":true}]}`:                     "single words",
	} {
		path := filepath.Join(t.TempDir(), "bad.json")
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "bad.json") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestDecodeUnknown: ids that the vocabulary does not have are errors, not text.
func TestDecodeUnknown(t *testing.T) {
	tok, err := Open("testdata/llama3.json")
	fatal.If(t, err)
	for _, id := range []int{-1, 1 << 30} {
		if _, err := tok.Decode([]int{id}); err == nil {
			t.Errorf("decoded %d", id)
		}
	}
}

// FuzzFile: a file is refused or tokenizes any text without a panic, into ids that decode.
func FuzzFile(f *testing.F) {
	const model = `{"model":{"vocab":{"a":0,"b":1,"ab":2,"Ġ":3},"merges":["a b"]`
	for _, rest := range []string{
		`},"added_tokens":[{"id":7,"content":"q","lstrip":true}]}`,
		`},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"ByteLevel"}]}}`,
		`},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a+"},"behavior":"MergedWithNext","invert":true}}`,
		`,"byte_fallback":true,"unk_token":"a"},"normalizer":{"type":"Prepend","prepend":"_"},"decoder":{"type":"Fuse"}}`,
		`},"pre_tokenizer":{"type":"Metaspace","replacement":"_"},"decoder":{"type":"Metaspace","replacement":"_"}}`,
	} {
		f.Add([]byte(model+rest), "ab q1\u00e9")
	}
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		if len(file) > 1<<12 || len(text) > 1<<10 {
			return
		}
		tok, err := parseFile(file)
		if err != nil {
			return
		}
		ids := tok.Encode(text)
		if n := Count(tok, text); n != len(ids) {
			t.Errorf("%d ids, counted %d", len(ids), n)
		}
		if _, err := tok.Decode(ids); err != nil {
			t.Error(err)
		}
	})
}

// FuzzBuiltin checks that decoding inverts encoding.
func FuzzBuiltin(f *testing.F) {
	f.Add("hello \u4e16\u754c\n\n \t<|endoftext|>\x7f\x00")
	list := []Tokenizer{builtin(builtinNames[0]), builtin(builtinNames[1])}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range list {
			want := strings.ToValidUTF8(text, "\uFFFD")
			if got, err := tok.Decode(tok.Encode(text)); err != nil || got != want {
				t.Errorf("%s: %q became %q, %v", tok.Name(), want, got, err)
			}
		}
	})
}

func BenchmarkCount(b *testing.B) {
	text, err := os.ReadFile("../../LICENSE")
	fatal.If(b, err)
	for _, name := range []string{"cl100k_base", "o200k_base", "testdata/llama3.json", "testdata/llama2.json"} {
		b.Run(filepath.Base(name), func(b *testing.B) {
			tok, err := Open(name)
			fatal.If(b, err)
			b.SetBytes(int64(len(text)))
			n := 0
			for b.Loop() {
				n += Count(tok, string(text))
			}
			b.ReportMetric(float64(n)/1e6/b.Elapsed().Seconds(), "Mtokens/s")
		})
	}
}
