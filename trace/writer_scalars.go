package trace

import (
	"bytes"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// scalarRow is fileRow without its lists.
type scalarRow struct {
	RequestID   string   `parquet:"request_id,dict"`
	LayerID     int32    `parquet:"layer_id,dict"`
	Head        *int32   `parquet:"head,optional,dict"`
	PromptLen   int32    `parquet:"prompt_len,dict"`
	Step        int32    `parquet:"step,delta"`
	SeqLen      int32    `parquet:"seq_len,delta"`
	CoveredMass *float32 `parquet:"covered_mass,optional"`
}

// scalarPlaces are the columns of scalarRow among those of fileRow.
var scalarPlaces = [...]int{colRequestID, colLayerID, colHead, colPromptLen, colStep, colSeqLen, colCoveredMass}

// scalarColumns are the columns without lists, of the open row group: the library writes
// them as a file of their own, in memory.
type scalarColumns struct {
	file   bytes.Buffer
	writer *parquet.GenericWriter[scalarRow]
	rows   []scalarRow
	count  int // rows in the open row group
}

func newScalarColumns() *scalarColumns {
	s := &scalarColumns{}
	s.writer = parquet.NewGenericWriter[scalarRow](&s.file, writerOptions()...)
	return s
}

// write appends what rows have besides lists.
func (s *scalarColumns) write(rows []fileRow) error {
	s.rows = s.rows[:0]
	for i := range rows {
		r := &rows[i]
		s.rows = append(s.rows, scalarRow{r.RequestID, r.LayerID, r.Head, r.PromptLen, r.Step, r.SeqLen, r.CoveredMass})
	}
	n, err := s.writer.Write(s.rows)
	s.count += n
	return err
}

// finish ends the row group, of one row at least: it returns the group and puts the chunks
// of its columns into their places among chunks. Their pages are valid until the next write.
func (s *scalarColumns) finish(chunks *[numColumns]columnChunk) (*format.RowGroup, error) {
	if err := s.writer.Close(); err != nil {
		return nil, err
	}
	data := s.file.Bytes()
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	group := &file.Metadata().RowGroups[0]
	for i, place := range scalarPlaces {
		meta := group.Columns[i].MetaData
		meta.PathInSchema = []string{columnNames[place]} // which a writer forgets when it is reset
		from, to := chunkRange(&meta)
		chunks[place] = columnChunk{
			pages:   [][]byte{data[from:to]},
			at:      from,
			meta:    meta,
			index:   file.ColumnIndexes()[i],
			offsets: file.OffsetIndexes()[i],
		}
	}
	s.file.Reset()
	s.writer.Reset(&s.file)
	s.count = 0
	return group, nil
}
