package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/kvreplay/kvreplay/internal/names"
)

// columnKinds are the physical types that format v1 asks for; lists have one leaf.
var columnKinds = [numColumns]parquet.Kind{
	colRequestID: parquet.ByteArray, colLayerID: parquet.Int32, colHead: parquet.Int32, colPromptLen: parquet.Int32,
	colStep: parquet.Int32, colSeqLen: parquet.Int32, colIndices: parquet.Int32, colScores: parquet.Float,
	colCoveredMass: parquet.Float, colAttentionMass: parquet.Float, colPredicted: parquet.Int32,
	colPromptMass: parquet.Float,
}

func isList(column int) bool {
	return column == colIndices || column == colScores || column == colAttentionMass || column == colPredicted || column == colPromptMass
}

func isOptional(column int) bool {
	return column == colHead || column >= colScores
}

// bindColumns finds the columns of the format in the file's schema.
func (f *File) bindColumns() error {
	for c := range f.leaves {
		f.leaves[c] = leaf{index: -1, name: columnNames[c]}
	}
	for _, path := range f.parquet.Schema().Columns() {
		if err := f.bindColumn(path); err != nil {
			return err
		}
	}
	for c, l := range f.leaves {
		if l.index < 0 && !isOptional(c) {
			return fileError(f.path, RuleSchema, "column %q is missing", columnNames[c])
		}
	}
	return nil
}

// keyProfile is in the metadata of a profile, which package replay writes.
const keyProfile = "kvreplay.profile"

// foreign adds to an error of a file that does not say that it is a trace what makes one of it.
func (f *File) foreign(err error) error {
	if _, ok := f.parquet.Lookup(keyMeta); ok {
		return err
	}
	if e := AsError(err); e != nil {
		if _, ok := f.parquet.Lookup(keyProfile); ok {
			e.Err = errors.New("is a profile of a replay, expected a trace; `kvreplay time` and `kvreplay plan` read profiles")
			return err
		}
		e.Err = fmt.Errorf("%w; the file has no %q entry in its key-value metadata, as a trace has (FORMAT.md): %w", e.Err, keyMeta, ErrForeign)
	}
	return err
}

func (f *File) bindColumn(path []string) error {
	column := slices.Index(columnNames[:], path[0])
	if column < 0 {
		return fileError(f.path, RuleSchema, "unknown column %.60q%s; format v1 has %s", strings.Join(path, "."), names.Nearest(path[0], columnNames[:]), strings.Join(columnNames[:], ", "))
	}
	if f.leaves[column].index >= 0 {
		return fileError(f.path, RuleSchema, "column %q has several leaves, expected one", path[0])
	}
	depth, rep, shape := 1, 0, "one value a row"
	if isList(column) {
		depth, rep, shape = 3, 1, "a list: optional group list (LIST) { repeated group { element } }"
	}
	found, _ := f.parquet.Schema().Lookup(path...)
	if len(path) != depth || found.MaxRepetitionLevel != rep {
		return fileError(f.path, RuleSchema, "column %q is %s with repetition level %d, expected %s", path[0], strings.Join(path, "."), found.MaxRepetitionLevel, shape)
	}
	if kind := found.Node.Type().Kind(); kind != columnKinds[column] || !plainType(found.Node.Type()) {
		want := columnKinds[column].String()
		if column == colRequestID {
			want = "STRING"
		}
		return fileError(f.path, RuleSchema, "column %q is %v, expected %s", path[0], found.Node.Type(), want)
	}
	l := leaf{index: found.ColumnIndex, name: columnNames[column], maxDef: byte(found.MaxDefinitionLevel), list: isList(column)}
	if l.list { // levels: [list optional] + repeated + [element optional]
		l.listDef = l.maxDef - 1
		if found.Node.Optional() {
			l.listDef--
		}
	}
	f.leaves[column] = l
	return nil
}

// plainType refuses logical types that change what a number means, unsigned, dates, times,
// and bytes that are not text.
func plainType(t parquet.Type) bool {
	if t.Kind() == parquet.ByteArray {
		if t.LogicalType() == nil {
			return false
		}
		_, text := t.LogicalType().Value.(*format.StringType)
		return text
	}
	if t.Kind() != parquet.Int32 || t.LogicalType() == nil {
		return true
	}
	i, ok := t.LogicalType().Value.(*format.IntType)
	return ok && i.IsSigned && i.BitWidth == 32
}

// bindMetadata reads the metadata, its digest and its seal.
func (f *File) bindMetadata() error {
	text, ok := f.parquet.Lookup(keyMeta)
	if !ok {
		return fileError(f.path, RuleMetadata, "nothing says how the lists were recorded")
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

// CheckSeal holds the seal that stands among a file's key-value metadata, if one does,
// against the trace's metadata and digest there.
func CheckSeal(lookup func(key string) (value string, ok bool)) error {
	text, _ := lookup(keyMeta)
	digest, _ := lookup(keyDigest)
	if stored, ok := lookup(keySeal); ok && stored != seal([]byte(text), digest) {
		return fmt.Errorf("metadata were altered after writing: seal %s, expected %s", stored, seal([]byte(text), digest))
	}
	return nil
}

// verifyUnchecked verifies against its digest what nothing else covers: pages without CRC,
// and without a seal the metadata and the digest, by which rows name the trace.
func (f *File) verifyUnchecked() error {
	if f.crc && (f.sealed || f.digest == "") {
		return nil
	}
	if f.digest == "" {
		return fileError(f.path, RuleChecksum,
			"pages carry no checksum and the metadata no digest, so damage would go unseen; write the file with page checksums (pyarrow: write_page_checksum=True) or make a trace of it by `kvreplay import`")
	}
	return f.Verify()
}
