package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/trace/parquet"
)

// fileRow is the Parquet schema of format v1, in column order. Every file that this package writes
// has all columns. An optional column without values is all null and takes almost no space. Files
// of other writers may lack it.
type fileRow struct {
	RequestID     string    `parquet:"request_id,dict"`
	LayerID       int32     `parquet:"layer_id,dict"`
	Head          *int32    `parquet:"head,optional,dict"`
	PromptLen     int32     `parquet:"prompt_len,dict"`
	Step          int32     `parquet:"step,delta"`
	SeqLen        int32     `parquet:"seq_len,delta"`
	TopKIndices   []int32   `parquet:"topk_indices,list" parquet-element:",delta"`
	Scores        []float32 `parquet:"scores,optional,list" parquet-element:",split,zstd"`
	CoveredMass   *float32  `parquet:"covered_mass,optional"`
	AttentionMass []float32 `parquet:"attention_mass,optional,list" parquet-element:",split,zstd"`
	Predicted     []int32   `parquet:"predicted_indices,optional,list" parquet-element:",delta"`
	PromptMass    []float32 `parquet:"prompt_mass,optional,list" parquet-element:",split,zstd"`
}

// The columns of format v1, in the order of files.
const (
	ColRequestID = iota
	ColLayerID
	ColHead
	ColPromptLen
	ColStep
	ColSeqLen
	ColIndices
	ColScores
	ColCoveredMass
	ColAttentionMass
	ColPredicted
	ColPromptMass
	NumColumns
)

// ColumnNames are the names of the columns.
var ColumnNames = [NumColumns]string{
	"request_id", "layer_id", "head", "prompt_len", "step", "seq_len",
	"topk_indices", "scores", "covered_mass", "attention_mass", "predicted_indices", "prompt_mass",
}

// Keys of the file's key-value metadata.
const (
	keyMeta   = "kvreplay"
	keyDigest = "kvreplay.digest"
	keySeal   = "kvreplay.seal"

	keyStreams = "kvreplay.streams"
)

// columnKinds are the physical types that format v1 requires. Lists have one leaf.
var columnKinds = [NumColumns]parquetgo.Kind{
	ColRequestID: parquetgo.ByteArray, ColLayerID: parquetgo.Int32, ColHead: parquetgo.Int32, ColPromptLen: parquetgo.Int32,
	ColStep: parquetgo.Int32, ColSeqLen: parquetgo.Int32, ColIndices: parquetgo.Int32, ColScores: parquetgo.Float,
	ColCoveredMass: parquetgo.Float, ColAttentionMass: parquetgo.Float, ColPredicted: parquetgo.Int32,
	ColPromptMass: parquetgo.Float,
}

// IsList reports whether a column holds lists.
func IsList(column int) bool {
	return column == ColIndices || column == ColScores || column == ColAttentionMass || column == ColPredicted || column == ColPromptMass
}

// bindColumns finds the columns of the format in the file's schema.
func (f *File) bindColumns() error {
	for i, path := range f.parquet.Schema().Columns() {
		if err := f.bindColumn(path, &f.parquet.Leaves[i]); err != nil {
			return err
		}
	}
	for c, l := range f.leaves {
		if l == nil && !(c == ColHead || c >= ColScores) {
			return fileError(f.path, RuleSchema, "column %q is missing", ColumnNames[c])
		}
	}
	return nil
}

// keyProfile is a metadata key of the profiles that package replay writes.
const keyProfile = "kvreplay.profile"

// foreign adds a remedy to an error of a file without trace metadata.
func (f *File) foreign(err error) error {
	if _, ok := f.parquet.Lookup(keyMeta); ok {
		return err
	}
	if e := AsError(err); e != nil {
		if _, ok := f.parquet.Lookup(keyProfile); ok {
			e.Err = errors.New("is a replay profile, expected a trace. `kvreplay time` and `kvreplay plan` read profiles")
			return err
		}
		e.Err = fmt.Errorf("%w. The file has no metadata key %q, which a trace needs (FORMAT.md). %w", e.Err, keyMeta, ErrForeign)
	}
	return err
}

func (f *File) bindColumn(path []string, leaf *parquet.Leaf) error {
	column := slices.Index(ColumnNames[:], path[0])
	if column < 0 {
		return fileError(f.path, RuleSchema, "unknown column %.60q%s (format v1 has %s)", strings.Join(path, "."), names.Nearest(path[0], ColumnNames[:]), strings.Join(ColumnNames[:], ", "))
	}
	if f.leaves[column] != nil {
		return fileError(f.path, RuleSchema, "column %q has several leaves, expected one", path[0])
	}
	depth, rep, shape := 1, 0, "one value per row"
	if IsList(column) {
		depth, rep, shape = 3, 1, "a list: optional group list (LIST) { repeated group { element } }"
	}
	found, _ := f.parquet.Schema().Lookup(path...)
	if len(path) != depth || found.MaxRepetitionLevel != rep {
		return fileError(f.path, RuleSchema, "column %q is %s with repetition level %d, expected %s", path[0], strings.Join(path, "."), found.MaxRepetitionLevel, shape)
	}
	if kind := found.Node.Type().Kind(); kind != columnKinds[column] || !plainType(found.Node.Type()) {
		want := columnKinds[column].String()
		if column == ColRequestID {
			want = "STRING"
		}
		return fileError(f.path, RuleSchema, "column %q is %v, expected %s", path[0], found.Node.Type(), want)
	}
	f.leaves[column] = leaf
	return nil
}

// plainType refuses logical types that change the meaning of a number: unsigned, dates and times.
// It also refuses bytes that are not text.
func plainType(t parquetgo.Type) bool {
	if t.Kind() == parquetgo.ByteArray {
		if t.LogicalType() == nil {
			return false
		}
		_, text := t.LogicalType().Value.(*format.StringType)
		return text
	}
	if t.Kind() != parquetgo.Int32 || t.LogicalType() == nil {
		return true
	}
	i, ok := t.LogicalType().Value.(*format.IntType)
	return ok && i.IsSigned && i.BitWidth == 32
}

// bindMetadata reads the metadata, its digest and its seal.
func (f *File) bindMetadata() error {
	text, ok := f.parquet.Lookup(keyMeta)
	if !ok {
		return fileError(f.path, RuleMetadata, "the trace metadata is missing")
	}
	meta, err := ParseMeta([]byte(text))
	if err != nil {
		return fileError(f.path, RuleMetadata, "%w", err)
	}
	f.meta = meta
	f.digest, _ = f.parquet.Lookup(keyDigest)
	_, f.sealed = f.parquet.Lookup(keySeal)
	if err := CheckSeal(f.parquet.Lookup); err != nil {
		return fileError(f.path, RuleDigest, "%w", err)
	}
	return nil
}

// CheckSeal compares the seal in a file's key-value metadata, if one exists, with the trace's
// metadata and digest there.
func CheckSeal(lookup func(key string) (value string, ok bool)) error {
	text, _ := lookup(keyMeta)
	digest, _ := lookup(keyDigest)
	if stored, ok := lookup(keySeal); ok && stored != seal(text, digest) {
		return fmt.Errorf("metadata were altered after writing: seal %s, expected %s", stored, seal(text, digest))
	}
	return nil
}

// verifyDigest verifies the parts that no checksum covers against the digest. These are pages
// without CRC and, without a seal, the metadata and the digest that names the trace.
func (f *File) verifyDigest() error {
	if f.digest == "" {
		return fileError(f.path, RuleChecksum,
			"no page checksums and no digest to detect damage. Write checksums (pyarrow: write_page_checksum=True) or run `kvreplay import`")
	}
	return f.Verify()
}
