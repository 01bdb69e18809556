package importer

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// readRow fills the cells from row i of a batch.
func (t *arrowTable) readRow(batch arrow.Record, i int) error {
	c := &t.cells
	c.reset()
	for column, field := range t.columns {
		if field < 0 {
			continue
		}
		values, at := lookUp(batch.Column(field), i)
		if values.IsNull(at) {
			continue
		}
		if err := c.setArrow(column, values, at); err != nil {
			return fmt.Errorf("column %s: %w", columnNames[column], err)
		}
	}
	return c.finish(t.source.opts)
}

// lookUp is where value i stands: in its dictionary, where there is one, in which it may be
// null.
func lookUp(values arrow.Array, i int) (arrow.Array, int) {
	if d, ok := values.(*array.Dictionary); ok && !d.IsNull(i) {
		return d.Dictionary(), d.GetValueIndex(i)
	}
	return values, i
}

// setArrow sets one cell from value i.
func (c *cells) setArrow(column int, values arrow.Array, i int) (err error) {
	switch column {
	case colRequest:
		c.hasID = true
		c.id, err = arrowString(values, i)
	case colIndices:
		c.indices, err = arrowInts(c.indices, values, i)
	case colPredicted:
		c.predicted, err = arrowInts([]int32{}, values, i)
	case colScores:
		if c.scores, err = arrowFloats(c.scores, values, i); err == nil {
			c.wide, err = arrowDoubles(c.wide, values, i)
		}
	case colAttention:
		c.attention, err = arrowFloats(c.attention, values, i)
	case colPromptMass:
		c.promptMass, err = arrowFloats(c.promptMass, values, i)
		c.emptyMass = len(c.promptMass) == 0
	case colCovered:
		var v float64
		v, err = arrowFloat(values, i)
		f := float32(v)
		c.covered = &f
	default:
		c.ints[column], c.has[column], err = arrowInt(values, i)
	}
	return err
}

func arrowString(values arrow.Array, i int) (string, error) {
	switch a := values.(type) {
	case *array.String:
		return a.Value(i), nil
	case *array.LargeString:
		return a.Value(i), nil
	}
	return "", fmt.Errorf("is %v, expected string", values.DataType())
}

// arrowInt returns value i; a NaN of a double column is what pandas makes of null.
func arrowInt(values arrow.Array, i int) (v int64, has bool, err error) {
	switch a := values.(type) {
	case *array.Int32:
		return int64(a.Value(i)), true, nil
	case *array.Int64:
		return a.Value(i), true, nil
	case *array.Int16:
		return int64(a.Value(i)), true, nil
	case *array.Int8:
		return int64(a.Value(i)), true, nil
	case *array.Uint8:
		return int64(a.Value(i)), true, nil
	case *array.Uint16:
		return int64(a.Value(i)), true, nil
	case *array.Uint32:
		return int64(a.Value(i)), true, nil
	case *array.Uint64:
		if a.Value(i) > math.MaxInt64 {
			return 0, false, fmt.Errorf("is %d, expected a value that int32 holds", a.Value(i))
		}
		return int64(a.Value(i)), true, nil
	case *array.Float64:
		if math.IsNaN(a.Value(i)) {
			return 0, false, nil
		}
		v, err = wholeNumber(a.Value(i))
		return v, err == nil, err
	}
	return 0, false, fmt.Errorf("is %v, expected int32", values.DataType())
}

func arrowFloat(values arrow.Array, i int) (float64, error) {
	switch a := values.(type) {
	case *array.Float32:
		return float64(a.Value(i)), nil
	case *array.Float64:
		return a.Value(i), nil
	case *array.Float16:
		return float64(half(a.Value(i).Uint16())), nil
	}
	return 0, fmt.Errorf("is %v, expected %s", values.DataType(), wantFloats)
}

// arrowList returns the values of list i and where they lie.
func arrowList(values arrow.Array, i int) (inner arrow.Array, from, to int, err error) {
	list, ok := values.(array.ListLike)
	if !ok {
		return nil, 0, 0, fmt.Errorf("is %v, expected a list", values.DataType())
	}
	start, end := list.ValueOffsets(i)
	inner = list.ListValues()
	if start < 0 || end < start || end > int64(inner.Len()) {
		return nil, 0, 0, fmt.Errorf("list at %d to %d of %d values: damaged", start, end, inner.Len())
	}
	if inner.NullN() > 0 {
		for j := start; j < end; j++ {
			if inner.IsNull(int(j)) {
				return nil, 0, 0, fmt.Errorf("value %d of the list is null, expected a number", j-start)
			}
		}
	}
	return inner, int(start), int(end), nil
}

func arrowInts(dst []int32, values arrow.Array, i int) ([]int32, error) {
	inner, from, to, err := arrowList(values, i)
	if err != nil {
		return dst, err
	}
	if a, ok := inner.(*array.Int32); ok {
		return append(dst, a.Int32Values()[from:to]...), nil
	}
	if !arrow.IsInteger(inner.DataType().ID()) {
		return dst, fmt.Errorf("is a list of %v, expected positions as whole numbers", inner.DataType())
	}
	for j := from; j < to; j++ {
		v, _, err := arrowInt(inner, j)
		if err != nil {
			return dst, fmt.Errorf("value %d of the list %w", j-from, err)
		}
		if v < math.MinInt32 || v > math.MaxInt32 {
			return dst, fmt.Errorf("value %d of the list is %d, expected one that int32 holds", j-from, v)
		}
		dst = append(dst, int32(v))
	}
	return dst, nil
}

func arrowFloats(dst []float32, values arrow.Array, i int) ([]float32, error) {
	inner, from, to, err := arrowList(values, i)
	if err != nil {
		return dst, err
	}
	if a, ok := inner.(*array.Float32); ok {
		return append(dst, a.Float32Values()[from:to]...), nil
	}
	for j := from; j < to; j++ {
		v, err := arrowFloat(inner, j)
		if err != nil {
			return dst, fmt.Errorf("is a list; its value %w", err)
		}
		dst = append(dst, float32(v))
	}
	return dst, nil
}

// arrowDoubles appends a list of doubles as they are; of other lists nothing.
func arrowDoubles(dst []float64, values arrow.Array, i int) ([]float64, error) {
	inner, from, to, err := arrowList(values, i)
	if a, ok := inner.(*array.Float64); ok && err == nil {
		dst = append(dst, a.Float64Values()[from:to]...)
	}
	return dst, err
}
