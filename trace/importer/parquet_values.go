package importer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquetLeaf is what a leaf column of the file is to us.
type parquetLeaf struct {
	column  int // of columnNames, -1: not read
	list    bool
	present int // definition level from which the list is there, maybe empty
	element int // definition level of an element that may be null
	// unsigned: numbers below 0 are those above the largest signed one
	unsigned bool
}

// bindLeaf finds out what the leaf column at path holds, which the file declares by element.
func bindLeaf(schema *parquet.Schema, path []string, element *format.SchemaElement) (parquetLeaf, error) {
	leaf := parquetLeaf{column: -1}
	for i, name := range columnNames {
		if name == path[0] {
			leaf.column = i
		}
	}
	found, _ := schema.Lookup(path...)
	leaf.list = leaf.column >= colIndices && leaf.column <= colPromptMass
	if leaf.column < 0 {
		return leaf, nil
	}
	if isOptional(leaf.column) && len(path) == 1 && isLogical[*format.NullType](found.Node.Type()) {
		leaf.column = -1 // what pandas and pyarrow make of a column of None: as good as absent
		return leaf, nil
	}
	depth, rep, shape := 1, 0, "one value a row"
	if leaf.list { // of three levels, or of the two or one of older writers
		depth, rep, shape = 3, 1, "a list of numbers"
	}
	if leaf.list && len(path) == 1 && found.Node.Type().Kind() == parquet.ByteArray {
		return leaf, fmt.Errorf("holds texts, expected %s; fastparquet writes lists as JSON texts, pyarrow as lists: df.to_parquet(FILE, engine=\"pyarrow\")", shape)
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
	leaf.unsigned = isUnsigned(found.Node.Type())
	return leaf, checkType(leaf.column, found.Node.Type(), element)
}

// leafElements are the declarations of a file's leaf columns, in their order.
func leafElements(pf *parquet.File) (leaves []*format.SchemaElement) {
	all := pf.Metadata().Schema
	for i := range all {
		if all[i].Type.Valid {
			leaves = append(leaves, &all[i])
		}
	}
	return leaves
}

// isLogical reports whether a type has that logical one.
func isLogical[L any](t parquet.Type) bool {
	if t.LogicalType() == nil {
		return false
	}
	_, ok := t.LogicalType().Value.(L)
	return ok
}

// isHalf reports whether values are of half precision, two bytes each, which the library
// keeps as bytes and whose logical type it forgets.
func isHalf(e *format.SchemaElement) bool {
	_, ok := e.LogicalType.Value.(*format.Float16Type)
	return ok && e.Type.V == format.FixedLenByteArray && e.TypeLength.V == 2
}

func isUnsigned(t parquet.Type) bool {
	return isLogical[*format.IntType](t) && !t.LogicalType().Value.(*format.IntType).IsSigned
}

// checkType reports a type that cannot hold the column: another physical type, or a logical
// one by which numbers are dates, times or decimals.
func checkType(column int, t parquet.Type, element *format.SchemaElement) error {
	kind := t.Kind()
	if l := t.LogicalType(); l != nil && (kind == parquet.Int32 || kind == parquet.Int64) {
		if _, whole := l.Value.(*format.IntType); !whole && l.Value != nil {
			return fmt.Errorf("has the type %v, expected plain numbers", t)
		}
	}
	ok, want := kind == parquet.Int32 || kind == parquet.Int64, "whole numbers"
	switch column {
	case colIndices, colPredicted:
		want = "positions as whole numbers"
	case colRequest:
		ok, want = kind == parquet.ByteArray, "texts"
	case colScores, colAttention, colPromptMass, colCovered:
		ok, want = kind == parquet.Float || kind == parquet.Double || isHalf(element), wantFloats
	case colHead, colLayer, colPrompt, colStep, colSeqLen:
		ok = ok || kind == parquet.Double
	}
	if !ok {
		return fmt.Errorf("has the type %v, expected %s", t, want)
	}
	return nil
}

// readRow fills the cells from the values of a row.
func (t *parquetTable) readRow(row parquet.Row) error {
	c := &t.cells
	c.reset()
	for _, v := range row {
		leaf := &t.leaves[v.Column()]
		if leaf.column < 0 {
			continue
		}
		if err := c.setParquet(leaf, v); err != nil {
			return fmt.Errorf("column %s: %w", columnNames[leaf.column], err)
		}
	}
	return c.finish(t.source.opts)
}

// setParquet sets a cell, or appends one value to a list.
func (c *cells) setParquet(leaf *parquetLeaf, v parquet.Value) error {
	if v.IsNull() {
		if leaf.list && v.DefinitionLevel() >= leaf.element {
			return errors.New("a value of the list is null, expected a number")
		}
		if leaf.column == colPredicted && v.DefinitionLevel() >= leaf.present {
			c.predicted = []int32{} // present and empty
		}
		if leaf.column == colPromptMass && v.DefinitionLevel() >= leaf.present {
			c.emptyMass = true
		}
		return nil
	}
	switch leaf.column {
	case colRequest:
		c.id, c.hasID = string(v.ByteArray()), true
		return nil
	case colScores:
		c.scores = append(c.scores, float32(parquetFloat(v)))
		if v.Kind() == parquet.Double {
			c.wide = append(c.wide, v.Double())
		}
		return nil
	case colAttention:
		c.attention = append(c.attention, float32(parquetFloat(v)))
		return nil
	case colPromptMass:
		c.promptMass = append(c.promptMass, float32(parquetFloat(v)))
		return nil
	case colCovered:
		f := float32(parquetFloat(v))
		c.covered = &f
		return nil
	}
	return c.setParquetInt(leaf, v)
}

func (c *cells) setParquetInt(leaf *parquetLeaf, v parquet.Value) (err error) {
	x := int64(0)
	switch v.Kind() {
	case parquet.Int32:
		if x = int64(v.Int32()); leaf.unsigned {
			x = int64(v.Uint32())
		}
	case parquet.Int64:
		if x = v.Int64(); leaf.unsigned && x < 0 {
			return fmt.Errorf("is %d, expected a value that int32 holds", v.Uint64())
		}
	default:
		if math.IsNaN(v.Double()) { // what pandas makes of null
			return nil
		}
		if x, err = wholeNumber(v.Double()); err != nil {
			return err
		}
	}
	switch {
	case leaf.list && (x < math.MinInt32 || x > math.MaxInt32):
		return fmt.Errorf("a value of the list is %d, expected one that int32 holds", x)
	case leaf.column == colIndices:
		c.indices = append(c.indices, int32(x))
	case leaf.column == colPredicted:
		c.predicted = append(c.predicted, int32(x))
	default:
		c.ints[leaf.column], c.has[leaf.column] = x, true
	}
	return nil
}

// parquetFloat is a value of one of the types that checkType lets pass.
func parquetFloat(v parquet.Value) float64 {
	switch v.Kind() {
	case parquet.Float:
		return float64(v.Float())
	case parquet.FixedLenByteArray:
		return float64(half(binary.LittleEndian.Uint16(v.ByteArray())))
	}
	return v.Double()
}
