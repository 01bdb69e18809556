package trace

import (
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// listColumns are the list columns of a Writer.
type listColumns struct {
	indices, predicted                listColumn[int32]
	scores, attentionMass, promptMass listColumn[float32]
}

func newListColumns() *listColumns {
	l := &listColumns{}
	l.indices.values, l.predicted.values = encoding.Int32Values, encoding.Int32Values
	l.scores.values, l.attentionMass.values, l.promptMass.values = encoding.FloatValues, encoding.FloatValues, encoding.FloatValues
	return l
}

// begin says that the next rows are those of s.
func (l *listColumns) begin(s *Stream) {
	l.indices.begin(span(s.Indices, s.Offsets))
	l.scores.begin(span(s.Scores, s.Offsets))
	l.attentionMass.begin(span(s.AttentionMass, s.Offsets))
	l.predicted.begin(span(s.Predicted, s.PredictedOffsets))
	l.promptMass.begin(s.PromptMass)
}

// span is what the lists at offsets hold together.
func span[T int32 | float32](values []T, offsets []int32) []T {
	if len(values) == 0 || len(offsets) == 0 {
		return nil
	}
	return values[offsets[0]:offsets[len(offsets)-1]]
}

// end frees the memory of the stream.
func (l *listColumns) end() {
	l.indices.end()
	l.predicted.end()
	l.scores.end()
	l.attentionMass.end()
	l.promptMass.end()
}

// schema is the schema of fileRow with l for the values of its lists.
func (l *listColumns) schema() *parquet.Schema {
	s := parquet.SchemaOf(fileRow{})
	return parquet.NewSchema(s.Name(), schemaRoot{s, l})
}

// schemaRoot is the root of fileRow's schema.
type schemaRoot struct {
	parquet.Node
	lists *listColumns
}

// Fields are the columns.
func (r schemaRoot) Fields() []parquet.Field {
	fields := append([]parquet.Field(nil), r.Node.Fields()...)
	for c, typ := range map[int]func(parquet.Type) parquet.Type{
		colIndices:       typeOf(&r.lists.indices),
		colScores:        typeOf(&r.lists.scores),
		colAttentionMass: typeOf(&r.lists.attentionMass),
		colPredicted:     typeOf(&r.lists.predicted),
		colPromptMass:    typeOf(&r.lists.promptMass),
	} {
		fields[c] = retyped{fields[c], typ}
	}
	return fields
}

func typeOf[T int32 | float32](c *listColumn[T]) func(parquet.Type) parquet.Type {
	return func(t parquet.Type) parquet.Type { return listType[T]{t, c} }
}

// retyped is a field of a schema with another type at its leaf.
type retyped struct {
	parquet.Field
	typ func(parquet.Type) parquet.Type
}

// Type is the leaf's other type.
func (f retyped) Type() parquet.Type {
	if !f.Leaf() {
		return f.Field.Type()
	}
	return f.typ(f.Field.Type())
}

// Fields are what a list is made of.
func (f retyped) Fields() []parquet.Field {
	fields := append([]parquet.Field(nil), f.Field.Fields()...)
	for i := range fields {
		fields[i] = retyped{fields[i], f.typ}
	}
	return fields
}
