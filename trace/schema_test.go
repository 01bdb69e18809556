package trace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// Files with another schema are refused. The message names the column and the expected type.
func TestSchemaViolations(t *testing.T) {
	meta := map[string]string{"kvreplay": rawMeta}
	type keys struct {
		RequestID string `parquet:"request_id"`
		LayerID   int32  `parquet:"layer_id"`
		PromptLen int32  `parquet:"prompt_len"`
		Step      int32  `parquet:"step"`
		SeqLen    int32  `parquet:"seq_len"`
	}
	type list struct {
		TopKIndices []int32 `parquet:"topk_indices,list"`
	}
	cases := []struct{ name, path, text string }{
		{"foreign", writeRaw(t, nil, []struct {
			LayerID int64 `parquet:"layer_id"`
		}{{}}), `column "layer_id" is INT(64,true), expected INT32. The file has no metadata key "kvreplay", which a trace needs (FORMAT.md). ` + "`kvreplay import` makes traces of other files"},
		{"missing column", writeRaw(t, meta, []keys{{}}), `column "topk_indices" is missing`},
		{"unknown column", writeRaw(t, meta, []struct {
			keys
			list
			Extra int32 `parquet:"importance"`
		}{{}}), `unknown column "importance"`},
		{"int64 list", writeRaw(t, meta, []struct {
			keys
			TopKIndices []int64 `parquet:"topk_indices,list"`
		}{{}}), `column "topk_indices" is INT(64,true), expected INT32`},
		{"int64 key", writeRaw(t, meta, []struct {
			list
			keys
			Head int64 `parquet:"head"`
		}{{}}), `column "head" is`},
		{"unsigned list", writeRaw(t, meta, []struct {
			keys
			TopKIndices []uint32 `parquet:"topk_indices,list"`
		}{{}}), `column "topk_indices" is INT(32,false), expected INT32`},
		{"bytes as id", writeRaw(t, meta, []struct {
			RequestID []byte `parquet:"request_id"`
			list
		}{{}}), `column "request_id" is BYTE_ARRAY, expected STRING`},
		{"double scores", writeRaw(t, meta, []struct {
			keys
			list
			Scores []float64 `parquet:"scores,list"`
		}{{}}), `column "scores" is DOUBLE, expected FLOAT`},
		{"no list", writeRaw(t, meta, []struct {
			keys
			TopKIndices int32 `parquet:"topk_indices"`
		}{{}}), `expected a list`},
		{"struct", writeRaw(t, meta, []struct {
			keys
			list
			Head struct{ Index, Group int32 } `parquet:"head"`
		}{{}}), `column "head"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { expectRule(t, c.path, trace.RuleSchema, c.text) })
	}
}

// A null inside or instead of a list is an error.
func TestNullsInLists(t *testing.T) {
	type row struct {
		RequestID   string   `parquet:"request_id"`
		LayerID     int32    `parquet:"layer_id"`
		PromptLen   int32    `parquet:"prompt_len"`
		Step        int32    `parquet:"step"`
		SeqLen      int32    `parquet:"seq_len"`
		TopKIndices []*int32 `parquet:"topk_indices,optional,list"`
	}
	meta := map[string]string{"kvreplay": rawMeta}
	good := row{RequestID: "a", PromptLen: 10, SeqLen: 11, TopKIndices: []*int32{ptr(int32(3)), ptr(int32(1))}}
	if rules, messages := violated(t, writeRaw(t, meta, []row{good})); rules != nil {
		t.Errorf("nullable but filled lists break %q:\n%s", rules, messages)
	}
	null := good
	null.TopKIndices = []*int32{ptr(int32(3)), nil}
	expectRule(t, writeRaw(t, meta, []row{null}), trace.RuleList, "row 0: request \"a\" layer 0 step 0: column topk_indices: a null inside a list")
	null.TopKIndices = nil
	expectRule(t, writeRaw(t, meta, []row{null}), trace.RuleList, "empty")
}

// The error for a file that is not a trace says so.
func TestNotATrace(t *testing.T) {
	dir := t.TempDir()
	empty, text := filepath.Join(dir, "empty.parquet"), filepath.Join(dir, "text.jsonl")
	for path, content := range map[string]string{empty: "", text: "{\"layer\": 3}\n"} {
		fatal.If(t, os.WriteFile(path, []byte(content), 0o600))
	}
	expectRule(t, empty, trace.RuleFile, "is empty")
	expectRule(t, text, trace.RuleFile, "is not a Parquet file")
	expectRule(t, dir, trace.RuleFile, "is a folder")
	if _, err := trace.Open(filepath.Join(dir, "missing.parquet")); !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("a missing file: %v", err)
	}
	if os.Geteuid() == 0 {
		t.Skip("root reads files without permission")
	}
	secret := filepath.Join(dir, "secret.parquet")
	fatal.If(t, os.WriteFile(secret, []byte("PAR1"), 0))
	if _, err := trace.Open(secret); !os.IsPermission(unwrapAll(err)) {
		t.Errorf("a file without permission: %v", err)
	}
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok || u.Unwrap() == nil {
			return err
		}
		err = u.Unwrap()
	}
}

// Files with a compression that the library cannot read are refused.
func TestCodecs(t *testing.T) {
	for name, codec := range map[string]parquet.WriterOption{
		"snappy": parquet.Compression(&parquet.Snappy), "zstd": parquet.Compression(&parquet.Zstd),
		"gzip": parquet.Compression(&parquet.Gzip), "brotli": parquet.Compression(&parquet.Brotli),
	} {
		if rules, messages := violated(t, writeRawWith(t, codec)); rules != nil {
			t.Errorf("%s breaks %q:\n%s", name, rules, messages)
		}
	}
	expectRule(t, writeRawWith(t, parquet.Compression(&parquet.Lz4Raw)), trace.RuleFile, "compression LZ4_RAW")
}

// A column that is null throughout may have a dictionary of no bytes, whose CRC-32 is 0.
func TestEmptyDictionary(t *testing.T) {
	type row struct {
		RequestID   string  `parquet:"request_id"`
		LayerID     int32   `parquet:"layer_id"`
		Head        *int32  `parquet:"head,optional,dict"`
		PromptLen   int32   `parquet:"prompt_len"`
		Step        int32   `parquet:"step"`
		SeqLen      int32   `parquet:"seq_len"`
		TopKIndices []int32 `parquet:"topk_indices,list"`
	}
	path := writeRaw(t, map[string]string{"kvreplay": rawMeta}, []row{{RequestID: "a", PromptLen: 10, SeqLen: 11, TopKIndices: []int32{3, 1}}})
	if rules, messages := violated(t, path); rules != nil {
		t.Errorf("a file without heads breaks %q:\n%s", rules, messages)
	}
}

func writeRawWith(t *testing.T, option parquet.WriterOption) string {
	path := filepath.Join(t.TempDir(), "c.parquet")
	file, err := os.Create(path)
	fatal.If(t, err)
	defer file.Close()
	w := parquet.NewGenericWriter[rawRow](file, option, parquet.KeyValueMetadata("kvreplay", rawMeta))
	if _, err := w.Write(goodRows()); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, w.Close())
	return path
}
