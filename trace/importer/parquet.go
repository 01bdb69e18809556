package importer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
	hardened "github.com/kvreplay/kvreplay/trace/parquet"
)

// decodeParquet reads a Parquet table of any writer, row by row.
func decodeParquet(s *source, c *collector) error {
	file, size, err := s.randomAccess()
	if err != nil {
		return err
	}
	opened, err := hardened.Open(file, size)
	if err != nil {
		return fmt.Errorf("damaged or cut off (a Parquet file ends in its directory): %w", err)
	}
	pf := opened.File
	if err := checkCodecs(pf); err != nil {
		return err
	}
	if err := checkIntegrity(s, c, opened, file, size); err != nil {
		return err
	}
	names := slice.Map(pf.Schema().Fields(), func(f parquet.Field) string { return f.Name() })
	t, err := newTable(s, c, names, pf.Lookup)
	if err != nil {
		return err
	}
	leaves, err := bindLeaves(pf)
	if err != nil {
		return err
	}
	for _, group := range pf.RowGroups() {
		if group.NumRows() == 0 {
			continue
		}
		if err := t.addGroup(group, leaves); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) addGroup(group parquet.RowGroup, leaves []parquetLeaf) error {
	rows := group.Rows()
	defer rows.Close()
	var buf [16]parquet.Row
	for {
		n, err := rows.ReadRows(buf[:])
		for _, row := range buf[:n] {
			if err := t.add(func(c *cells) error { return c.fillParquet(row, leaves) }); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return t.source.errorAt(t.row+1, "damaged: %w", err)
		}
	}
}

// checkCodecs reports a compression that the library may decode to wrong values.
func checkCodecs(pf *parquet.File) error {
	for _, g := range pf.Metadata().RowGroups {
		for i := range g.Columns {
			if err := hardened.CheckCodec(&g.Columns[i].MetaData); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkIntegrity verifies a trace that states a digest, and checks a seal and page headers. It
// warns if nothing would reveal damaged pages.
func checkIntegrity(s *source, c *collector, opened *hardened.File, file io.ReaderAt, size int64) error {
	if err := trace.CheckSeal(opened.Lookup); err != nil {
		return err
	}
	if _, stated := opened.Lookup(metaKey + ".digest"); stated {
		f, err := trace.OpenReader(s.path, file, size)
		if err != nil {
			return err
		}
		return f.Verify()
	}
	all, err := opened.CheckPages(true)
	if err != nil {
		return fmt.Errorf("damaged, or not readable by Go's Parquet library: %w", err)
	}
	if !all {
		c.warn("%s: its pages have no checksums to detect damage. Write them (pyarrow: write_page_checksum=True)", s.path)
	}
	return nil
}

// bindLeaves maps each leaf column of the file to a column of the trace.
func bindLeaves(pf *parquet.File) (leaves []parquetLeaf, err error) {
	var bound [trace.NumColumns]bool
	elements := slices.DeleteFunc(slices.Clone(pf.Metadata().Schema), func(e format.SchemaElement) bool { return !e.Type.Valid })
	for i, path := range pf.Schema().Columns() {
		leaf, err := bindLeaf(pf.Schema(), path, &elements[i])
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", path[0], err)
		}
		if leaf.column >= 0 && bound[leaf.column] {
			return nil, fmt.Errorf("column %s: holds several values side by side (%s is one), expected one, or one list", path[0], strings.Join(path, "."))
		}
		if leaf.column >= 0 {
			bound[leaf.column] = true
		}
		leaves = append(leaves, leaf)
	}
	return leaves, nil
}

// parquetLeaf maps a leaf column of the file to a column of the trace.
type parquetLeaf struct {
	column  int // index in trace.ColumnNames, -1 if it is not read
	list    bool
	present int // definition level from which the list exists, perhaps empty
	element int // definition level of an element that may be null
	// unsigned is set if numbers below 0 stand for unsigned ones above the largest signed number.
	unsigned bool
}

// bindLeaf maps the leaf column at path, which the file declares as element.
func bindLeaf(schema *parquet.Schema, path []string, element *format.SchemaElement) (parquetLeaf, error) {
	leaf := parquetLeaf{}
	if leaf.column = slices.Index(trace.ColumnNames[:], path[0]); leaf.column < 0 {
		return leaf, nil
	}
	found, _ := schema.Lookup(path...)
	leaf.list = trace.IsList(leaf.column)
	if isOptional(leaf.column) && len(path) == 1 && isLogical[*format.NullType](found.Node.Type()) {
		leaf.column = -1 // pandas and pyarrow write this for a column of None, which counts as absent
		return leaf, nil
	}
	depth, rep, shape := 1, 0, "one value per row"
	if leaf.list { // a list has three levels, or two or one in files of older writers
		depth, rep, shape = 3, 1, "a list of numbers"
	}
	if leaf.list && len(path) == 1 && found.Node.Type().Kind() == parquet.ByteArray {
		return leaf, fmt.Errorf("holds texts, expected %s. Write lists with df.to_parquet(FILE, engine=\"pyarrow\")", shape)
	}
	if len(path) > depth || found.MaxRepetitionLevel != rep {
		return leaf, fmt.Errorf("is %s, nested %d deep, expected %s", strings.Join(path, "."), found.MaxRepetitionLevel, shape)
	}
	for _, f := range schema.Fields() {
		if f.Name() == path[0] && f.Optional() {
			leaf.present = 1
		}
	}
	leaf.element = leaf.present + 1
	typ := found.Node.Type()
	leaf.unsigned = isLogical[*format.IntType](typ) && !typ.LogicalType().Value.(*format.IntType).IsSigned
	return leaf, checkKind(leaf.column, parquetKind(typ, element), typ)
}

// isLogical reports whether a type has the logical type L.
func isLogical[L any](t parquet.Type) bool {
	if t.LogicalType() == nil {
		return false
	}
	_, ok := t.LogicalType().Value.(L)
	return ok
}

// isHalf reports whether values have half precision. The library returns them as two bytes each and
// does not keep their logical type.
func isHalf(e *format.SchemaElement) bool {
	_, ok := e.LogicalType.Value.(*format.Float16Type)
	return ok && e.Type.V == format.FixedLenByteArray && e.TypeLength.V == 2
}

// parquetKind returns the kind of a type. Logical types give numbers another meaning: dates, times
// and decimals.
func parquetKind(t parquet.Type, element *format.SchemaElement) kind {
	switch t.Kind() {
	case parquet.ByteArray:
		return texts
	case parquet.Int32, parquet.Int64:
		if l := t.LogicalType(); l == nil || l.Value == nil || isLogical[*format.IntType](t) {
			return wholes
		}
	case parquet.Float:
		return singles
	case parquet.Double:
		return doubles
	}
	if isHalf(element) {
		return singles
	}
	return others
}

func (c *cells) fillParquet(row parquet.Row, leaves []parquetLeaf) error {
	for _, v := range row {
		leaf := &leaves[v.Column()]
		if leaf.column < 0 {
			continue
		}
		var err error
		switch {
		case !v.IsNull() && leaf.column == trace.ColRequestID:
			c.id, c.hasID = string(v.ByteArray()), true
		case !v.IsNull():
			err = c.put(leaf.column, leaf.number(v))
		case leaf.list && v.DefinitionLevel() >= leaf.element:
			err = errors.New("a value of the list is null, expected a number")
		case v.DefinitionLevel() >= leaf.present:
			c.startList(leaf.column)
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", trace.ColumnNames[leaf.column], err)
		}
	}
	return nil
}

// number returns a value of a type that bindLeaf accepts.
func (l *parquetLeaf) number(v parquet.Value) numeric {
	switch v.Kind() {
	case parquet.Int32:
		if l.unsigned {
			return numeric{kind: wholes, whole: int64(v.Uint32())}
		}
		return numeric{kind: wholes, whole: int64(v.Int32())}
	case parquet.Int64:
		return numeric{kind: wholes, whole: v.Int64(), huge: l.unsigned && v.Int64() < 0}
	case parquet.Float:
		return numeric{kind: singles, real: float64(v.Float())}
	case parquet.FixedLenByteArray:
		return numeric{kind: singles, real: float64(half(binary.LittleEndian.Uint16(v.ByteArray())))}
	}
	return numeric{kind: doubles, real: v.Double()}
}
