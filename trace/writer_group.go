package trace

import (
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// groupWriter makes the row groups of a Writer. The library marks each value of a list with
// two levels, and counts these one by one; here that is done by the list. The columns
// without lists are the library's.
type groupWriter struct {
	scalars *scalarColumns
	lists   [numColumns]listWriter // nil where the column is no list

	indices, predicted                *listColumn[int32]
	scores, attentionMass, promptMass *listColumn[float32]
}

// listWriter is a listColumn of any values.
type listWriter interface {
	end()
	size() int
	flush() error
	finish() (columnChunk, error)
}

func newGroupWriter(schema *parquet.Schema) *groupWriter {
	w := &groupWriter{
		scalars:       newScalarColumns(),
		indices:       newListColumn(schema, colIndices, encoding.Int32Values),
		predicted:     newListColumn(schema, colPredicted, encoding.Int32Values),
		scores:        newListColumn(schema, colScores, encoding.FloatValues),
		attentionMass: newListColumn(schema, colAttentionMass, encoding.FloatValues),
		promptMass:    newListColumn(schema, colPromptMass, encoding.FloatValues),
	}
	w.lists = [numColumns]listWriter{
		colIndices: w.indices, colPredicted: w.predicted,
		colScores: w.scores, colAttentionMass: w.attentionMass, colPromptMass: w.promptMass,
	}
	return w
}

// begin says that the next rows are those of s.
func (w *groupWriter) begin(s *Stream) {
	w.indices.begin(span(s.Indices, s.Offsets))
	w.scores.begin(span(s.Scores, s.Offsets))
	w.attentionMass.begin(span(s.AttentionMass, s.Offsets))
	w.predicted.begin(span(s.Predicted, s.PredictedOffsets))
	w.promptMass.begin(s.PromptMass)
}

// span is what the lists at offsets hold together.
func span[T int32 | float32](values []T, offsets []int32) []T {
	if len(values) == 0 || len(offsets) == 0 {
		return nil
	}
	return values[offsets[0]:offsets[len(offsets)-1]]
}

// end frees the memory of the stream.
func (w *groupWriter) end() {
	for _, c := range w.lists {
		if c != nil {
			c.end()
		}
	}
}

// write appends rows of the stream, up to RowsPerWrite, and ends the pages that are full.
func (w *groupWriter) write(rows []fileRow) error {
	if err := w.scalars.write(rows); err != nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		w.indices.add(row.TopKIndices)
		w.scores.add(row.Scores)
		w.attentionMass.add(row.AttentionMass)
		w.predicted.add(row.Predicted)
		w.promptMass.add(row.PromptMass)
	}
	full := int(float64(pageBytes) * 0.98) // as the library has it
	for _, c := range w.lists {
		if c == nil || c.size() < full {
			continue
		}
		if err := c.flush(); err != nil {
			return err
		}
	}
	return nil
}

// finish ends the row group, and opens the next one. The chunks' pages are valid until the
// next write.
func (w *groupWriter) finish() (group *format.RowGroup, chunks [numColumns]columnChunk, err error) {
	if group, err = w.scalars.finish(&chunks); err != nil {
		return nil, chunks, err
	}
	for i, c := range w.lists {
		if c == nil {
			continue
		}
		if chunks[i], err = c.finish(); err != nil {
			return nil, chunks, err
		}
	}
	return group, chunks, nil
}
