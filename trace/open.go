package trace

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// columnKinds are the physical types that format v1 asks for; lists have one leaf.
var columnKinds = [numColumns]parquet.Kind{
	colRequestID: parquet.ByteArray, colLayerID: parquet.Int32, colHead: parquet.Int32, colPromptLen: parquet.Int32,
	colStep: parquet.Int32, colSeqLen: parquet.Int32, colIndices: parquet.Int32, colScores: parquet.Float,
	colCoveredMass: parquet.Float, colAttentionMass: parquet.Float, colPredicted: parquet.Int32,
}

func isList(column int) bool {
	return column == colIndices || column == colScores || column == colAttentionMass || column == colPredicted
}

func isOptional(column int) bool {
	return column == colHead || column >= colScores
}

// bindColumns finds the columns of the format in the file's schema.
func (f *File) bindColumns() error {
	for c := range f.leaves {
		f.leaves[c] = leaf{index: -1, name: columnNames[c]}
	}
	schema := f.parquet.Schema()
	for _, path := range schema.Columns() {
		column := -1
		for c, name := range columnNames {
			if path[0] == name {
				column = c
			}
		}
		if column < 0 {
			return fileError(f.path, RuleSchema, "unknown column %q, format v1 has %s", strings.Join(path, "."), strings.Join(columnNames[:], ", "))
		}
		found, _ := schema.Lookup(path...)
		if f.leaves[column].index >= 0 {
			return fileError(f.path, RuleSchema, "column %q has several leaves, expected one", columnNames[column])
		}
		if kind := found.Node.Type().Kind(); kind != columnKinds[column] {
			return fileError(f.path, RuleSchema, "column %q is %v, expected %v", columnNames[column], kind, columnKinds[column])
		}
		wantRep := 0
		if isList(column) {
			wantRep = 1
		}
		if found.MaxRepetitionLevel != wantRep {
			return fileError(f.path, RuleSchema, "column %q has repetition level %d, expected %d (%s)", columnNames[column], found.MaxRepetitionLevel, wantRep,
				map[bool]string{true: "a list", false: "one value a row"}[wantRep == 1])
		}
		l := leaf{index: found.ColumnIndex, name: columnNames[column], maxDef: byte(found.MaxDefinitionLevel)}
		if isList(column) { // levels: [list optional] + repeated + [element optional]
			if top, ok := schema.Lookup(path...); ok && top.Node.Optional() {
				l.listDef = l.maxDef - 2
			} else {
				l.listDef = l.maxDef - 1
			}
		}
		f.leaves[column] = l
	}
	for c, l := range f.leaves {
		if l.index < 0 && !isOptional(c) {
			return fileError(f.path, RuleSchema, "column %q is missing; is this a trace? Foreign files become traces by `kvreplay import`", columnNames[c])
		}
	}
	return nil
}

// bindMetadata reads the metadata, its digest and its seal.
func (f *File) bindMetadata() error {
	text, ok := f.parquet.Lookup(keyMeta)
	if !ok {
		return fileError(f.path, RuleMetadata, "no %q entry in the key-value metadata, a trace has one (FORMAT.md)", keyMeta)
	}
	meta, err := ParseMeta([]byte(text))
	if err != nil {
		return fileError(f.path, RuleMetadata, "%w", err)
	}
	f.meta = meta
	f.digest, _ = f.parquet.Lookup(keyDigest)
	if stored, ok := f.parquet.Lookup(keySeal); ok && stored != seal([]byte(text), f.digest) {
		return fileError(f.path, RuleDigest, "metadata were altered after writing: seal %s, expected %s", stored, seal([]byte(text), f.digest))
	}
	return nil
}

// probeChecksums reads the header of each column chunk's first page and reports
// whether all have a CRC.
func (f *File) probeChecksums() (all bool, err error) {
	all = true
	var protocol thrift.CompactProtocol
	for _, g := range f.parquet.Metadata().RowGroups {
		for i := range g.Columns {
			c := &g.Columns[i].MetaData
			at := c.DataPageOffset
			if c.DictionaryPageOffset > 0 {
				at = min(at, c.DictionaryPageOffset)
			}
			var header format.PageHeader
			section := bufio.NewReaderSize(io.NewSectionReader(f.os, at, c.TotalCompressedSize), 512)
			if err := guard(func() error { return thrift.NewDecoder(protocol.NewReader(section)).Decode(&header) }); err != nil {
				return false, fmt.Errorf("page header at byte %d: %w", at, err)
			}
			all = all && header.CRC != 0
		}
	}
	return all, nil
}

// verifyUnchecked verifies a file whose pages carry no CRC against its digest.
func (f *File) verifyUnchecked() error {
	if f.digest == "" {
		return fileError(f.path, RuleChecksum,
			"pages carry no checksum and the metadata no digest, so damage would go unseen; write the file with page checksums (pyarrow: write_page_checksum=True) or make a trace of it by `kvreplay import`")
	}
	return f.Verify()
}
